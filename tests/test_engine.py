"""What is known of one engine between requests."""

from typing import Any

import pytest

from proxy.engine import Engine, waited_ns
from proxy.engines.fingerprint import Fingerprint
from proxy.records import EngineReport, RequestFacts
from tests.support.client import simple_request
from tests.support.clock import VirtualLoop, run
from tests.support.house import House
from tests.support.script import OK, Script


def alone(loop: VirtualLoop, script: Script = OK, **upstream: Any) -> tuple[House, Engine]:
    house = House(loop, script, looks=lambda call: script, upstream=[{"url": "http://one.test:1", **upstream}])
    return house, house.app.fleet.engines[0]


def test_another_engine_behind_the_address_starts_an_epoch_and_is_trusted_anew() -> None:
    async def main(loop: VirtualLoop) -> None:
        _, engine = alone(loop)
        assert (engine.answers, engine.epoch, engine.kind) == (None, 0, "openai")
        engine.seen(Fingerprint("vllm", "0.32.0", models=("m",), answers=True))
        assert (engine.answers, engine.epoch, engine.kind, engine.models) == (True, 1, "vllm", ("m",))
        engine.bears_splice = False
        engine.seen(Fingerprint("vllm", "0.32.0", models=("m", "n"), answers=True))
        assert (engine.epoch, engine.bears_splice, engine.models) == (1, False, ("m", "n"))
        engine.seen(Fingerprint("vllm", "0.33.0", answers=True))
        assert (engine.epoch, engine.bears_splice) == (2, True)

    run(main)


def test_an_engine_that_is_silent_is_what_it_was() -> None:
    async def main(loop: VirtualLoop) -> None:
        _, engine = alone(loop)
        engine.seen(Fingerprint("vllm", "0.32.0", models=("m",), answers=True))
        engine.seen(Fingerprint())
        assert (engine.answers, engine.epoch, engine.kind, engine.models) == (False, 1, "vllm", ("m",))

    run(main)


@pytest.mark.parametrize("configured", [True, False])
def test_what_looks_like_no_engine_is_one_if_the_operator_says_so(configured: bool) -> None:
    async def main(loop: VirtualLoop) -> None:
        (engine,) = House(loop, OK, configured=configured).app.fleet.engines
        engine.seen(Fingerprint(answers=True))
        assert (engine.counts, bool(engine.answers), engine.stranger) == (configured, configured, not configured)
        engine.seen(Fingerprint(answers=True, lists=True))
        assert (engine.counts, engine.answers, engine.stranger) == (True, True, False)
        for fingerprint in (Fingerprint(), Fingerprint(answers=True)):
            engine.seen(fingerprint)  # it was one, and is silent, or has its list no more
            assert (engine.counts, engine.answers, engine.stranger) == (True, fingerprint.answers, False)

    run(main)


VLLM = Fingerprint("vllm", "0.32.0", answers=True)


def test_an_engine_that_was_gone_or_is_another_process_begins_an_epoch() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        _, engine = alone(loop)
        epochs = []
        for fingerprint, began_s in (
            (VLLM, None), (VLLM, 5.0), (VLLM, 5.0), (VLLM, 9.0), (VLLM, None), (VLLM, 9.0),
            (Fingerprint(), None), (Fingerprint(), None), (VLLM, 9.0),
            (Fingerprint(), None), (VLLM, 12.0), (Fingerprint(), None), (VLLM, None), (VLLM, 12.0),
        ):  # fmt: skip
            engine.seen(fingerprint, began_s=began_s)
            epochs.append(engine.epoch)
        return epochs

    assert run(main) == [1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 4, 4]


def test_the_kind_that_is_configured_is_believed() -> None:
    async def main(loop: VirtualLoop) -> None:
        _, engine = alone(loop, kind="sglang")
        assert engine.kind == "sglang"
        engine.seen(Fingerprint("vllm", "0.32.0", answers=True))
        assert (engine.kind, engine.fingerprint.version) == ("sglang", "0.32.0")

    run(main)


def test_models_of_ollama_are_weighed_once_and_again_when_they_change() -> None:
    async def main(loop: VirtualLoop) -> None:
        _, engine = alone(loop)
        engine.seen(Fingerprint("vllm", digests=(("a", "1"),), answers=True))
        assert engine.unweighed() == ()
        engine.seen(Fingerprint("ollama", digests=(("a", "1"), ("b", "2")), answers=True))
        assert engine.unweighed() == ["a", "b"]
        engine.weighed("a", "same", ())
        engine.weighed("b", "same", ())
        engine.weighed("unlisted", "same", ())
        assert engine.unweighed() == []
        ollama = RequestFacts("ollama", "chat", "inference", model="a")
        twin = RequestFacts("ollama", "chat", "inference", model="b")
        assert engine.runners.of(ollama) == engine.runners.of(twin)
        engine.seen(Fingerprint("ollama", digests=(("a", "9"), ("b", "2")), answers=True))
        assert engine.unweighed() == ["a"]

    run(main)


def test_an_exchange_tells_whether_its_engine_answers() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        troubles: list[str] = []
        script = Script(ending="refuse")
        house = House(loop, lambda call: script, upstream=[{"url": "http://one.test:1", "name": "one"}])
        (engine,) = house.app.fleet.engines
        engine.on_trouble = lambda: troubles.append(engine.name)
        await house.ask(simple_request(b"{}"))
        assert engine.answers is False
        script = OK
        await house.ask(simple_request(b"{}"))
        assert engine.answers
        return troubles

    assert run(main) == ["one", "one"], "it is looked at when it goes, and when it is back"


@pytest.mark.parametrize(("ending", "epochs"), [("refuse", 2), ("unroutable", 1)])
def test_one_that_refuses_is_another_process_when_it_is_back_and_one_out_of_reach_need_not_be(
    ending: Any, epochs: int
) -> None:
    async def main(loop: VirtualLoop) -> int:
        house, engine = alone(loop, Script(ending=ending))
        engine.seen(Fingerprint("ollama", "0.14.0", answers=True))
        await house.ask(simple_request(b"{}"))
        assert engine.answers is False
        engine.seen(Fingerprint("ollama", "0.14.0", answers=True))
        assert engine.answers
        return engine.epoch

    assert run(main) == epochs


@pytest.mark.parametrize(
    ("kind", "path", "status", "before", "after", "looked"),
    [
        ("llamacpp", "/completion", 503, True, False, True),  # it loads its model
        ("llamacpp", "/completion", 503, False, False, True),
        ("llamacpp", "/completion", 500, False, False, False),
        ("llamacpp", "/completion", 400, False, True, True),  # it is back, and may be another one
        ("llamacpp", "/completion", 200, True, True, False),
        ("ollama", "/api/chat", 503, True, True, False),  # its line is full
        ("ollama", "/api/chat", 503, False, False, False),
        ("llamacpp", "/slots", 503, True, True, False),  # none is free, and that was asked for
        ("llamacpp", "/", 200, False, False, False),  # its own page is there while the model is not
    ],
)
def test_what_an_answer_says_of_its_engine(
    kind: str, path: str, status: int, before: bool, after: bool, looked: bool
) -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        house, engine = alone(loop, Script(status), kind=kind)
        troubles: list[str] = []
        engine.on_trouble = lambda: troubles.append(engine.name)
        engine.answers = before
        body = b"" if path in ("/", "/slots") else b"{}"
        assert (await house.ask(simple_request(body, path))).status == status
        assert engine.answers is after
        return troubles

    assert bool(run(main)) is looked


def test_a_look_up_has_the_engines_key_and_gets_nothing_from_one_that_is_silent() -> None:
    async def main(loop: VirtualLoop) -> None:
        house, engine = alone(loop, OK, api_key="own")
        fetched = await engine.fetch("/x", 1.0, [(b"authorization", b"Bearer theirs")], b"{}")
        assert fetched is not None
        assert fetched[::2] == (200, OK.reads[0].data)
        (call,) = house.engine.calls
        assert (call.method, call.body, call.header("authorization")) == ("POST", b"{}", "Bearer own")
        _, silent = alone(loop, Script(ending="refuse"))
        assert await silent.fetch("/x", 1.0) is None
        assert silent.answers is None
        assert silent.complaint.startswith("cannot reach the engine at one.test:1: ")

    run(main)


def test_an_engine_says_what_it_is() -> None:
    async def main(loop: VirtualLoop) -> str:
        _, engine = alone(loop, name="gpu")
        engine.began("r", RequestFacts("openai", "chat", "inference"), 0)
        return repr(engine)

    assert run(main) == "<Engine gpu openai, 1 in flight>"


@pytest.mark.parametrize(
    ("report", "waited"),
    [
        (None, None),
        (EngineReport(source="x", prefill_ns=1, decode_ns=1), None),
        (EngineReport(source="x", total_ns=9, decode_ns=1), None),
        (EngineReport(source="x", total_ns=9, prefill_ns=1), None),
        (EngineReport(source="x", total_ns=9, prefill_ns=2, decode_ns=3), 4),
        (EngineReport(source="x", total_ns=1, prefill_ns=2, decode_ns=3), 0),
    ],
)
def test_the_wait_before_the_prompt_is_what_the_engines_durations_leave(
    report: EngineReport | None, waited: int | None
) -> None:
    assert waited_ns(report) == waited
