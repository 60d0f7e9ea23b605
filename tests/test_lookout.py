"""Engines are looked at: what they are, and again when that may have changed."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.engines.fingerprint import PROBES
from proxy.lookout import FIRST, look
from proxy.records import RequestFacts
from tests.support.client import simple_request
from tests.support.clock import START_NS, VirtualLoop, run
from tests.support.house import House
from tests.support.pages import DIGEST, Pages, application, llamacpp, loading, ollama, serving, vllm
from tests.support.script import NOT_FOUND, OK, Call, Ending, Read, Script

TWO = [{"url": "http://one.test:1", "name": "one"}, {"url": "http://two.test:1", "name": "two"}]

MS = 1_000_000
METRICS = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="2048",engine="0"} 1.0\n'


def looks(
    pages: Pages,
    seconds: float,
    meanwhile: Callable[[VirtualLoop, House], None],
    at: str = "one.test:1",
    *,
    configured: bool = True,
) -> list[float]:
    """When this engine was looked at, in seconds, while `meanwhile` may change things."""
    times: list[float] = []

    async def main(loop: VirtualLoop) -> None:
        def asked(call: Call) -> Script:
            if (call.engine, call.target) == (at, PROBES[0]):
                times.append(round((loop.clock.now_ns() - START_NS) / 1e9, 6))
            return serving(pages)(call)

        house = House(loop, OK, looks=asked, upstream=TWO, configured=configured)
        await house.app.lookout.look_at_all()
        watching = asyncio.create_task(house.app.lookout.watch())
        meanwhile(loop, house)
        await asyncio.sleep(seconds)
        watching.cancel()

    run(main)
    return times


def nothing(loop: VirtualLoop, house: House) -> None:
    """Nothing happens meanwhile."""


BOTH: Pages = {"one.test:1": vllm("a"), "two.test:1": vllm("b")}


def test_where_all_is_well_looks_are_seldom() -> None:
    assert looks(BOTH, 65, nothing) == [0, 30, 60]


@pytest.mark.parametrize("configured", [True, False])
def test_looks_at_a_silent_engine_are_soon_and_leave_the_others_in_peace(configured: bool) -> None:
    pages: Pages = {**BOTH, "two.test:1": None}
    assert looks(pages, 5, nothing, "two.test:1", configured=configured) == [0, 2, 4]
    assert looks(pages, 31, nothing, "one.test:1", configured=configured) == [0, 30]


def test_a_web_server_where_an_engine_was_looked_for_is_left_in_peace_too() -> None:
    pages: Pages = {**BOTH, "two.test:1": application()}
    assert looks(pages, 31, nothing, "two.test:1", configured=False) == [0, 30]


def test_a_silent_engine_is_asked_for_little_until_it_answers() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        asked: list[str] = []
        house = House(
            loop, OK, looks=lambda call: (asked.append(call.target), serving(pages)(call))[-1], upstream=TWO[:1]
        )
        await house.app.lookout.look_at_all()
        return asked

    pages: Pages = {"one.test:1": None}
    assert run(main) == [*FIRST]
    pages["one.test:1"] = vllm("a")
    assert {*PROBES} <= {*run(main)}


@pytest.mark.parametrize("page", PROBES)
@pytest.mark.parametrize("how", ["stall", "reset", "refuse"])
def test_an_engine_that_is_silent_at_one_page_is_found(page: str, how: Ending) -> None:
    async def main(loop: VirtualLoop) -> bool | None:
        pages: Pages = {"one.test:1": {**vllm("a"), page: Script(ending=how)}}
        house = House(loop, OK, looks=serving(pages), upstream=TWO[:1])
        await house.app.lookout.look_at_all()
        return house.app.fleet.engines[0].answers

    assert run(main)


@pytest.mark.parametrize(("how", "epochs"), [("refuse", 2), ("reset", 2), ("stall", 1), ("unroutable", 1)])
def test_an_engine_that_is_out_of_reach_for_a_while_is_the_same_process(how: Ending, epochs: int) -> None:
    async def main(loop: VirtualLoop) -> int:
        pages: Pages = {"one.test:1": llamacpp("a")}
        house = House(loop, OK, looks=lambda call: serving(pages)(call), upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        for site in (llamacpp("a"), dict.fromkeys(PROBES, Script(ending=how)), llamacpp("a")):
            pages["one.test:1"] = site
            await house.app.lookout.look_at_all()
            assert engine.answers is (site == llamacpp("a"))
        return engine.epoch

    assert run(main) == epochs


def test_looks_become_seldom_when_the_engine_is_back() -> None:
    pages: Pages = {**BOTH, "two.test:1": None}

    def back(loop: VirtualLoop, house: House) -> None:
        loop.call_later(3, pages.update, {"two.test:1": vllm("b")})

    assert looks(pages, 40, back, "two.test:1") == [0, 2, 4, 30]


def test_a_burst_of_trouble_is_one_look_soon_after() -> None:
    def trouble(loop: VirtualLoop, house: House) -> None:
        for at_s in (10, 10.1, 10.4):
            loop.call_later(at_s, house.app.lookout.trouble)

    assert looks(BOTH, 41, trouble) == [0, 10.5, 40.5]


def told(pages: Pages, *changes: Pages) -> list[dict[str, Any]]:
    """What is logged while the engines' pages become these, one after the other, each for some rounds."""

    def meanwhile(loop: VirtualLoop, house: House) -> None:
        for number, change in enumerate(changes):
            loop.call_later(40 * number + 1, pages.update, change)

    with capture_logs() as logs:
        looks(pages, 40 * len(changes), meanwhile)
    return [log for log in logs if log["event"].startswith("engine_")]


def test_an_engine_that_comes_is_told_once_with_what_it_is() -> None:
    assert told({**BOTH, "two.test:1": None}, {}, BOTH) == [
        {
            "event": "engine_answers", "log_level": "info", "engine": "two", "kind": "vllm", "version": "0.32.0",
            "models": "b",
        }
    ]  # fmt: skip


def test_an_engine_that_wants_a_key_is_told_so() -> None:
    logs = told({**BOTH, "two.test:1": None}, {"two.test:1": dict.fromkeys(PROBES, Script(401))})
    assert [(log["event"], log["log_level"], log["engine"]) for log in logs] == [
        ("engine_answers", "info", "two"),
        ("engine_wants_key", "warning", "two"),
    ]


def test_an_engine_that_goes_is_told_once_and_again_when_it_is_back() -> None:
    logs = told(dict(BOTH), {"one.test:1": None}, {}, BOTH)
    assert [(log["event"], log["log_level"], log["engine"]) for log in logs] == [
        ("engine_silent", "warning", "one"),
        ("engine_answers", "info", "one"),
    ]


def test_an_engine_that_loads_its_model_is_silent_and_is_told_with_what_it_is_when_it_has_done_so() -> None:
    pages: Pages = {"one.test:1": llamacpp("a"), "two.test:1": vllm("b")}
    logs = told(pages, {"one.test:1": loading()}, {"one.test:1": llamacpp("c", slots=3, version="b2")})
    assert [(log["event"], log.get("version"), log.get("models")) for log in logs] == [
        ("engine_silent", None, None),
        ("engine_answers", "b2", "c"),
    ]


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        (loading(), "the engine at one.test:1 loads its model"),
        (dict.fromkeys(PROBES, Script(502)), "the engine at one.test:1 answers look-ups with 502"),
        (None, "cannot reach the engine at one.test:1: connection refused"),
    ],
    ids=["loads", "gateway", "gone"],
)
def test_an_engine_that_goes_is_told_with_the_reason_of_this_time(site: Any, reason: str) -> None:
    """Of pages that came nothing was said, or what had been so the time before."""
    logs = told({**BOTH, "one.test:1": None}, BOTH, {"one.test:1": site})
    assert [log["reason"] for log in logs if log["event"] == "engine_silent"] == [reason]
    first = told(dict(BOTH), {"one.test:1": site})
    assert [log["reason"] for log in first if log["event"] == "engine_silent"] == [reason]


def test_a_restart_that_nobody_saw_is_seen_by_the_first_request_that_is_told_of_it() -> None:
    pages: Pages = {"one.test:1": llamacpp("a")}

    async def main(loop: VirtualLoop) -> list[tuple[bool | None, str | None, int | None]]:
        house = House(
            loop, serving({"one.test:1": {"/completion": loading()["/props"]}}), looks=serving(pages), upstream=TWO[:1]
        )
        (engine,) = house.app.fleet.engines
        await house.app.lookout.look_at_all()
        watching = asyncio.create_task(house.app.lookout.watch())
        await asyncio.sleep(3)
        pages["one.test:1"] = loading()
        seen = [(engine.answers, engine.fingerprint.version, engine.fingerprint.slots)]
        await house.ask(simple_request(b"{}", "/completion"))
        seen.append((engine.answers, engine.fingerprint.version, engine.fingerprint.slots))
        await asyncio.sleep(5)
        seen.append((engine.answers, engine.fingerprint.version, engine.fingerprint.slots))
        pages["one.test:1"] = llamacpp("a", slots=3)
        await asyncio.sleep(2)
        seen.append((engine.answers, engine.fingerprint.version, engine.fingerprint.slots))
        watching.cancel()
        return seen

    assert run(main) == [(True, "b1", 2), (False, "b1", 2), (False, "b1", 2), (True, "b1", 3)]


def test_a_look_tells_the_engine_what_it_is() -> None:
    async def main(loop: VirtualLoop) -> None:
        house = House(loop, OK, looks=serving(BOTH), upstream=TWO)
        one, two = house.app.fleet.engines
        await look(one)
        assert (one.kind, one.fingerprint.version, one.models) == ("vllm", "0.32.0", ("a",))
        assert two.answers is None

    run(main)


def test_models_with_the_same_weights_and_options_share_a_runner_after_a_look() -> None:
    shown: list[str] = []

    def site(call: Call) -> Script:
        if call.target != "/api/show":
            return serving({"one.test:1": ollama(a="", b="", c="", wide="")})(call)
        shown.append(call.method)
        # `c` cannot be shown; the others come from one file.
        return NOT_FOUND if len(shown) == 3 else Script(reads=(Read(0, SHOWN if len(shown) < 4 else WIDE),))

    async def main(loop: VirtualLoop) -> None:
        house = House(loop, OK, looks=site, upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        await look(engine)
        assert shown == ["POST"] * 4
        names = ("a", "b", "c", "wide")
        a, b, c, wide = (engine.runners.of(RequestFacts("ollama", "chat", "inference", model=name)) for name in names)
        assert a == b != c
        assert (wide.weights, wide.options, a.options) == (a.weights, (("num_ctx", "8192"),), ())
        assert engine.unweighed() == ["c"]

    run(main)


WIDE = json.dumps({"modelfile": f"FROM /models/blobs/sha256-{DIGEST}\n", "parameters": "num_ctx   8192"}).encode()
SHOWN = b'{"modelfile": "FROM /models/blobs/sha256-' + DIGEST.encode() + b'\\n"}'


def test_an_engine_that_does_not_answer_a_look_up_in_time_says_nothing() -> None:
    async def main(loop: VirtualLoop) -> float:
        house = House(loop, OK, looks=lambda call: Script(ending="stall"), upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        await look(engine)
        assert engine.answers is False
        return (loop.clock.now_ns() - START_NS) / 1e9

    assert run(main) == 2


NEVER = Script(ending="stall")


@pytest.mark.parametrize(
    ("page", "answered"),
    [
        pytest.param("/v1/models", NEVER, id="a list that does not come"),
        pytest.param("/v1/models", Script(502), id="a list that a gateway lacks"),
        pytest.param("/version", Script(429), id="too many look-ups for a gateway"),
        pytest.param("/metrics", NEVER, id="metrics that do not come"),
        pytest.param("/metrics", Script(503), id="metrics that a gateway lacks"),
        pytest.param("/metrics", Script(429), id="metrics that are too many for a gateway"),
    ],
)
def test_a_busy_engine_that_leaves_something_out_is_what_it_was(page: str, answered: Script) -> None:
    site = {**vllm("a"), "/metrics": METRICS}
    pages: Pages = {"one.test:1": dict(site)}

    async def main(loop: VirtualLoop) -> None:
        house = House(loop, OK, looks=serving(pages), upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        await look(engine)
        known = (engine.fingerprint, engine.cache_shape, engine.epoch, engine.audit)
        pages["one.test:1"] = {**site, page: answered}
        await look(engine)
        assert engine.answers
        assert (engine.fingerprint, engine.cache_shape, engine.epoch, engine.audit) == known
        pages["one.test:1"] = {**site, "/version": {"version": "0.33.0"}}
        await look(engine)
        assert (engine.fingerprint.version, engine.epoch) == ("0.33.0", 2)

    run(main)


def test_a_gateway_that_turns_down_others_each_time_hides_no_engine() -> None:
    pages: Pages = {"one.test:1": dict.fromkeys(PROBES, Script(429)) | {"/": Script(404)}}

    async def main(loop: VirtualLoop) -> None:
        house = House(loop, OK, looks=serving(pages), upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        await look(engine)
        assert (engine.answers, engine.kind) == (True, "openai")
        pages["one.test:1"] = {**vllm("a"), "/": Script(429), "/version": Script(502)}
        await look(engine)
        assert (engine.kind, engine.models) == ("vllm", ("a",))
        pages["one.test:1"] = {**vllm("a", "b"), "/version": {"version": "0.32.0"}, "/props": Script(429)}
        await look(engine)
        assert (engine.models, engine.fingerprint.version) == (("a", "b"), "0.32.0")

    run(main)


def test_another_engine_is_seen_where_it_never_says_what_the_last_one_did() -> None:
    pages: Pages = {"one.test:1": vllm("a")}

    async def main(loop: VirtualLoop) -> None:
        house = House(loop, OK, looks=serving(pages), upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        await look(engine)
        for missing in (NEVER, Script(502)):
            pages["one.test:1"] = {**llamacpp("b"), "/api/ps": missing}
            await look(engine)
            assert (engine.kind, engine.models, engine.fingerprint.slots, engine.epoch) == ("llamacpp", ("b",), 2, 2)

    run(main)


def began(at_s: float) -> dict[str, object]:
    """vLLM, in a process that began then."""
    return {**vllm("a"), "/metrics": f"{METRICS}process_start_time_seconds {at_s}\n"}


def test_a_restart_that_a_request_saw_first_is_one_restart() -> None:
    pages: Pages = {"one.test:1": began(100)}
    up = [True]

    async def main(loop: VirtualLoop) -> list[int]:
        script = lambda call: OK if up[0] else Script(ending="refuse")  # noqa: E731
        house = House(loop, script, looks=serving(pages), upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        await look(engine)
        epochs = [engine.epoch]
        for at_s in (200, 300):
            up[0] = False
            await house.ask(simple_request(b'{"model": "a"}', "/v1/chat/completions"))
            up[0] = True
            await house.ask(simple_request(b'{"model": "a"}', "/v1/chat/completions"))
            pages["one.test:1"] = began(at_s)
            epochs.append(engine.epoch)
            await look(engine)
            epochs.append(engine.epoch)
        pages["one.test:1"] = began(400)
        await look(engine)
        return [*epochs, engine.epoch]

    assert run(main) == [1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize(
    ("at_s", "epochs"),
    [
        pytest.param((100.2, 99.6, 101), [1, 1, 1], id="a clock that is set a little"),
        pytest.param((200, 100, 200, 100), [2, 2, 2, 2], id="two behind one address"),
        pytest.param((200, 300), [2, 3], id="restarts"),
    ],
)
def test_an_engine_was_started_anew_where_its_process_began_later(at_s: tuple[float, ...], epochs: list[int]) -> None:
    pages: Pages = {"one.test:1": began(100)}

    async def main(loop: VirtualLoop) -> list[int]:
        house = House(loop, OK, looks=serving(pages), upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        await look(engine)
        seen = []
        for each in at_s:
            pages["one.test:1"] = began(each)
            await look(engine)
            seen.append(engine.epoch)
        return seen

    assert run(main) == epochs


def test_what_comes_late_from_an_engine_that_is_there_is_waited_for() -> None:
    pages: Pages = {
        "one.test:1": {**vllm("a"), "/version": Script(reads=(Read(3_000 * MS, b'{"version": "0.32.0"}'),))}
    }

    async def main(loop: VirtualLoop) -> None:
        house = House(loop, OK, looks=serving(pages), upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        await look(engine)
        assert (engine.kind, engine.fingerprint.version) == ("vllm", "0.32.0")
        slow: Pages = {"one.test:1": dict.fromkeys(PROBES, Script(404, reads=(Read(9_000 * MS, b"{}"),)))}
        pages.update(slow)
        await look(engine)
        assert engine.answers
        pages["one.test:1"] = None
        await look(engine)
        assert not engine.answers

    run(main)


def test_after_a_silence_an_engine_may_tell_less() -> None:
    pages: Pages = {"one.test:1": vllm("a")}

    async def main(loop: VirtualLoop) -> None:
        house = House(loop, OK, looks=serving(pages), upstream=TWO[:1])
        (engine,) = house.app.fleet.engines
        await look(engine)
        pages["one.test:1"] = None
        await look(engine)
        pages["one.test:1"] = {**llamacpp("b"), "/api/ps": NEVER}
        await look(engine)
        assert (engine.kind, engine.models, engine.epoch) == ("llamacpp", ("b",), 2)

    run(main)


def test_vllm_says_how_its_prefix_cache_is_cut() -> None:
    def shape(page: object) -> tuple[int | None, int | None]:
        async def main(loop: VirtualLoop) -> tuple[int | None, int | None]:
            pages: Pages = {"one.test:1": {**vllm("a"), **({"/metrics": page} if page is not None else {})}}
            house = House(loop, OK, looks=serving(pages), upstream=TWO[:1])
            (engine,) = house.app.fleet.engines
            await look(engine)
            return engine.cache_shape

        return run(main)

    assert shape(METRICS) == (16, 2_047 * 16)  # its first block stands for none
    assert shape(METRICS.replace('"2048"', '"None"')) == (16, None)
    assert shape("nothing of the kind") == (None, None)
    assert shape(None) == (None, None)
