"""Both processes at work: started, asked, told to reload, drained, cut."""

import asyncio
import contextlib
import itertools
import json
import os
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
from proxy.cli.service import Service
from proxy.config import Limit, Settings, Timeouts, Upstream
from proxy.flaws import ConfigError, Flaw
from proxy.office.logs import configure
from proxy.office.process import OfficeProcess
from proxy.office.sparing import BURST
from tests.support.client import Answer, SocketClient, simple_request
from tests.support.clock import ManualClock
from tests.support.engine import SocketEngine
from tests.support.loopback import free_port
from tests.support.patience import run, until
from tests.support.script import NOT_FOUND, OK, Call, Read, Script
from tests.support.streams import DONE, chat, chunk, stream

CHAT = simple_request(chat(stream=True))
SLOW = stream((0, chunk("Hi")), (600, chunk("!", "stop")), (600, DONE))
STUCK = Script(headers=SLOW.headers, reads=(Read(0, chunk("Hi")),), ending="stall")


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
    assert (done["scope"], done["log_level"]) == ("limits and keys alone", "warning")
    assert {"listen", "upstream"} < {*done["needs_restart"].split(", ")}


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


def test_a_bug_in_the_keeper_of_the_office_is_logged_and_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bug(keeper: OfficeProcess) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(OfficeProcess, "_keep", bug)

    async def test() -> None:
        async with running(OK, tmp_path) as it:
            await until(lambda: any(entry["event"] == "task_died" for entry in logs))
            assert (await it.ask()).status == 200
            stop()
            assert await it.work == 0

    with capture_logs() as logs:
        run(test)
    (entry,) = (entry for entry in logs if entry["event"] == "task_died")
    assert (entry["task"], entry["error"]) == ("office", "ZeroDivisionError")


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
