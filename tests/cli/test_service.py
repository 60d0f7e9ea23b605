"""Both processes at work: started, asked, told to reload, drained, cut; and what is said at the start."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from proxy.cli import USAGE
from proxy.cli.service import Service, hello, trust
from proxy.config import MASK, Limit, Metrics, Prefixes, Settings, Timeouts, Upstream
from proxy.engines.fingerprint import Fingerprint
from proxy.flaws import ConfigError, Flaw
from proxy.office.logs import configure
from proxy.office.sparing import BURST
from tests.support.client import Answer, SocketClient, simple_request
from tests.support.clock import ManualClock
from tests.support.engine import SocketEngine
from tests.support.patience import run, until
from tests.support.script import NOT_FOUND, OK, Call, Read, Script
from tests.support.streams import DONE, chat, chunk, stream

CHAT = simple_request(chat(stream=True))
SLOW = stream((0, chunk("Hi")), (600, chunk("!", "stop")), (600, DONE))
STUCK = Script(headers=SLOW.headers, reads=(Read(0, chunk("Hi")),), ending="stall")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def say(text: str) -> None:
    print(text, file=sys.stderr)


def unread() -> Settings:
    raise AssertionError("nobody asked to reload")


class Running:
    """A service and the engine behind it. `code` is what `run` gave, once it has."""

    def __init__(self, service: Service, engine: SocketEngine, port: int, work: asyncio.Task[int]) -> None:
        self.service = service
        self.engine = engine
        self.client = SocketClient("127.0.0.1", port)
        self.work = work

    async def ask(self) -> Answer:
        return await self.client.ask(CHAT)

    async def asked(self, count: int) -> None:
        """Until so many exchanges are at the engine."""
        await until(lambda: sum(call.header("x-request-id") is not None for call in self.engine.calls) >= count)


@contextlib.asynccontextmanager
async def running(
    script: Script, tmp_path: Path, reread: Callable[[], Settings] = unread, **settings: Any
) -> AsyncIterator[Running]:
    """A service that listens; it must be told to stop by the test."""

    def choose(call: Call) -> Script:
        return script if call.header("x-request-id") else NOT_FOUND

    engine, port = SocketEngine(choose), free_port()
    await engine.start()
    made = Settings(
        listen=f"127.0.0.1:{port}",
        admin=f"127.0.0.1:{free_port()}",
        upstream=(Upstream(url=f"http://{engine.name}", name="engine"),),
        records=str(tmp_path / "records.jsonl"),
        quiet=True,
        **settings,
    )
    service = Service(made, reread, say)
    work = asyncio.create_task(service.run())
    try:
        await until(lambda: bool(service._listener.addresses) or work.done())
        yield Running(service, engine, port, work)
        await work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await engine.stop()


def records(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "records.jsonl").read_text("utf-8").splitlines()]


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_it_serves_says_so_drains_and_leaves_every_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async with running(SLOW, tmp_path, state=str(tmp_path / "state.json")) as it:
            asking = asyncio.create_task(it.ask())
            await it.asked(1)
            await until(lambda: "point clients here" in capsys.readouterr().err)
            stop()
            answer = await asking
            assert (answer.status, answer.end) == (200, "complete")
            assert await it.work == 0
            with pytest.raises(ConnectionError):
                await it.ask()

    run(test)
    (record,) = records(tmp_path)
    assert (record["outcome"], record["engine"]) == ("completed", "engine")
    assert json.loads((tmp_path / "state.json").read_text("utf-8"))["v"] == 1


def test_a_second_signal_cuts_what_still_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(STUCK, tmp_path) as it:
            asking = asyncio.create_task(it.ask())
            await it.asked(1)
            await asyncio.sleep(0.2)  # the first chunk is on its way
            stop()
            await asyncio.sleep(0.2)
            assert not it.work.done()
            stop()
            assert (await asking).end == "aborted"

    run(test)
    assert [record["outcome"] for record in records(tmp_path)] == ["proxy_error"]


def test_the_drain_limit_cuts_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(STUCK, tmp_path, timeouts=Timeouts(drain_s=0.2)) as it:
            asking = asyncio.create_task(it.ask())
            await it.asked(1)
            stop()
            await asking

    run(test)
    assert [record["outcome"] for record in records(tmp_path)] == ["proxy_error"]


def test_limits_are_read_anew_and_what_cannot_stand_changes_nothing(tmp_path: Path) -> None:
    answers: list[Settings | ConfigError] = [
        Settings(limit=(Limit(name="none", max_output_tokens=1),)),
        ConfigError(Flaw("limit.max_concurrency", "0"), Flaw("admin", "x")),
    ]

    def reread() -> Settings:
        answer = answers.pop(0)
        if isinstance(answer, ConfigError):
            raise answer
        return answer

    async def test() -> None:
        async with running(OK, tmp_path, reread) as it:
            request = simple_request(chat(max_tokens=9))
            assert (await it.client.ask(request)).status == 200
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: len(answers) == 1)
            assert (await it.client.ask(request)).status == 400
            shown = json.loads(it.service._sender._hello.config)
            assert ([limit["name"] for limit in shown["limit"]], shown["listen"]) == (
                ["none"],
                it.service._settings.listen,
            )
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: not answers)
            assert (await it.client.ask(request)).status == 400
            stop()

    with capture_logs() as logs:
        run(test)
    assert [(entry["event"], entry.get("reason")) for entry in logs if "reload" in entry["event"]] == [
        ("reloaded", None), ("reload_refused", "limit.max_concurrency: 0; admin: x"),
    ]  # fmt: skip
    (done,) = (entry for entry in logs if entry["event"] == "reloaded")
    assert done["scope"] == "limits and keys alone; the rest needs a restart"


@pytest.mark.parametrize("refused", [0, 1], ids=["the last stands", "the last is refused"])
def test_of_reloads_in_quick_succession_each_is_logged_and_the_last_is_in_force(tmp_path: Path, refused: int) -> None:
    times, lines = 3 * BURST, list[str]()
    numbers, readings = itertools.count(), asyncio.Queue[int]()

    def reread() -> Settings:
        number = next(numbers)
        readings.put_nowait(number)
        if number % 2 == refused:
            raise ConfigError(Flaw("limit", f"reading {number}"))
        return Settings(limit=(Limit(name=f"reading {number}", max_output_tokens=1),))

    async def test() -> None:
        async with running(OK, tmp_path, reread) as it:
            for number in range(times):
                os.kill(os.getpid(), signal.SIGHUP)
                assert await readings.get() == number
            (limit,) = it.service._settings.limit
            assert limit.name == f"reading {times - 1 - refused}"
            stop()

    configure("info", as_json=True, put=lines.append, clock=ManualClock())
    try:
        run(test)
    finally:
        structlog.reset_defaults()
    said = [entry for entry in map(json.loads, lines) if "reload" in entry["event"]]
    assert [entry.get("reason") for entry in said] == [
        f"limit: reading {number}" if number % 2 == refused else None for number in range(times)
    ]


def test_an_address_that_is_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen = f"127.0.0.1:{taken.getsockname()[1]}"
            assert await Service(Settings(listen=listen, quiet=True), unread, say).run() == USAGE
            said = f"listen: cannot listen on {listen}: Address already in use; --listen gives another address\n"
            assert capsys.readouterr().err == f"phasegate: {said}"

    run(test)


def test_an_admin_address_that_is_taken_is_said_and_the_other_is_free_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen, admin = f"127.0.0.1:{free_port()}", f"127.0.0.1:{taken.getsockname()[1]}"
            assert await Service(Settings(listen=listen, admin=admin, quiet=True), unread, say).run() == USAGE
            assert f"admin: cannot listen on {admin}: Address already in use; --admin gives" in capsys.readouterr().err
            with pytest.raises(ConnectionError):
                await SocketClient("127.0.0.1", int(listen.rpartition(":")[2])).ask(CHAT)

    run(test)


def test_a_drain_is_logged_with_what_is_in_flight(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(SLOW, tmp_path) as it:
            asking = asyncio.create_task(it.ask())
            await it.asked(1)
            stop()
            await asking

    with capture_logs() as logs:
        run(test)
    assert [entry["in_flight"] for entry in logs if entry["event"] == "draining"] == [1]


def test_what_must_outlive_a_restart_is_written_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.cli.service.KEEP_S", 0.01)

    async def test() -> None:
        async with running(OK, tmp_path, state=str(tmp_path / "state.json")):
            await until((tmp_path / "state.json").exists)
            stop()

    run(test)


def test_a_state_that_cannot_be_written_is_logged_and_no_more(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(OK, tmp_path, state=str(tmp_path / "gone" / "state.json")):
            stop()

    with capture_logs() as logs:
        run(test)
    (entry,) = (entry for entry in logs if entry["event"] == "state_not_kept")
    assert entry["error"] == "No such file or directory"


def test_a_bug_beside_traffic_is_logged_at_once_and_traffic_goes_on(tmp_path: Path) -> None:
    def bug() -> Any:
        raise ZeroDivisionError("secret")

    async def test() -> None:
        async with running(OK, tmp_path) as it:
            state, it.service._app.state = it.service._app.state, bug  # type: ignore[method-assign]
            await until(lambda: any(entry["event"] == "task_died" for entry in logs))
            it.service._app.state = state  # type: ignore[method-assign]
            assert (await it.ask()).status == 200
            stop()

    with capture_logs() as logs:
        run(test)
    (entry,) = (entry for entry in logs if entry["event"] == "task_died")
    assert (entry["task"], entry["error"]) == ("pulse", "ZeroDivisionError")


# --- what is said ---


def banner(settings: Settings, **found: Fingerprint) -> str:
    """What is said at the start, where these engines (by label) were found."""

    async def test() -> str:
        service = Service(settings, unread, say)
        for engine in service._app.fleet.engines:
            engine.seen(found.get(engine.name.replace("localhost:", "port"), Fingerprint()))
        return "\n".join(service.banner())

    return asyncio.run(test())


def test_the_banner_names_what_was_found_and_where_to_point_clients() -> None:
    settings = Settings(listen="127.0.0.1:9", upstream=(Upstream(url="http://a:1", name="gpu"),))
    said = banner(settings, gpu=Fingerprint("vllm", "0.32.0", models=tuple("abcdef"), answers=True))
    assert "  gpu  vllm 0.32.0  a, b, c, d and 2 more\n" in said
    assert "export OPENAI_BASE_URL=http://127.0.0.1:9/v1\n" in said
    assert said.endswith("export ANTHROPIC_BASE_URL=http://127.0.0.1:9")
    assert "no answer" not in said


@pytest.mark.parametrize(
    ("listen", "here"),
    [("0.0.0.0:9", "127.0.0.1"), (":9", "127.0.0.1"), ("[::]:9", "[::1]")],
    ids=["ipv4", "empty", "ipv6"],
)
def test_the_banner_names_an_address_that_a_client_can_use(listen: str, here: str) -> None:
    said = banner(Settings(listen=listen, admin="0.0.0.0:10"))
    family = "IPv6" if here == "[::1]" else "IPv4"
    assert f"listens on http://{here}:9 and all other {family} addresses, admin on http://127.0.0.1:10 and all" in said
    assert set(re.findall(r"export \w+=http://(.*):9", said)) == {here}
    assert said.endswith(f"\n    on other machines   this one's name or address in place of {here}")
    assert "other machines" not in banner(Settings(listen="gpu-box:9", admin="0.0.0.0:10"))


def test_the_banner_names_the_port_that_a_free_one_became() -> None:
    async def test() -> tuple[str, int]:
        service = Service(Settings(listen="127.0.0.1:0", upstream=(Upstream(url="http://a:1"),)), unread, say)
        await service._listener.start()
        try:
            return "\n".join(service.banner()), service._listener.addresses[0][1]
        finally:
            service._listener.stop_accepting()

    said, port = asyncio.run(test())
    assert f"OPENAI_BASE_URL=http://127.0.0.1:{port}/v1\n" in said
    assert port


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("ollama", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"]),
        ("llamacpp", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"]),
        ("sglang", ["OPENAI_BASE_URL"]),
        ("openai", ["OPENAI_BASE_URL"]),
        (None, ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"]),
    ],
)
def test_the_banner_names_the_clients_that_the_engines_can_serve(kind: str | None, names: list[str]) -> None:
    settings = Settings(upstream=(Upstream(url="http://a:1", name="e"),))
    said = banner(settings, **({"e": Fingerprint(kind, answers=True)} if kind else {}))
    assert re.findall(r"export (\w+)=", said) == names


def test_the_banner_names_who_does_not_answer_yet() -> None:
    two = (Upstream(url="http://a:1", name="gpu"), Upstream(url="http://b:1"))
    said = banner(Settings(upstream=two), gpu=Fingerprint("vllm", None, answers=True))
    assert "  gpu  vllm\n" in said
    assert "no answer yet from b:1; looking again" in said


@pytest.mark.parametrize(
    ("key", "said"), [("", "gpu wants a key: set upstream.api_key"), ("k", "gpu refuses its upstream.api_key")]
)
def test_the_banner_names_an_engine_that_wants_a_key(key: str, said: str) -> None:
    settings = Settings(upstream=(Upstream(url="http://a:1", name="gpu", api_key=key),))
    assert said in banner(settings, gpu=Fingerprint("llamacpp", answers=True, barred=True))
    assert "key" not in banner(settings, gpu=Fingerprint("llamacpp", answers=True))


def test_where_engines_are_looked_for_silent_ones_matter_only_when_all_are() -> None:
    said = banner(Settings(), port11434=Fingerprint("ollama", "0.33.0", models=("m",), answers=True))
    assert "localhost:11434  ollama 0.33.0  m" in said
    assert "no answer" not in said
    said = banner(Settings())
    for place in ("localhost:11434 (Ollama)", "localhost:8000 (vLLM)", "localhost:30000 (SGLang)"):
        assert place in said


def test_a_proxy_in_an_engines_old_place_does_not_look_for_it_there() -> None:
    said = banner(Settings(listen="127.0.0.1:30000", admin="127.0.0.1:8080"))
    assert "localhost:8000" in said
    assert "localhost:30000" not in said
    assert "localhost:8080" not in said


def test_the_office_is_told_all_it_must_know_and_its_page_no_secret() -> None:
    settings = Settings(
        admin="[::1]:9", admin_token="t0p", admin_hosts=("a.example",), records="r", store="s", store_days=1.0,
        store_mb=2, quiet=True, log_level="debug", log_json=True, scrape_s=3.0, metrics=Metrics(models=4, tenants=5),
        upstream=(Upstream(url="https://a:1", api_key="k3y", ca_file="ca.pem"),), prefixes=Prefixes(capture_text=True),
    )  # fmt: skip
    told = hello(settings, b"audit")
    assert (told.pid, told.admin_host, told.admin_port, told.admin_token) == (os.getpid(), "::1", 9, "t0p")
    assert (told.admin_hosts, told.records, told.store, told.store_days, told.store_mb) == (
        ("a.example",), "r", "s", 1.0, 2,
    )  # fmt: skip
    assert (told.models, told.tenants, told.live, told.log_level, told.log_json, told.scrape_s) == (
        4, 5, False, "debug", True, 3.0,
    )  # fmt: skip
    assert (told.audit_key, told.capture_text) == (b"audit", True)
    (engine,) = told.engines
    assert (engine.name, engine.url, engine.api_key, engine.ca_file) == ("a:1", "https://a:1", "k3y", "ca.pem")
    shown = json.loads(told.config)
    assert (shown["admin_token"], shown["upstream"][0]["api_key"]) == (MASK, MASK)
    assert "t0p" not in told.config
    assert "k3y" not in told.config


def test_a_ca_is_trusted_for_its_own_engine_alone() -> None:
    engines = (Upstream(url="https://a:1", ca_file="ca.pem"), Upstream(url="https://b:1"))
    assert trust(engines) == {"a:1": "ca.pem"}
