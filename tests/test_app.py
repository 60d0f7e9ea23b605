"""The data process put together: what runs, what outlives what, what the office is told."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.config import Limit, Settings, Tenants
from proxy.flaws import ConfigError
from proxy.records import Outcome
from tests.support.client import Request, simple_request
from tests.support.clock import VirtualLoop, run
from tests.support.house import URL, House, keys
from tests.support.pages import ollama as said
from tests.support.pages import serving, vllm
from tests.support.script import NOT_FOUND, OK, Call, Read, Script
from tests.support.streams import JSON, MS, WHOLE, chat, ollama, plain

CHAT = simple_request(chat())


RATE = {"limit": [{"name": "r", "requests_per_minute": 2}]}


# --- reload ---


def test_a_reload_changes_limits_and_keys_and_keeps_what_was_used(tmp_path: Path) -> None:
    async def main(loop: VirtualLoop) -> list[int | None]:
        house = House(loop, OK, **RATE)
        statuses = [(await house.ask(CHAT)).status for _ in range(3)]
        house.app.reload(replaced(house, limit=(Limit(name="r", requests_per_minute=60),)))
        statuses.append((await house.ask(CHAT)).status)  # used is used: all of it is still taken
        await asyncio.sleep(2)
        statuses.append((await house.ask(CHAT)).status)
        house.app.reload(replaced(house, limit=(), tenants=Tenants(**keys(tmp_path)["tenants"])))
        statuses.append((await house.ask(CHAT)).status)
        return statuses

    assert run(main) == [200, 200, 429, 429, 200, 401]


def test_a_reload_changes_nothing_but_limits_and_keys() -> None:
    async def main(loop: VirtualLoop) -> tuple[Settings, Settings]:
        house = House(loop, OK)
        before = house.app.settings
        anew = replaced(house, limit=(Limit(name="r", max_output_tokens=9),), body_limit_bytes=1, state="/elsewhere")
        house.app.reload(anew)
        return before, house.app.settings

    before, after = run(main)
    assert (after.body_limit_bytes, after.state) == (before.body_limit_bytes, before.state)
    assert [limit.name for limit in after.limit] == ["r"]


def test_a_reload_that_cannot_stand_changes_nothing() -> None:
    async def main(loop: VirtualLoop) -> int | None:
        house = House(loop, OK)
        with pytest.raises(ConfigError, match="keys_file"):
            house.app.reload(replaced(house, limit=(Limit(name="r", requests_per_minute=1),), tenants=Tenants("/no")))
        await house.ask(CHAT)
        return (await house.ask(CHAT)).status

    assert run(main) == 200


def replaced(house: House, **changes: Any) -> Settings:
    return Settings(**{**{key: getattr(house.app.settings, key) for key in Settings.__struct_fields__}, **changes})


# --- what engines say of their windows ---


@pytest.mark.parametrize(("name", "status"), [("m", 400), ("library/M", 400), ("other", 200)])
def test_no_window_is_believed_that_the_model_was_not_trained_for(name: str, status: int) -> None:
    async def main(loop: VirtualLoop) -> int | None:
        tags = [{"name": "m:latest", "details": {"context_length": 512}}, {"name": "other:latest"}]
        pages = {**said(**dict.fromkeys(("m:latest", "other:latest"), "w")), "/api/tags": {"models": tags}}
        settings = {"upstream": [{"url": URL}], "limit": [{"name": "r", "within_window": True}]}
        house = House(loop, OK, looks=serving({URL.removeprefix("http://"): pages}), **settings)
        await house.app.lookout.look_at_all()
        body = {"model": name, "messages": [{"role": "user", "content": "word " * 900}], "options": {"num_ctx": 8192}}
        return (await house.ask(simple_request(json.dumps(body).encode(), "/api/chat"))).status

    assert run(main) == status


# --- what outlives a restart ---


def test_a_budget_outlives_a_restart(tmp_path: Path) -> None:
    limit = {"name": "r", "tokens_per_day": 50}
    settings = {"limit": [limit], "state": str(tmp_path / "state.json")}

    async def main(loop: VirtualLoop) -> list[int | None]:
        statuses = []
        for _ in range(2):
            house = House(loop, plain(200, USED), **settings)
            house.app.remember()
            statuses += [(await house.ask(CHAT)).status for _ in range(2)]
            await house.app.keep()
        return statuses

    assert run(main) == [200, 429, 429, 429]


USED = {
    "choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 30, "completion_tokens": 30, "total_tokens": 60},
}


def test_what_counting_learnt_outlives_a_restart(tmp_path: Path) -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        hows = []
        for times in (20, 1):
            house = House(loop, plain(200, USED), state=str(tmp_path / "state.json"))
            house.app.remember()
            for _ in range(times):
                await house.ask(CHAT)
            await house.app.keep()
            hows += [record.counted.how for record in house.records if record.counted is not None]
        return [hows[0], hows[-1]]

    assert run(main) == ["estimated", "calibrated"]


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    async def main(loop: VirtualLoop) -> None:
        house = House(loop, OK)
        house.app.remember()
        await house.app.keep()

    run(main)


LIMITED = {"name": "h", "tokens_per_hour": 100}
GOOD = {"key": ["tokens_per_hour", "h"], "window": 0, "used": 1}


@pytest.mark.parametrize(
    ("state", "left_out"),
    [
        pytest.param([], 1, id="a list"),
        pytest.param({"limits": 5}, 1, id="limits of no shape"),
        pytest.param({"limits": {"budgets": [{"key": ["tokens_per_hour", "h"]}, GOOD]}}, 1, id="a budget of no window"),
        pytest.param({"limits": {"budgets": None}}, 1, id="no budgets"),
        pytest.param({"counting": [1]}, 1, id="counting of no shape"),
        pytest.param({"counting": {"engine.test:8000": [1]}}, 1, id="an engine of no shape"),
        pytest.param({"counting": {"engine.test:8000": {"m": 5, "n": None}}, "limits": []}, 3, id="all odd"),
        pytest.param({"counting": {"another engine": 5}}, 0, id="an engine that is gone"),
        pytest.param({}, 0, id="empty"),
    ],
)
def test_an_odd_state_is_left_out_with_one_warning(tmp_path: Path, state: object, left_out: int) -> None:
    file = tmp_path / "state.json"
    file.write_text(json.dumps(state))

    async def main(loop: VirtualLoop) -> int | None:
        house = House(loop, OK, state=str(file), limit=[LIMITED])
        house.app.remember()
        return (await house.ask(CHAT)).status

    with capture_logs() as logs:
        assert run(main) == 200
    expected = [{"event": "state_odd", "file": str(file), "left_out": left_out, "log_level": "warning"}]
    assert logs == (expected if left_out else [])


def test_the_last_state_that_was_to_be_kept_is_the_one_that_is(tmp_path: Path) -> None:
    settings = {"limit": [LIMITED], "state": str(tmp_path / "state.json")}

    async def main(loop: VirtualLoop) -> None:
        house = House(loop, plain(200, USED), **settings)
        early = asyncio.ensure_future(house.app.keep())
        await house.ask(CHAT)
        await asyncio.gather(early, house.app.keep())

    run(main)
    ((budget,), kept) = (json.loads((tmp_path / "state.json").read_text())["limits"]["budgets"], os.listdir(tmp_path))
    assert (budget["used"], kept) == (60, ["state.json"])


# --- the end of the process, and its state ---


def test_idle_returns_when_the_last_exchange_has_ended_and_cut_ends_them() -> None:
    async def main(loop: VirtualLoop) -> list[Outcome]:
        house = House(loop, plain(200, {}, at_ms=60_000))
        await house.app.idle()
        asking = [asyncio.create_task(house.ask(CHAT)) for _ in range(3)]
        await asyncio.sleep(1)
        assert house.app.in_flight == 3
        ended = asyncio.create_task(house.app.idle())
        await asyncio.sleep(1)
        assert not ended.done()
        house.app.cut()
        await ended
        assert [answer.status for answer in await asyncio.gather(*asking)] == [503] * 3
        assert house.app.in_flight == 0
        await house.app.aclose()
        return [record.outcome for record in house.records]

    assert run(main) == [Outcome.PROXY_ERROR] * 3


def test_in_flight_is_what_has_arrived_whole() -> None:
    body = b'{"model":"m","messages":[]}'
    headers = (("content-type", "application/json"), ("content-length", str(len(body))))
    slow = Request(headers=headers, pieces=((0, body[:5]), (2_000 * MS, body[5:])))
    blob = replace(slow, target="/api/blobs/x")

    async def main(loop: VirtualLoop) -> list[int]:
        house = House(loop, plain(200, {}, at_ms=2_000))
        asking = [asyncio.create_task(house.ask(each)) for each in (slow, blob)]
        seen = []
        for _ in range(3):
            await asyncio.sleep(1.5)
            seen.append(house.app.in_flight)
        await asyncio.gather(*asking)
        return seen

    assert run(main) == [1, 2, 0]


def test_who_waits_for_an_engine_is_not_in_flight_there() -> None:
    async def main(loop: VirtualLoop) -> list[tuple[int, int]]:
        house = House(loop, WHOLE, limit=[{"name": "one", "max_concurrency": 1, "queue_length": 5}])
        seen = []
        asked = [asyncio.ensure_future(house.ask(simple_request(chat(stream=True)))) for _ in range(3)]
        for _ in range(4):
            await asyncio.sleep(0.15)
            (engine,) = house.app.state().engines
            seen.append((engine.in_flight, engine.queued))
        await asyncio.gather(*asked)
        (engine,) = house.app.state().engines
        return [*seen, (engine.in_flight, engine.queued)]

    assert run(main) == [(1, 2), (1, 1), (1, 0), (1, 0), (0, 0)]


def test_the_state_is_what_the_office_must_know() -> None:
    async def main(loop: VirtualLoop) -> None:
        pages = serving({"engine.test:8000": vllm("m1")})
        upstream = [{"url": URL, "name": "gpu", "api_key": "secret", "slots": 4}]
        one = [{"name": "one", "max_concurrency": 1, "queue_length": 5}]
        house = House(loop, plain(200, {}, at_ms=5_000), looks=pages, upstream=upstream, limit=one)
        await house.app.lookout.look_at_all()
        asking = [asyncio.create_task(house.ask(CHAT)) for _ in range(3)]
        await asyncio.sleep(1)
        house.app.draining = True
        state = house.app.state()
        (engine,) = state.engines
        assert (state.in_flight, state.draining, state.at_s) == (3, True, loop.clock.wall_s())
        assert (engine.name, engine.kind, engine.version, engine.authority) == (
            "gpu", "vllm", "0.32.0", "engine.test:8000",
        )  # fmt: skip
        assert (engine.answers, engine.models, engine.slots) == (True, ("m1",), 4)
        assert "secret" not in repr(state)
        assert set(json.loads(state.admission)) >= {"counting"}
        assert json.loads(state.admission)["counting"].keys() == {"gpu"}
        await asyncio.gather(*asking)

    run(main)


def test_what_is_no_http_is_left_alone() -> None:
    async def main(loop: VirtualLoop) -> list[Any]:
        house = House(loop, OK)
        await house.app({"type": "lifespan"}, refuse, refuse)
        return list(house.records)

    async def refuse(*_: object) -> Any:
        raise AssertionError("nothing is to be received or sent")

    assert run(main) == []


# --- a long load beside another model ---

RUNNERS = [{"url": URL, "kind": "ollama"}]


def native(model: str) -> Request:
    body = json.dumps({"model": model, "messages": [], "stream": False}).encode()
    return simple_request(body, "/api/chat")


def swapped(resident: tuple[str, ...] | None, load_ms: int = 800) -> tuple[bool | None, int]:
    """Whether the record says that `a` had to go for `b`, and how long after the answer it left (ms)."""

    def looks(call: Call) -> Script:
        if call.target != "/api/ps" or resident is None:
            return NOT_FOUND
        return Script(
            200, JSON, (Read(50 * MS, json.dumps({"models": [{"name": name} for name in resident]}).encode()),)
        )

    async def main(loop: VirtualLoop) -> tuple[bool | None, int]:
        house = House(loop, scripts, looks=looks, upstream=RUNNERS)
        other = asyncio.create_task(house.ask(native("a")))
        await asyncio.sleep(0.1)
        answer = await house.ask(native("b"))
        answered_ns = answer.chunks[-1][0]
        await house.app.idle()
        await other
        (record,) = (record for record in house.records if record.facts.model == "b")
        return record.evidence.swapped, (loop.clock.now_ns() - answered_ns) // MS

    def scripts(call: Call) -> Script:
        return answers.pop(0)

    answers = [ollama(500, load=1, prompt_eval=100, eval=300), ollama(1500, load=load_ms, prompt_eval=100, eval=300)]
    return run(main)


def test_a_long_load_is_looked_into_before_the_record_leaves() -> None:
    assert swapped(("b:latest",)) == (True, 50)
    assert swapped(("a:latest", "b:latest")) == (False, 50)


def test_a_look_that_fails_leaves_the_question_open() -> None:
    assert swapped(None) == (None, 0)


def test_a_short_load_asks_nobody() -> None:
    assert swapped(("b:latest",), load_ms=100) == (None, 0)


# --- counting by the engine's own tokenizer ---


@pytest.mark.parametrize(("page", "how"), [({"count": 77, "tokens": []}, "exact"), (None, "estimated")])
def test_the_engines_own_tokenizer_is_asked_where_that_is_set(page: object, how: str) -> None:
    pages = serving({"engine.test:8000": {**vllm("m1"), **({"/tokenize": page} if page else {})}})

    async def main(loop: VirtualLoop) -> House:
        house = House(loop, OK, looks=pages, upstream=[{"url": URL}], tokens={"ask_engine": True})
        await house.app.lookout.look_at_all()
        await house.ask(CHAT)
        return house

    (record,) = run(main).records
    assert record.counted is not None
    assert record.counted.how == how


@pytest.mark.parametrize(
    ("kind", "models", "names", "taught"),
    [
        ("ollama", ("M1:latest",), ("m1", "M1", "library/m1:latest"), {"M1:latest": 3}),
        ("vllm", ("m1",), ("m1", "m1"), {"m1": 2}),
        ("llamacpp", ("m1.gguf",), ("gpt-4", "made-up", "m1.gguf"), {"m1.gguf": 3}),
        ("sglang", ("a", "b"), ("a", "made-up", "made-up-2", "B"), {"a": 1, "(others)": 2, "b": 1}),
        ("llamacpp", (), ("x", "y"), {"x": 1, "y": 1}),
    ],
)
def test_no_spelling_and_no_made_up_name_makes_a_model_that_is_counted_anew(
    kind: str, models: tuple[str, ...], names: tuple[str, ...], taught: dict[str, int]
) -> None:
    async def main(loop: VirtualLoop) -> dict[str, Any]:
        usage = {"prompt_tokens": 12, "completion_tokens": 1}
        upstream = [{"url": URL, "kind": kind, "models": list(models)}]
        house = House(loop, plain(200, {"choices": [], "usage": usage}), upstream=upstream)
        for name in names:
            body = json.dumps({"model": name, "messages": [{"role": "user", "content": "Say hi"}]})
            await house.ask(simple_request(body.encode()))
        return house.app.fleet.engines[0].desk.snapshot()

    assert {model: kept["answers"] for model, kept in run(main).items()} == taught
