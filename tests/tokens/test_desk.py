import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest

from proxy.names import as_it_is
from proxy.records import NAME_CHARS, Call, Message, Part, Prompt, RequestFacts, TokenCount, Usage
from proxy.tokens.cache import Cache
from proxy.tokens.desk import MANY, MODELS, UNSEEN_PART, Ask, Desk, always, never
from proxy.tokens.exact import Question
from proxy.tokens.meter import Meter
from proxy.tokens.vocabularies import load
from tests.support.desks import nobody

T = TypeVar("T")


async def inline(work: Callable[[], T]) -> T:
    return work()


def meter(name: str = "cl100k_base") -> Meter:
    return Meter(name, load(name), Cache(1 << 20), inline)


def made(
    ask: Ask = nobody,
    asks: Callable[[str, RequestFacts], bool] = never,
    known: Callable[[str], str] = as_it_is,
    default: Meter | None = None,
    meters: Mapping[str, Meter] | None = None,
) -> Desk:
    return Desk(default or meter(), meters or {}, ask, asks, known)


def facts(prompt: Prompt | None, model: str = "m1", kind: str = "chat", prompts: int = 1) -> RequestFacts:
    return RequestFacts("openai", kind, "inference", model=model, prompt=prompt, prompts=prompts)


def chat(*parts: Part, calls: tuple[Call, ...] = (), tools: tuple[str, ...] = ()) -> Prompt:
    return Prompt(messages=(Message("user", parts, calls),), tools=tools)


def texts(*texts: str) -> Prompt:
    return Prompt(texts=texts)


def count(prompt: Prompt | None, desk: Desk | None = None, **about: object) -> TokenCount:
    counted = asyncio.run((desk or made()).count(facts(prompt, **about)))  # type: ignore[arg-type]
    assert counted is not None
    return counted


SAY_HI = Part("text", "Say hi")
PICTURE = Part("text", "What is in this picture?")


@pytest.mark.parametrize(
    ("prompt", "tokens", "images", "unknown"),
    [
        pytest.param(chat(SAY_HI), 2, 0, 0, id="one message"),
        pytest.param(
            chat(PICTURE, Part("image", "data:AAAA"), Part("text", "Reply in one word.")),
            11, 1, 0, id="an image between two texts",
        ),
        pytest.param(chat(SAY_HI, Part("unknown", "")), 2, 0, 1, id="a part of unknown kind"),
        pytest.param(chat(SAY_HI, Part("audio", "AAAA")), 2, 0, 1, id="sound, whose length nobody knows"),
        pytest.param(chat(Part("text", "Explain what <|endoftext|> does.")), 11, 0, 0, id="text that spells a token"),
        pytest.param(chat(SAY_HI)._replace(unseen=1), 2, 0, 1, id="earlier turns that the engine keeps"),
        pytest.param(Prompt(unseen=1), 0, 0, 1, id="nothing but embeddings"),
        pytest.param(texts("Say hi", "Say hi"), 4, 0, 0, id="two prompts"),
        pytest.param(Prompt(texts=("Say hi", "hi", "hi"), again=1), 6, 0, 0, id="a query before each document"),
        pytest.param(texts(" hello" * 30_000), 30_000, 0, 0, id="a long one"),
        pytest.param(Prompt(ids=((9906, 11, 1917),)), 3, 0, 0, id="ids"),
        pytest.param(Prompt(ids=((-1,),)), 1, 0, 0, id="an id that no vocabulary has"),
        pytest.param(chat(SAY_HI, calls=(Call("f", "{}"),), tools=("{}",)), 2 + 1 + 1 + 1, 0, 0, id="a call, a tool"),
        pytest.param(Prompt(), 0, 0, 0, id="no message"),
        pytest.param(chat(), 0, 0, 0, id="an empty message"),
    ],
)  # fmt: skip
def test_text_tokens_are_those_of_the_vocabulary(prompt: Prompt, tokens: int, images: int, unknown: int) -> None:
    counted = count(prompt)
    assert (counted.text_tokens, counted.images, counted.unknown_parts) == (tokens, images, unknown)


def test_no_prompt_is_no_count() -> None:
    assert asyncio.run(made().count(facts(None))) is None


def test_ids_are_exact() -> None:
    counted = count(Prompt(ids=((1, 2, 3), (4, 5))), kind="completion", prompts=2)
    assert (counted.n, counted.how, counted.low, counted.high, counted.prompts) == (5, "exact", 5, 5, 2)


def test_text_is_estimated_with_a_band() -> None:
    counted = count(texts("hello " * 150), kind="completion")
    assert counted.how == "estimated"
    assert 0 < counted.low < counted.n < counted.high


def test_unseen_parts_widen_the_band_upwards() -> None:
    plain, seen = count(chat(SAY_HI)), count(chat(SAY_HI, Part("image", "data:AAAA"), Part("unknown", "")))
    assert (seen.n, seen.low, seen.high) == (plain.n, plain.low, plain.high + 2 * UNSEEN_PART)
    assert seen.how == "estimated"


def test_a_configured_vocabulary_is_believed_more() -> None:
    prompt = texts("hello " * 150)
    named = made(meters={"m1": meter(), "*": meter("o200k_base")})
    other = count(prompt, named, model="another")
    assert count(prompt, named).low > count(prompt).low > 0
    assert other.low > count(prompt).low


def taught(desk: Desk, answers: int, model: str = "m1") -> None:
    for n in range(answers):
        asked = facts(chat(Part("text", f"Tell me about number {n} and its friends. " * (1 + n % 9))), model)
        counted = asyncio.run(desk.count(asked))
        assert counted is not None
        desk.learn(asked, counted, Usage(prompt_tokens=2 * counted.text_tokens + 7))


def test_answers_teach_the_models_own_cost() -> None:
    desk = made()
    taught(desk, 40)
    counted = count(chat(Part("text", "Tell me about number 77 and its friends. " * 5)), desk)
    truth = 2 * counted.text_tokens + 7
    assert counted.how == "calibrated"
    assert counted.low <= truth <= counted.high
    assert counted.n == pytest.approx(truth, rel=0.03)
    assert desk.snapshot()["m1"]["answers"] == 40
    assert count(chat(SAY_HI), desk, model="m2").how == "estimated"


@pytest.mark.parametrize(
    ("prompt", "usage"),
    [
        pytest.param(chat(SAY_HI), None, id="no usage"),
        pytest.param(chat(SAY_HI), Usage(output_tokens=3), id="no prompt tokens"),
        pytest.param(texts("a"), Usage(prompt_tokens=0), id="none, which no prompt has"),
        pytest.param(chat(SAY_HI, Part("image", "")), Usage(prompt_tokens=900), id="an image"),
        pytest.param(Prompt(ids=((1, 2),)), Usage(prompt_tokens=3), id="ids"),
        pytest.param(chat(SAY_HI)._replace(unseen=1), Usage(prompt_tokens=900), id="turns that are not here"),
        pytest.param(texts(" hello" * 9000), Usage(prompt_tokens=2050), id="a prompt that was cut"),
    ],
)
def test_some_answers_teach_nothing(prompt: Prompt, usage: Usage | None) -> None:
    desk = made()
    desk.learn(facts(prompt), asyncio.run(desk.count(facts(prompt))), usage)
    desk.learn(facts(None), None, usage)
    assert desk.snapshot() == {}


@pytest.mark.parametrize("doubt", ["unread", "unread_prompt"])
def test_a_body_that_the_engine_may_read_otherwise_teaches_nothing(doubt: str) -> None:
    desk, asked = made(), facts(chat(SAY_HI))._replace(**{doubt: "it brings a template of its own"})
    desk.learn(asked, asyncio.run(desk.count(asked)), Usage(prompt_tokens=9_000))
    assert desk.snapshot() == {}


def test_all_spellings_of_a_name_are_one_model_and_a_name_with_a_vocabulary_is_its_own() -> None:
    desk = made(meters={"M1": meter("o200k_base")}, known=lambda name: name.casefold())
    taught(desk, 12, "m1")
    assert count(chat(SAY_HI), desk, model="mystery").how == "estimated"
    for name, how in (("m1", "calibrated"), ("M1", "estimated")):
        assert count(chat(SAY_HI), desk, model=name).how == how
    taught(desk, 1, "Mystery")
    again = made(known=lambda name: name.casefold())
    again.restore(json.loads(json.dumps(desk.to_dict())))
    assert again.snapshot() == desk.snapshot() | {"m1": again.snapshot()["m1"]}
    assert list(desk.snapshot()) == ["m1", "mystery"]


def test_what_was_learnt_survives_a_restart() -> None:
    desk, prompt = made(), chat(Part("text", "Tell me about number 77 and its friends."))
    taught(desk, 40)
    kept = json.loads(json.dumps(desk.to_dict()))
    again = made()
    again.restore(kept)
    assert count(prompt, again) == count(prompt, desk)
    taught(again, 1)
    assert again.snapshot()["m1"]["answers"] == 41


def test_what_was_learnt_otherwise_is_left_out() -> None:
    desk = made()
    taught(desk, 1)
    other = made(default=meter("o200k_base"))
    other.restore(desk.to_dict())
    newer = made()
    newer.restore({"m1": desk.to_dict()["m1"] | {"features": ["tokens"]}})
    assert other.snapshot() == newer.snapshot() == {}


def crowd(desk: Desk, count: int) -> None:
    asked = facts(texts("Say hi"))
    counted = asyncio.run(desk.count(asked))
    for n in range(count):
        desk.learn(facts(texts("Say hi"), f"made-up-{n}"), counted, Usage(prompt_tokens=2))


def test_a_crowd_of_models_keeps_to_its_limit_and_a_real_one_keeps_what_it_learnt() -> None:
    desk = made()
    taught(desk, 12, "real")
    crowd(desk, MODELS + 50)
    assert len(desk.snapshot()) == MODELS
    assert desk.snapshot()["real"]["answers"] == 12
    assert "made-up-0" not in desk.snapshot()
    assert f"made-up-{MODELS + 49}" in desk.snapshot()


def test_a_newcomer_has_time_to_learn_whatever_the_old_ones_have_learnt() -> None:
    desk = made()
    for _ in range(3):
        crowd(desk, MODELS)
    taught(desk, 1, "new")
    crowd(desk, MODELS // 4)
    taught(desk, 1, "newer")
    assert desk.snapshot()["new"]["answers"] == desk.snapshot()["newer"]["answers"] == 1


def test_a_name_of_any_length_is_calibrated_under_a_bounded_one() -> None:
    desk = made()
    taught(desk, 10, "m" * 4_096)
    assert list(desk.snapshot()) == ["m" * NAME_CHARS]
    assert count(chat(SAY_HI), desk, model="m" * 4_096).how == "calibrated"


def test_odd_things_are_left_out_and_counted_and_the_rest_is_taken_up() -> None:
    desk, again = made(), made()
    taught(desk, 1)
    good = desk.to_dict()["m1"]
    odd = {"a": 5, "b": [1], "c": good | {"weights": [1]}, "d": None}
    assert again.restore({**odd, "other version": {"vocabulary": "cl100k_base"}, "m1": good}) == len(odd)
    assert list(again.snapshot()) == ["m1"]
    assert [again.restore(kept) for kept in (5, None, [1])] == [1] * 3


def test_no_more_is_taken_up_than_there_is_room_for() -> None:
    desk, again = made(), made()
    taught(desk, 1)
    assert again.restore({f"m{n}": desk.to_dict()["m1"] for n in range(MODELS + 9)}) == 0
    assert len(again.snapshot()) == MODELS


@pytest.mark.parametrize(
    ("answer", "how", "n"),
    [
        (b'{"count": 41}', "exact", 41),
        (b'{"count": 0}', "exact", 0),
        (None, "estimated", 9),
        (b"<html>", "estimated", 9),
        (b'{"count": -1000000}', "estimated", 9),
        (b'{"count": 1000000}', "estimated", 9),
        (b'{"input_tokens": 1e300}', "estimated", 9),
    ],
    ids=["says", "nothing", "refuses", "rambles", "less than nothing", "more than was sent", "more than anything"],
)
def test_an_engine_that_is_asked_makes_the_count_exact(answer: bytes | None, how: str, n: int) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> bytes | None:
        asked.append(question)
        return answer

    body = b'{"model": "m1", "messages": [{"role": "system", "content": "Say hi"}]}'
    desk = made(ask, always)
    desk.serves("vllm")
    prompt = Prompt(messages=(Message("system", (SAY_HI,)),))
    counted = asyncio.run(desk.count(facts(prompt), body))
    assert counted is not None
    assert (counted.how, counted.n, counted.text_tokens) == (how, n, 2)
    assert [question.target for question in asked] == ["/tokenize"]
    if how == "exact":
        assert counted.low == counted.high == n


def test_an_engine_that_says_the_tokens_themselves_spells_the_prompt() -> None:
    async def ask(question: Question) -> bytes | None:
        return b'{"count": 3, "tokens": [7, 8, 9]}'

    heard: list[bytes] = []
    desk = made(ask, always)
    desk.serves("vllm")
    counted = asyncio.run(desk.count(facts(texts("Say hi"), kind="completion"), b"{}", heard.append))
    assert counted is not None
    assert (counted.n, heard) == (3, [b"[7, 8, 9]"])


def test_only_those_requests_are_asked_about_that_are_to_be() -> None:
    async def ask(question: Question) -> bytes | None:
        return b'{"count": 3}'

    for asks, how in ((always, "exact"), (never, "estimated"), (lambda kind, facts: kind == "sglang", "estimated")):
        desk = made(ask, asks)
        desk.serves("vllm")
        assert count(texts("Say hi"), desk, kind="completion").how == how


@pytest.mark.parametrize(
    "prompt", [chat(*[SAY_HI] * (MANY + 1)), Prompt(messages=(Message("user", (SAY_HI,)),) * MANY)]
)
def test_a_prompt_of_thousands_of_parts_is_gone_through_off_the_loop(prompt: Prompt) -> None:
    hops: list[object] = []

    async def counted(work: Callable[[], T]) -> T:
        hops.append(work)
        return work()

    many = Meter("cl100k_base", load("cl100k_base"), Cache(1 << 20), counted)
    few = count(chat(SAY_HI), made(default=many))
    assert hops == []
    assert count(prompt, made(default=many)).text_tokens >= MANY * few.text_tokens
    assert len(hops) == 3


def test_a_long_prompt_is_over_a_small_limit_before_any_answer_and_after_tiny_ones() -> None:
    desk, lorem = made(), chat(Part("text", "lorem ipsum dolor " * 200))
    for learnt in range(3):
        counted = count(lorem, desk)
        assert 360 <= counted.low <= counted.n <= counted.high
        desk.learn(facts(chat(SAY_HI)), count(chat(SAY_HI), desk), Usage(prompt_tokens=31 + learnt))
