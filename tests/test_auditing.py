"""The audits of all engines: attached, made acquainted with long texts, sampled, and under a key that lasts."""

import asyncio
import json
import stat
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from proxy.auditing import (
    ID_CHARS,
    LONG,
    LONGEST,
    PIECES,
    SAMPLE_LONGEST,
    Auditing,
    key_of,
    size,
)
from proxy.config import Prefixes
from proxy.engines.fingerprint import Fingerprint
from proxy.flaws import ConfigError
from proxy.messages import Message as Told
from proxy.messages import PromptSeen
from proxy.prefixes.pace import AT_ONCE
from proxy.records import Call, Finished, Inferred, Message, Part, PrefixVerdict, Prompt, RequestFacts
from tests.support.client import simple_request
from tests.support.clock import VirtualLoop, run
from tests.support.house import URL, House
from tests.support.pages import ollama, serving
from tests.support.script import Read, Script
from tests.support.streams import DONE, JSON, MS, chunk, stream


def prompt(text: str) -> Prompt:
    return Prompt(messages=(Message("user", (Part("text", text),)),))


def auditing(settings: Prefixes | None = None) -> Auditing:
    return Auditing(settings or Prefixes(), lambda text: list(map(ord, text)), ThreadPoolExecutor(1))


WHOLE = stream((10, chunk("Hi")), (20, chunk(finish="stop")), (21, DONE))


def one(loop: VirtualLoop, script: Script = WHOLE, **settings: Any) -> House:
    return House(loop, script, **settings)


LONG_PROMPT = json.dumps({"model": "m1", "messages": [{"role": "user", "content": "word and word, " * 400}]}).encode()


def asked(
    times: int = 1, body: bytes = LONG_PROMPT, path: str = "/v1/chat/completions", **settings: Any
) -> tuple[list[Finished], list[PromptSeen]]:
    """Records, and prompts that went to the office's search, of the same long prompt asked several times."""

    async def main(loop: VirtualLoop) -> tuple[list[Finished], list[PromptSeen]]:
        house = one(loop, **settings)
        seen: list[Told] = []
        send = house.app._parting.send
        house.app._parting.send = lambda message: (seen.append(message), send(message))[-1]
        for _ in range(times):
            await house.ask(simple_request(body, path))
        return house.records, [message for message in seen if isinstance(message, PromptSeen)]

    return run(main)


def test_a_repeated_prompt_is_expected_from_the_cache_and_a_new_one_is_not() -> None:
    records, _ = asked(2, upstream=[{"url": "http://engine.test:8000", "kind": "vllm", "block_size": 16}])
    first, second = (record.prefix for record in records)
    assert first is not None
    assert second is not None
    assert (first.block, first.expected) == (16, 0)
    assert (second.expected or 0) > 0.9 * second.tokens
    assert all(sum(dict(verdict.bins).values()) == verdict.tokens for verdict in (first, second))


@pytest.mark.parametrize(
    ("status", "read"), [(302, False), (400, False), (429, False), (503, False), (501, False), (500, True)]
)
def test_a_prompt_that_the_engine_refused_is_not_in_its_cache_and_in_no_bin(status: int, read: bool) -> None:
    async def main(loop: VirtualLoop) -> list[Finished]:
        whole = stream((10, chunk("Hi")), (20, chunk(finish="stop")), (21, DONE))
        answers = iter((Script(status, JSON, (Read(MS, b"{}"),)), whole))
        upstream = [{"url": URL, "kind": "vllm", "block_size": 16}]
        house = House(loop, lambda call: next(answers), upstream=upstream)
        for _ in range(2):
            await house.ask(simple_request(LONG_PROMPT))
        return house.records

    first, second = (record.prefix for record in run(main))
    assert first is not None
    assert second is not None
    assert bool(first.bins) is read
    assert bool(second.expected) is read
    assert dict(second.bins)["text_break"] == 0


@pytest.mark.parametrize(
    ("pages", "names"),
    [
        (ollama(**{"m:latest": "w"}), ("m", "M", "m:latest", "library/m")),
        ({"/props": {"build_info": "b1"}, "/v1/models": {"data": [{"id": "m1"}]}}, ("m1", "gpt-4", "any")),
    ],
    ids=["Ollama's spellings", "llama.cpp's any"],
)
def test_a_model_has_one_cache_whichever_name_a_client_has_for_it(
    pages: dict[str, object], names: tuple[str, ...]
) -> None:
    async def main(loop: VirtualLoop) -> list[Finished]:
        looks = serving({URL.removeprefix("http://"): pages})
        house = House(loop, WHOLE, looks=looks, upstream=[{"url": URL}])
        house.app._parting.send = lambda message: (sent.append(message), house._told(message))[-1]
        await house.app.lookout.look_at_all()
        for name in names:
            await house.ask(simple_request(json.dumps({**json.loads(LONG_PROMPT), "model": name}).encode()))
        return house.records

    sent: list[Told] = []
    verdicts = [record.prefix for record in run(main)]
    assert len({message.model for message in sent if isinstance(message, PromptSeen)}) == 1
    assert [None if one is None else one.expected for one in verdicts] == [
        None if one is None else (one.tokens - 1) * (at > 0) for at, one in enumerate(verdicts)
    ]


def test_the_office_gets_prompt_and_answer_and_the_record_neither() -> None:
    records, (seen,) = asked()
    assert (seen.id, seen.model, seen.answer) == (records[0].id, "m1", "Hi")
    assert size(seen.prompt) > LONG
    assert "word and word" not in repr(records[0])


@pytest.mark.parametrize(("read", "shown"), [(1_200, 1), (100, 0)], ids=["as sent", "most left out"])
def test_the_office_gets_no_prompt_that_the_engine_read_differently(read: int, shown: int) -> None:
    """A template that leaves tools out: to reorder them would save nothing."""
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1}}\n\n' % read
    _, seen = asked(script=stream((10, chunk("Hi")), (20, chunk(finish="stop")), (21, usage), (22, DONE)))
    assert len(seen) == shown


def test_the_office_gets_no_prompt_that_no_engine_read() -> None:
    assert asked(script=Script(ending="refuse"))[1] == []
    nothing = [json.dumps({"model": "m", **body}).encode() for body in ({}, {"prompt": ""}, {"prompt": "one"})]
    assert [len(asked(body=body, path="/api/generate")[1]) for body in nothing] == [0, 0, 1]


def test_the_office_gets_no_more_than_it_looks_at() -> None:
    records, seen = asked(2 * AT_ONCE)
    assert len(records) == 2 * AT_ONCE
    assert AT_ONCE <= len(seen) < 1.2 * AT_ONCE
    assert [one.stands_for for one in seen[:3]] == [1.0] * 3
    assert seen[-1].stands_for > 1
    assert records[-1].prefix is not None


def test_without_the_audit_nothing_is_kept_and_nothing_sent() -> None:
    records, seen = asked(2, prefixes={"audit": False})
    assert [record.prefix for record in records] == [None, None]
    assert seen == []


def test_another_engine_behind_the_address_gets_a_fresh_audit() -> None:
    async def main(loop: VirtualLoop) -> None:
        (engine,) = one(loop).app.fleet.engines
        before = engine.audit
        engine.seen(Fingerprint("vllm", "0.32.0", answers=True), (32, 64_000))
        assert engine.audit is not before
        after = engine.audit
        engine.seen(Fingerprint("vllm", "0.32.0", models=("m",), answers=True), (32, 64_000))
        assert engine.audit is after
        engine.seen(Fingerprint("vllm", "0.32.0", models=("m",), answers=True), (32, 128_000))
        assert engine.audit is not after

    run(main)


def test_an_engine_that_was_gone_and_is_back_has_an_empty_cache() -> None:
    """The first request that it answers was expected to find what is not there any more, and is settled so."""
    gone = Script(ending="refuse")
    ends = iter([WHOLE, WHOLE, gone, WHOLE, WHOLE])

    async def main(loop: VirtualLoop) -> list[Finished]:
        upstream = [{"url": "http://engine.test:8000", "kind": "vllm", "block_size": 16}]
        house = House(loop, lambda call: next(ends), upstream=upstream)
        for _ in range(5):
            await house.ask(simple_request(LONG_PROMPT))
        return house.records

    first, warm, refused, back, again = (record.prefix for record in run(main))
    assert first is not None
    assert warm is not None
    assert back is not None
    assert again is not None
    assert refused is None or refused.bins == ()
    assert (warm.expected, back.expected, again.expected) == (warm.expected,) * 3 != (0,) * 3
    assert [dict(verdict.bins)["hit"] for verdict in (first, warm, back, again)] == [0, warm.expected, 0, warm.expected]
    assert dict(back.bins)["capacity"] == warm.expected


def test_replicas_are_known_to_one_another() -> None:
    two = [{"url": f"http://{name}.test:1", "kind": "vllm", "block_size": 16, "models": ["m1"]} for name in "ab"]
    records, _ = asked(2, upstream=two)
    assert [record.engine for record in records] == ["a.test:1", "b.test:1"]
    verdict = records[1].prefix
    assert verdict is not None
    assert dict(verdict.bins)["other_replica"] > 0.9 * verdict.tokens


def test_long_texts_are_tokenised_off_the_loop_and_short_ones_left() -> None:
    threads: dict[int, str] = {}

    def encode(text: str) -> list[int]:
        threads[len(text)] = threading.current_thread().name
        return list(map(ord, text))

    async def main(loop: VirtualLoop) -> Any:
        (engine,) = one(loop).app.fleet.engines
        own = Auditing(Prefixes(), encode, ThreadPoolExecutor(1, thread_name_prefix="off"))
        await own.acquaint(engine, prompt("x" * LONG))
        own.attach(engine)
        return own, engine

    own, engine = run(main)
    asyncio.run(own.acquaint(engine, prompt("x" * LONG)))
    asyncio.run(own.acquaint(engine, prompt("y" * (LONG - 1))))
    assert {length: name.partition("_")[0] for length, name in threads.items() if length >= LONG - 1} == {LONG: "off"}


def test_all_new_texts_of_a_prompt_leave_the_loop_in_one_hop() -> None:
    hops: list[Any] = []

    class Counted(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            hops.append(fn)
            return super().submit(fn, *args, **kwargs)

    async def main(loop: VirtualLoop) -> Any:
        (engine,) = one(loop).app.fleet.engines
        return engine

    engine = run(main)
    names: set[str] = set()

    def encode(text: str) -> list[int]:
        names.add(threading.current_thread().name)
        return list(map(ord, text))

    own = Auditing(Prefixes(), encode, Counted(1, thread_name_prefix="off"))
    own.attach(engine)
    many = Prompt(texts=tuple(f"{n} " * 100 for n in range(1000, 1100)))
    assert asyncio.run(own.acquaint(engine, many)) == ()
    engine.predict("r", RequestFacts("openai", "completion", "inference", prompt=many), 0)
    assert (len(hops), names) == (1, {"off_0"})


@pytest.mark.parametrize(
    ("asked", "audited"),
    [
        pytest.param(Prompt(messages=(Message("user", ()),) * PIECES), True, id="as many messages"),
        pytest.param(Prompt(messages=(Message("user", ()),) * (PIECES + 1)), False, id="more messages"),
        pytest.param(Prompt(messages=(Message("user", (Part("text", ""),) * PIECES),)), False, id="more parts"),
        pytest.param(Prompt(messages=(Message("user", (), (Call("", ""),) * PIECES),)), False, id="more calls"),
        pytest.param(Prompt(tools=("",) * (PIECES + 1)), False, id="more tools"),
        pytest.param(Prompt(ids=((1,),) * (PIECES + 1)), False, id="more prompts of ids"),
        pytest.param(Prompt(ids=((1,) * (LONGEST // ID_CHARS + 1),)), False, id="more ids"),
        pytest.param(Prompt(messages=(Message("x" * (LONGEST + 1), ()),)), False, id="a long role"),
        pytest.param(Prompt(messages=(Message("", (), (Call("f", "x" * LONGEST),)),)), False, id="a long call"),
        pytest.param(Prompt(salt="x" * (LONGEST + 1)), False, id="a long salt"),
    ],
)
def test_a_prompt_that_would_hold_the_loop_is_not_audited(asked: Prompt, audited: bool) -> None:
    async def main(loop: VirtualLoop) -> bool:
        (engine,) = one(loop).app.fleet.engines
        return await auditing().acquaint(engine, asked) is not None

    assert run(main) is audited


def test_a_long_answer_is_tokenised_off_the_loop_and_its_record_leaves_once_before_the_house_is_idle() -> None:
    text = "word and word, " * 2000
    away: list[bool] = []
    seen: list[bool] = []

    def encode(text: str) -> list[int]:
        seen.append(bool(away))
        return list(map(ord, text))

    async def main(loop: VirtualLoop) -> list[Finished]:
        def watched(executor: Any, work: Callable[[], Any]) -> Any:
            away.append(True)
            try:
                return VirtualLoop.run_in_executor(loop, executor, work)
            finally:
                away.pop()

        loop.run_in_executor = watched  # type: ignore[method-assign, assignment]
        house = House(loop, stream((10, chunk(text)), (20, chunk(finish="stop")), (21, DONE)))
        own = house.app._household._auditing = Auditing(Prefixes(), encode, ThreadPoolExecutor(1))
        own.attach(house.app.fleet.engines[0])
        for _ in range(2):
            await house.ask(simple_request(LONG_PROMPT))
            await house.app.idle()
        return house.records

    records = run(main)
    assert [record.prefix is not None for record in records] == [True, True]
    assert set(seen) == {True}


def test_many_prompts_are_sampled_and_none_that_is_too_long() -> None:
    own = auditing()
    taken = [own.samples(prompt("x"), "", 60.0 + at / 10_000) for at in range(10 * AT_ONCE)]
    assert taken[: AT_ONCE // 2] == [1.0] * (AT_ONCE // 2)
    assert sum(stands_for > 0 for stands_for in taken) == pytest.approx(AT_ONCE, rel=0.15)
    assert own.samples(prompt("x"), "", 120.0) == 1.0
    assert not own.samples(prompt("x" * (SAMPLE_LONGEST + 1)), "", 120.0)
    assert not own.samples(None, "", 120.0)
    assert not auditing(Prefixes(audit=False)).samples(prompt("x"), "", 60.0)


@pytest.mark.parametrize("other", [Prompt(ids=((1, 2, 3),)), prompt("x" * (SAMPLE_LONGEST + 1))], ids=["ids", "long"])
def test_a_prompt_stands_for_none_that_could_not_be_searched(other: Prompt) -> None:
    """Twenty times as many: each prompt of the others was told twenty times."""
    own = auditing()
    told = 0.0
    for number in range(6_000):
        at_s = 60.0 + number / 10
        assert not own.samples(other, "", at_s)
        if not number % 20:
            told += own.samples(prompt("x"), "", at_s)
    assert told == pytest.approx(300, rel=0.2)


def test_the_key_lasts_where_a_file_is_named_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "key"
    key = key_of(str(file))
    assert (len(key), key_of(str(file))) == (32, key)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert key_of("") != key_of("")


def test_an_empty_key_file_is_filled(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch()
    assert len(key_of(str(file))) == 32
    assert key_of(str(file)) == file.read_bytes()


def test_a_key_file_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^prefixes\.key_file: .*No such file"):
        key_of(str(tmp_path / "gone" / "key"))


# --- what the engine does not say ---


def repeated(*prefill_ms: int, version: str = "0.33.0", counts: int = 500) -> list[Inferred | None]:
    """What is inferred of the cached tokens of these prompts, each of which comes twice, given Ollama's answers."""
    said = {"message": {"content": "ok"}, "done": True, "prompt_eval_count": counts}
    answers = [{**said, "prompt_eval_duration": ms * MS} for ms in prefill_ms]
    asked = [f"{number // 2 + 100} " * 250 for number in range(len(answers))]
    return [verdict.inferred for verdict in audited(answers, asked, version)]


def audited(
    answers: list[dict[str, object]], asked: Sequence[str], version: str = "0.33.0", after_ms: int = 1
) -> list[PrefixVerdict]:
    """The verdicts of these prompts, given these answers of native Ollama."""
    sent = iter(answers)

    def page(found: object) -> Script:
        return Script(200, JSON, (Read(after_ms * MS, json.dumps(found).encode()),))

    async def main(loop: VirtualLoop) -> list[PrefixVerdict]:
        looks = serving({URL.removeprefix("http://"): {**ollama(), "/api/version": {"version": version}}})
        house = House(loop, lambda call: page(next(sent)), looks=looks, upstream=[{"url": URL}])
        await house.app.lookout.look_at_all()
        for text in asked:
            body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": False}
            await house.ask(simple_request(json.dumps(body).encode(), "/api/chat"))
        return [record.prefix for record in house.records if record.prefix is not None]

    return run(main)


TIMES = (510, 11) * 4


def test_cached_tokens_are_inferred_by_time_where_the_engine_does_not_say_them() -> None:
    found = repeated(*TIMES, 510, 11)
    assert found[: len(TIMES) - 1] == [None] * (len(TIMES) - 1)
    new, known = found[len(TIMES) :]
    assert new is not None
    assert new.cached == new.low == 0 < new.high
    assert known == Inferred(499, 499, 499)


def test_nothing_is_inferred_where_the_count_leaves_cached_tokens_out_or_there_is_no_time() -> None:
    assert repeated(*TIMES, *TIMES, version="0.3.0") == [None] * 16
    assert repeated(*TIMES, *TIMES, counts=0) == [None] * 16


def test_nothing_is_inferred_of_a_prompt_that_the_engine_did_not_read_as_we_know_it() -> None:
    assert repeated(*TIMES, *TIMES, counts=5_000) == [None] * 16
    assert repeated(*[0] * 16) == [None] * 16


@pytest.mark.parametrize(
    ("words", "said", "told"),
    [
        (250, {}, True),
        (250, {"load_duration": 800 * MS}, False),
        (1_000, {"prompt_eval_count": 1_200}, False),
    ],
)
def test_nothing_is_inferred_of_a_prompt_behind_a_load_nor_of_one_that_was_cut(
    words: int, said: dict[str, object], told: bool
) -> None:
    answer = {"message": {"content": "ok"}, "done": True, "prompt_eval_count": 500}
    answers: list[dict[str, object]] = [{**answer, "prompt_eval_duration": ms * MS} for ms in (510, 11) * 6]
    asked = [f"{number // 2 + 100} " * 250 for number in range(12)]
    last = {**answers[0], **said}
    found = audited([*answers, last], [*asked, "200 " * words], after_ms=2_000)
    assert found[-2].inferred is not None
    assert (found[-1].inferred is not None) is told
    assert (found[-1].infinite is None) is (words > 250), "nor is a cut prompt in any bin"


def loading(load_ms: int, reason: str = "stop") -> dict[str, object]:
    """A whole answer of Ollama, of 2 s."""
    loaded = {"total_duration": 2_000 * MS, "load_duration": load_ms * MS, "prompt_eval_duration": 300 * MS}
    said = {"message": {"content": "ok"}, "done": True, "done_reason": reason, "prompt_eval_count": 20}
    return {**said, **loaded} if reason == "stop" else said


@pytest.mark.parametrize("reason", ["stop", "load"])
def test_where_the_engine_loaded_the_model_nothing_was_cached(reason: str) -> None:
    found = audited([loading(800), loading(1), loading(800, reason), loading(1)], ["hi"] * 4, after_ms=2_000)
    hits = [dict(verdict.bins).get("hit", 0) for verdict in found]
    assert hits[0] == hits[2] == 0
    assert hits[1] == hits[3] == found[1].tokens - 1
    assert dict(found[2].bins)["capacity"] == found[2].expected > 0


def test_a_load_that_our_clock_contradicts_is_none() -> None:
    found = audited([loading(1), loading(1_900)], ["hi"] * 2, after_ms=1_000)
    assert dict(found[1].bins)["hit"] == found[1].tokens - 1


def test_of_a_key_file_no_more_is_read_than_a_key_has() -> None:
    assert key_of("/dev/zero") == bytes(64)
