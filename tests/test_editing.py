"""Which answers are edited, what is said before a stream's end, and what a client gets of it all."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from proxy.config import Settings
from proxy.editing import Editing, End, askings
from proxy.events import Event
from proxy.records import EngineReport, RequestFacts
from proxy.timeline import Recorder
from proxy.wire.edits import Events, Whole
from tests.support.client import Answer, simple_request
from tests.support.clock import VirtualLoop, run
from tests.support.house import URL, House
from tests.support.pages import serving
from tests.support.script import NOT_FOUND, Call, Read, Script
from tests.support.streams import DONE, USAGE, WHOLE, chat, chunk, plain, stream
from tests.support.streams import JSON as JSON_HEAD
from tests.wire.test_dialects import LONG, recorded

MS = 1_000_000
SSE, JSON = "text/event-stream; charset=utf-8", "application/json"


def settings(**tree: Any) -> Settings:
    return msgspec.convert({"upstream": [{"url": "http://x:1"}], **tree}, Settings)


@pytest.mark.parametrize(
    ("tree", "names"),
    [
        ({}, ("usage",)),
        ({"ask_usage": False}, ()),
        ({"prefixes": {"exact_ids": True}}, ("usage", "token_ids")),
        ({"prefixes": {"exact_ids": True, "audit": False}}, ("usage",)),
        ({"ask_usage": False, "ask_meta_info": True}, ("meta_info",)),
    ],
)
def test_engines_are_asked_for_what_the_settings_say(tree: dict[str, Any], names: tuple[str, ...]) -> None:
    assert askings(settings(**tree)) == names


def recorder() -> Recorder:
    made = Recorder(0.0, 0)
    made.dispatched(1 * MS)
    made.head(50 * MS, 200, True)
    return made


def facts(dialect: str = "openai", kind: str = "chat", **more: Any) -> RequestFacts:
    return RequestFacts(dialect, kind, "inference", stream=True, **more)


def made(
    asked: tuple[str, ...] = (), media: str = SSE, *, timing: bool = False, status: int = 200, encoding: str = ""
) -> type | None:
    editing = Editing(lambda: 60 * MS, timing=timing)
    found = editing.filter(asked, status, media, encoding, facts(), recorder())
    return None if found is None else type(found)


@pytest.mark.parametrize(
    ("asked", "media", "more", "kind"),
    [
        pytest.param((), SSE, {}, None, id="nothing to do"),
        pytest.param((), SSE, {"timing": True}, Events, id="times in a stream"),
        pytest.param((), JSON, {"timing": True}, None, id="times in a head"),
        pytest.param((), "application/x-ndjson", {"timing": True}, None, id="lines have no comments"),
        pytest.param(("usage",), SSE, {}, Events, id="usage in a stream"),
        pytest.param(("usage",), JSON, {}, None, id="usage in a body"),
        pytest.param(("token_ids",), SSE, {}, Events, id="ids in a stream"),
        pytest.param(("token_ids",), JSON, {}, Whole, id="ids in a body"),
        pytest.param(("token_ids",), "text/html", {}, None, id="no JSON"),
        pytest.param(("token_ids",), JSON, {"status": 400}, None, id="an error"),
        pytest.param(("usage",), SSE, {"status": 500, "timing": True}, Events, id="times in an error's stream"),
        pytest.param(("token_ids",), JSON, {"encoding": "gzip"}, None, id="compressed"),
        pytest.param(("usage",), SSE, {"encoding": " BR", "timing": True}, None, id="a compressed stream"),
        pytest.param(("usage",), SSE, {"encoding": "Identity"}, Events, id="not compressed"),
    ],
)
def test_an_answer_is_edited_where_there_is_something_to_edit(
    asked: tuple[str, ...], media: str, more: dict[str, Any], kind: type | None
) -> None:
    assert made(asked, media, **more) is kind


def test_the_head_of_an_answer_tells_times() -> None:
    pair = Editing(lambda: 60 * MS, timing=True).header(recorder())
    assert pair == (b"server-timing", b"admission;dur=0.000, proxy;dur=1.000, head;dur=50.000, total;dur=60.000")


ANTHROPIC = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
RESPONSES = b'event: response.completed\ndata: {"type":"response.completed","response":{"status":"completed"}}\n\n'
TIMINGS = b'data: {"choices":[],"timings":{"prompt_n":2,"predicted_n":1,"prompt_ms":30.5,"predicted_ms":7}}\n\n'
STOP = b'data: {"index":%d,"content":"","stop":true,"timings":{"prompt_n":1,"prompt_ms":5,"predicted_n":1}}\n\n'


def ended(pieces: list[bytes], due: bool = True, **about: Any) -> list[bytes]:
    """What leaves for each piece, and at the end; the times stand as `*`."""
    line = recorder()
    events = Events([], End(line, facts(**about), lambda: 60 * MS))
    out = [events.feed(piece) for piece in pieces]
    if due:
        line.body_end(70 * MS)
    return [*(_short(each) for each in out), _short(events.close())]


def _short(data: bytes) -> bytes:
    head, mark, tail = data.partition(b": phasegate ")
    times, end, rest = tail.partition(b"\n\n")
    assert not mark or (end and b"total;dur=60.000" in times)
    return head + b"*" + rest if mark else data


@pytest.mark.parametrize(
    ("about", "pieces", "expected"),
    [
        pytest.param({}, [chunk("a"), DONE], [chunk("a"), b"*" + DONE, b""], id="OpenAI"),
        pytest.param({}, [chunk("[DONE]"), DONE], [chunk("[DONE]"), b"*" + DONE, b""], id="text that names it"),
        pytest.param({}, [b"data: [DONE]"], [b"", b"*data: [DONE]"], id="open at the end"),
        pytest.param({}, [chunk("a")], [chunk("a"), b"*"], id="none at all"),
        pytest.param({"dialect": "anthropic"}, [ANTHROPIC], [b"*" + ANTHROPIC, b""], id="Anthropic"),
        pytest.param({"dialect": "responses"}, [RESPONSES], [b"*" + RESPONSES, b""], id="Responses"),
        pytest.param(
            {"dialect": "llamacpp", "kind": "completion"},
            [STOP % 0, DONE],
            [b"*" + STOP % 0, DONE, b""],
            id="llama.cpp",
        ),
        pytest.param(
            {"dialect": "llamacpp", "kind": "completion", "prompts": 2},
            [STOP % 0, STOP % 1],
            [STOP % 0, b"*" + STOP % 1, b""],
            id="llama.cpp, two prompts",
        ),
        pytest.param({"dialect": "sglang", "kind": "generate"}, [DONE], [b"*" + DONE, b""], id="SGLang"),
        pytest.param({"dialect": "passthrough"}, [DONE], [DONE, b"*"], id="a dialect without an end"),
        pytest.param({}, [b"data: {[DONE]\n\n"], [b"data: {[DONE]\n\n", b"*"], id="what cannot be read is no end"),
        pytest.param({}, [b": [DONE]\n\n"], [b": [DONE]\n\n", b"*"], id="a comment is no end"),
    ],
)
def test_times_are_told_before_the_terminal_event(
    about: dict[str, Any], pieces: list[bytes], expected: list[bytes]
) -> None:
    assert ended(pieces, **about) == expected


def test_a_stream_that_breaks_off_is_told_nothing() -> None:
    assert ended([chunk("a")], due=False) == [chunk("a"), b""]


@pytest.mark.parametrize("between", [b"", chunk(), b"data: {\n\n", b": x\n\n"], ids=["none", "one", "broken", "note"])
def test_the_engines_phases_are_told_though_one_read_brings_report_and_end(between: bytes) -> None:
    events = Events([], End(recorder(), facts(), lambda: 60 * MS))
    assert b"prefill;dur=30.500, decode;dur=7.000\n\n" + DONE in events.feed(chunk("a") + TIMINGS + between + DONE)


def test_a_report_that_the_tap_has_seen_is_told_and_none_where_there_is_none() -> None:
    line = recorder()
    assert b"prefill" not in Events([], End(line, facts(), lambda: 60 * MS)).feed(USAGE + DONE)
    line.event(55 * MS, Event(report=EngineReport(source="vllm.metrics", prefill_ns=9 * MS)))
    assert b", prefill;dur=9.000\n\n" + DONE in Events([], End(line, facts(), lambda: 60 * MS)).feed(DONE)


EVENTS = [name for name, one in recorded().items() if one.content_type.startswith("text/event-stream")]
ENDS = {
    "openai": rb"data: \[DONE\]",
    "anthropic": rb"event: message_stop",
    "responses": rb"event: response\.(completed|incomplete)",
    "llamacpp": rb"data: [^\n]*\"stop\":true",
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_real_engines_stream_is_told_the_times_once_before_its_end_at_every_cut(name: str) -> None:
    one, body = recorded()[name], recorded()[name].body.encode()
    found = re.search(ENDS[one.facts.dialect], body)
    at = len(body) if found is None else found.start()
    due = body[:at] + b"*" + body[at:]

    def passed(pieces: list[bytes]) -> bytes:
        line = recorder()
        events = Events([], End(line, one.facts, lambda: 60 * MS))
        out = b"".join(map(events.feed, pieces))
        line.body_end(70 * MS)
        return _short(out + events.close())

    assert passed([body]) == due
    assert passed([body[cut : cut + 1] for cut in range(len(body))]) == due
    for cut in range(0, len(body), 1 if len(body) < LONG else len(body) // 100):
        assert passed([body[:cut], body[cut:]]) == due


# --- put together ---

PROMPT = list(range(100, 140))
"""The prompt as the engine spells it; the answer is 7, and 2 for its end."""
VLLM = {"upstream": [{"url": URL, "kind": "vllm", "block_size": 16}], "prefixes": {"exact_ids": True}}


def vllm(call: Call) -> Script:
    """A vLLM that spells where it is asked."""
    asked = json.loads(call.body).get("return_token_ids") is True
    ids = {"token_ids": [7, 2] if asked else None}
    choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop", **ids}
    usage = {"prompt_tokens": len(PROMPT), "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}}
    prompt = {"prompt_token_ids": PROMPT if asked else None}
    return plain(200, {"id": "c", "choices": [choice], "usage": usage, **prompt})


def vllm_stream(call: Call) -> Script:
    """The same in a stream."""
    asked = json.loads(call.body).get("return_token_ids") is True

    def event(delta: dict[str, str], ids: list[int], finish: str | None = None, **more: object) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "token_ids": ids if asked else None}
        return b"data: " + json.dumps({"id": "c", "choices": [choice], **more}).encode() + b"\n\n"

    first = event({"role": "assistant", "content": ""}, [], prompt_token_ids=PROMPT if asked else None)
    waits = event({}, [6]) if asked else b""
    return stream(
        (10, first[:50]),
        (11, first[50:] + waits + event({"content": "Hi"}, [7])),
        (20, event({}, [2], "stop")),
        (21, DONE),
    )


def played(
    script: Script | Callable[[Call], Script],
    body: bytes,
    times: int = 1,
    looks: Callable[[Call], Script] = lambda call: NOT_FOUND,
    **more: Any,
) -> tuple[House, list[Answer]]:
    async def main(loop: VirtualLoop) -> tuple[House, list[Answer]]:
        house = House(loop, script, looks=looks, **more)
        for engine in house.app.fleet.engines:
            engine.desk.serves(engine.kind)
        return house, [await house.ask(simple_request(body)) for _ in range(times)]

    return run(main)


TOKENIZED = serving(
    {"engine.test:8000": {"/tokenize": {"count": len(PROMPT), "max_model_len": 4096, "tokens": PROMPT}}}
)


@pytest.mark.parametrize(("script", "more"), [(vllm, {}), (vllm_stream, {"stream": True})], ids=["whole", "stream"])
def test_vllm_is_asked_for_ids_and_the_client_gets_what_it_would_have_got(
    script: Callable[[Call], Script], more: dict[str, Any]
) -> None:
    body = chat(**more)
    own, (straight,) = played(script, body, **VLLM | {"prefixes": {}})
    house, (answer,) = played(script, body, looks=TOKENIZED, **VLLM)
    assert answer.body == straight.body
    assert b"token_ids" in answer.body
    assert [call.body for call in own.calls] == [body]
    assert [call.body for call in house.calls] == [b'{"return_token_ids":true,' + body[1:]]
    assert house.leftovers() == []


def test_reuse_is_foretold_and_settled_in_the_engines_own_tokens_at_one_round_trip_a_request() -> None:
    house, _ = played(vllm, chat(), 2, TOKENIZED, **VLLM)
    looks = [call for call in house.engine.calls if call.target == "/tokenize"]
    assert len(looks) == 2
    first, second = (record.prefix for record in house.records)
    assert first is not None
    assert second is not None
    assert (first.tokens, first.expected) == (40, 0)
    assert (second.tokens, second.expected, second.infinite) == (40, 32, 32)
    assert [record.counted.how for record in house.records if record.counted] == ["exact", "exact"]
    assert [record.counted.n for record in house.records if record.counted] == [40, 40]


def test_where_the_tokenizer_is_silent_our_rendering_foretells_and_the_answer_settles() -> None:
    silent = Script(ending="stall")
    house, _ = played(vllm, chat(), 2, lambda call: silent, **VLLM)
    first, second = (record.prefix for record in house.records)
    assert first is not None
    assert second is not None
    assert (first.tokens, second.tokens, second.infinite) == (40, 40, 32)
    assert (second.expected or 0) < 32
    assert [record.counted.how for record in house.records if record.counted] == ["estimated", "estimated"]
    assert [record.timeline.dispatched_ns for record in house.records] == [2_000 * MS, 2_000 * MS]


def test_an_answers_own_ids_are_expected_of_the_next_prompt() -> None:
    spelt = [PROMPT, [*PROMPT, 7, 1, 2, 3, 4, 5, 6, 7, 8]]
    looks = [Script(200, JSON_HEAD, (Read(0, json.dumps({"count": 1, "tokens": ids}).encode()),)) for ids in spelt]
    prompt, left = [*PROMPT[:32]], iter(spelt)

    def engine(call: Call) -> Script:
        (read,) = vllm(call).reads
        said, ids = read.data.replace(b"[7, 2]", b"[7, 1, 2, 3, 4, 5, 6, 7, 2]"), next(left)
        said = said.replace(json.dumps(PROMPT).encode(), json.dumps(ids).encode())
        return Script(
            200, JSON_HEAD, (Read(0, said.replace(b'"prompt_tokens": 40', b'"prompt_tokens": %d' % len(ids))),)
        )

    house, _ = played(engine, chat(), 2, lambda call: looks.pop(0), **VLLM)
    last = house.records[1].prefix
    assert last is not None
    assert last.expected == len(prompt) + 16


@pytest.mark.parametrize(
    ("kind", "settings", "body"),
    [
        pytest.param("vllm", {"exact_ids": False}, chat(), id="off"),
        pytest.param("vllm", {"exact_ids": True, "audit": False}, chat(), id="nothing is audited"),
        pytest.param("vllm", {"exact_ids": True}, chat(return_token_ids=False), id="the client has spoken"),
        pytest.param("vllm", {"exact_ids": True}, chat(logprobs=True), id="log-probabilities"),
        pytest.param("sglang", {"exact_ids": True}, chat(), id="another engine"),
    ],
)
def test_elsewhere_the_body_goes_as_it_came(kind: str, settings: dict[str, Any], body: bytes) -> None:
    house, (answer,) = played(vllm, body, upstream=[{"url": URL, "kind": kind}], prefixes=settings)
    assert [call.body for call in house.calls] == [body]
    assert answer.body == house.calls[0].body_sent


def test_an_engine_that_refuses_the_splice_gets_the_clients_body_and_its_answer_is_not_edited() -> None:
    odd = plain(200, {"choices": [{"index": 0, "token_ids": [1]}]})
    house, answers = played(
        lambda call: plain(400, {"error": "no"}) if b"return_token_ids" in call.body else odd, chat(), 2, **VLLM
    )
    assert [b"return_token_ids" in call.body for call in house.calls] == [True, False, False]
    assert [answer.body for answer in answers] == [odd.reads[0].data] * 2


def test_a_clients_own_fault_is_told_once_and_the_engine_is_asked_again() -> None:
    refusal = plain(400, {"error": {"message": "too long"}})
    house, answers = played(lambda call: refusal, chat(), 2, **VLLM)
    assert [answer.status for answer in answers] == [400, 400]
    assert [b"return_token_ids" in call.body for call in house.calls] == [True, False, True, False]


def test_sglang_is_asked_for_its_times_and_the_client_gets_what_it_would_have_got() -> None:
    def sglang(call: Call) -> Script:
        info = {"meta_info": {"queue_time": 0.25, "prompt_tokens": 9, "completion_tokens": 1}}
        asked = json.loads(call.body).get("return_meta_info") is True
        choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop", **(info if asked else {})}
        return plain(200, {"id": "c", "choices": [choice], "usage": None})

    upstream = [{"url": URL, "kind": "sglang"}]
    _, (straight,) = played(sglang, chat(), upstream=upstream)
    house, (answer,) = played(sglang, chat(), upstream=upstream, ask_meta_info=True)
    assert answer.body == straight.body
    report = house.records[0].report
    assert report is not None
    assert (report.source, report.queue_ns) == ("sglang.meta_info", 250 * MS)
    streamed, _ = played(WHOLE, chat(stream=True), upstream=upstream, ask_meta_info=True)
    assert [call.body for call in streamed.calls] == [chat(stream=True)]


def timed(answer: Answer) -> list[str]:
    return [value for name, value in answer.headers if name == "server-timing"]


def test_a_stream_has_its_times_in_one_comment_before_its_end() -> None:
    _, (straight,) = played(WHOLE, chat(stream=True))
    house, (answer,) = played(WHOLE, chat(stream=True), server_timing=True)
    comment = (
        b": phasegate admission;dur=0.000, proxy;dur=0.000, ttfb;dur=100.000, ttft;dur=100.000, total;dur=210.000\n\n"
    )
    assert answer.body == straight.body.removesuffix(DONE) + comment + DONE
    assert timed(answer) == []
    assert [at - answer.began_ns for at, _ in answer.chunks] == [100 * MS, 200 * MS, 210 * MS]
    assert house.records[0].outcome == "completed"


def test_another_answer_has_them_in_its_head() -> None:
    _, (answer,) = played(plain(200, {"choices": []}, 30), chat(), server_timing=True)
    assert timed(answer) == ["admission;dur=0.000, proxy;dur=0.000, head;dur=30.000, total;dur=30.000"]
    assert answer.body == b'{"choices": []}'
    _, (answer,) = played(plain(200, {}, 30), chat())
    assert timed(answer) == []


def test_a_compressed_stream_passes_as_it_came() -> None:
    packed = Script(200, (("content-type", "text/event-stream"), ("content-encoding", "gzip")), (Read(0, b"\x1f\x8b"),))
    _, (answer,) = played(packed, chat(stream=True), server_timing=True)
    assert answer.body == b"\x1f\x8b"
