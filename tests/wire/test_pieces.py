"""Reads taken many at a time say what they say one by one."""

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.records import RequestFacts
from proxy.tap import Hearing, Tap
from proxy.timeline import Recorder
from proxy.wire.dialects import reader_for
from proxy.wire.framing import framing_for
from proxy.wire.pieces import texts_of
from tests.wire.test_dialects import STREAMS, recorded

SSE, NDJSON = "text/event-stream", "application/x-ndjson"
LIMIT = 10_000


def facts(dialect: str, kind: str) -> RequestFacts:
    return RequestFacts(dialect, kind, "inference", model="m", stream=True)


def observed(
    asked: RequestFacts,
    content_type: str,
    reads: Sequence[bytes],
    *,
    together: bool,
    limit: int = LIMIT,
    encoding: str = "",
) -> tuple[Any, ...]:
    """All that is known of an answer when it has ended, a read each 10 ms; and how many rows were taken at once."""
    recorder, hearing = Recorder(0.0, 0), Hearing()
    recorder.dispatched(1)
    recorder.head(2, 200, True)
    framing, reader = framing_for(content_type, limit), reader_for(asked, content_type, 200)
    rows: list[int] = []
    texts = counting(texts_of(framing, reader), rows)
    tap = Tap(recorder, framing, reader, encoding, hearing.hear, hold=32 if together else 1, texts=texts)
    for at, read in enumerate(reads):
        t = 10_000_000 * at + 5
        recorder.read(t, len(read))
        tap.feed(t, read)
        while tap.behind:
            tap.go_on()
    recorder.body_end(10_000_000 * len(reads) + 5)
    tap.close(10_000_000 * len(reads) + 5)
    tap.catch_up()
    said = (recorder.usage, recorder.report, recorder.error, recorder.finished, hearing.said(), tap.blind, tap.complete)
    return sum(rows), said, recorder.end(10_000_000_000)


def counting(texts: Callable[[Sequence[bytes]], Sequence[str]] | None, rows: list[int]) -> Any:
    def counted(reads: Sequence[bytes]) -> Sequence[str]:
        assert texts is not None
        found = texts(reads)
        rows.append(len(found))
        return found

    return None if texts is None else counted


def chunk(choice: str, more: str = "") -> bytes:
    return b'data: {"id":"c","choices":[%b]%b}\n\n' % (choice.encode(), more.encode())


def delta(words: str, more: str = "") -> bytes:
    return chunk(f'{{"index":0,"delta":{{{words}}},"logprobs":null,"finish_reason":null{more}}}')


USUAL = [
    delta('"content":" tok"'),
    delta('"content":"ü\\n\\u00e9\\ud83d\\ude00 }\\n\\ndata: {"'),
    delta('"role":"assistant","content":"}","tool_calls":null'),
    chunk('{"delta":{"content":"x"},"finish_reason":""}'),
    chunk('{"index":null,"delta":{"content":"x","reasoning_content":"y"}}', ',"usage":null'),
]
THOUGHTS = [delta('"reasoning_content":"hm"'), delta('"reasoning":"hm","content":""'), delta('"thinking":"hm"')]
COMPLETION = [chunk('{"index":0,"text":" tok","finish_reason":null}'), chunk('{"text":"a"}', ',"metrics":null')]
ODD = [
    delta('"role":"assistant"'),
    delta('"content":""'),
    delta('"content":null'),
    delta('"content":[{"type":"text","text":"a"}]'),
    delta('"content":"x"', ',"token_ids":[1,2]'),
    delta('"content":"x"', ',"meta_info":{"completion_tokens":3}'),
    delta('"content":"\\ud800"'),
    delta('"tool_calls":[{"function":{"name":"f"}}]'),
    delta('"reasoning":"hm","tool_calls":[{"function":{"name":"f"}}]'),
    delta('"reasoning":"hm","function_call":{"name":"f"}'),
    chunk('{"index":1,"delta":{"content":"second"}}'),
    chunk('{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}'),
    chunk('{"index":0,"delta":{},"finish_reason":"stop"}'),
    chunk('{"index":0,"delta":{"content":"end"},"finish_reason":"length"}'),
    chunk('{"delta":{"content":"a"}}', ',"usage":{"prompt_tokens":3,"completion_tokens":5}'),
    chunk("", ',"usage":{"prompt_tokens":3,"completion_tokens":9}'),
    chunk('{"delta":{"content":"a"}}', ',"timings":{"predicted_n":3,"predicted_ms":5}'),
    chunk('{"delta":{"content":"a"}}', ',"error":{"message":"no"}'),
    b'data: {"error":"no"}\n\n',
    b"data: [DONE]\n\n",
    b"data: null\n\n",
    b"data: {}\n\n",
    b"data: {]}\n\n",
    b"data:{}\n\n",
    b"data: \xff{}\n\n",
    b": ping\n\n",
    b"event: error\ndata: {}\n\n",
    USUAL[0] + USUAL[0],
    USUAL[0][:40],
    USUAL[0][40:],
    USUAL[0] + USUAL[1][:-1],
    USUAL[0][:-1],
    b"\n",
    b"",
    USUAL[0].replace(b"\n", b"\r\n"),
    # Two objects on one line, one on two: as many as there are lines.
    b'data: {"choices":[{"delta":{"content":"a"}}]} {"choices":[{"delta":{"content":"b"}}]}\n\n',
    b'data: {"choices":\n\n',
    b'data: [{"delta":{"content":"a"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"a"}\n\n',
    b'data: {"a":1}],"x":{}}\n\n',
    b'data: {"choices":[{"delta":{"content":"a"}}],"x":\n\n',
    b'data: {"y":1}} {"choices":[{"delta":{"content":"b"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"a"}}]\r}\n\n',
    b'data: {"x":{}\n\n',
    b'data: ,"choices":[{"delta":{"content":"a"}}]} {"choices":[{"delta":{"content":"b"}}]}\n\n',
    b'data:  {"choices":[{"delta":{"content":"a"}}]}\n\n',
    chunk('{"delta":{"content":"%s"}}' % ("x" * LIMIT)),
]
LINES = [
    b'{"message":{"role":"assistant","content":" tok"},"done":false}\n',
    b'{"created_at":"now","response":"tok","done":false}\n',
    b'{"message":{"content":"","thinking":"hm"},"done":false}\n',
    b'{"thinking":"hm","response":""}\n',
    b'{"message":{"content":"a","tool_calls":null},"eval_count":3}\n',
]
ODD_LINES = [
    b'{"message":{"role":"assistant","content":""},"done":false}\n',
    b'{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]},"done":false}\n',
    b'{"message":{"content":"a"},"done":true,"done_reason":"stop","total_duration":9,"eval_count":3}\n',
    b'{"response":"a","total_duration":9}\n',
    b'{"error":"no"}\n',
    b'{"status":"pulling"}\n',
    LINES[0] + LINES[1],
    LINES[0][:20],
    LINES[0][20:],
    LINES[1].replace(b"\n", b"\r\n"),
    b"\n",
    b"",
    b"null\n",
    b'{"response":"a"} {"response":"b"}\n',
    b'{"response":\n',
    b'"a"}\n',
    b'{"response":"a","x":\n',
    b'{"y":1}} {"response":"b"}\n',
    b'{"x":{}\n',
    b',"response":"a"}\r{"response":"b"}\n',
    b' {"response":"a"}\n',
    b'{"message":{"content":"a"}\n',
    b'{"response":"%s"}\n' % (b"x" * LIMIT),
]


def streams(usual: list[bytes], odd: list[bytes]) -> st.SearchStrategy[list[bytes]]:
    """Runs of usual reads with odd ones strewn in."""
    run = st.lists(st.sampled_from(usual), min_size=10, max_size=40)
    return st.lists(st.one_of(run, run, st.lists(st.sampled_from(odd), max_size=2)), max_size=8).map(
        lambda runs: [read for run in runs for read in run]
    )


@settings(max_examples=400)
@given(reads=st.one_of(streams(USUAL, ODD), streams(USUAL + THOUGHTS, ODD), streams(THOUGHTS, ODD)))
def test_a_chat_is_the_same_read_by_read_and_many_at_a_time(reads):
    same(facts("openai", "chat"), SSE, reads)


@given(reads=streams(COMPLETION, ODD))
def test_a_completion_is_too(reads):
    same(facts("openai", "completion"), SSE, reads)


@settings(max_examples=200)
@given(reads=streams(LINES, ODD_LINES), kind=st.sampled_from(["chat", "generate"]))
def test_so_is_an_answer_of_ollama(reads, kind):
    same(facts("ollama", kind), NDJSON, reads)


COUNTED = [chunk('{"delta":{"content":"a"}}', f',"usage":{{"completion_tokens":{n}}}') for n in (1, 2, 2, 4)]


@pytest.mark.parametrize("lead", [5, 14, 15])
@pytest.mark.parametrize("at", range(len(ODD)))
def test_no_odd_event_hides_in_a_row(at, lead):
    for usual in (USUAL, THOUGHTS, COMPLETION):
        for odd in (ODD[at : at + 1], ODD[at : at + 2]):
            same(facts("openai", "chat"), SSE, [*usual[:1] * (3 + lead), *odd, *usual[:1] * 40])


@pytest.mark.parametrize("lead", [5, 14, 15])
@pytest.mark.parametrize("at", range(len(ODD_LINES)))
def test_no_odd_line_hides_in_a_row(at, lead):
    for kind in ("chat", "generate"):
        for odd in (ODD_LINES[at : at + 1], ODD_LINES[at : at + 2]):
            same(facts("ollama", kind), NDJSON, [*LINES[:1] * (3 + lead), *odd, *LINES * 20])


def test_rows_keep_to_what_was_before_them():
    """The first answer behind reasoning, and an end of the running counts, are each told by one event; and one read
    that says nothing is not made up for by one that says two things."""
    uncounted = chunk('{"delta":{"content":""}}', ',"usage":{"completion_tokens":60}')
    twice = b'data: {"choices":[{"delta":{"content":"a"}}]} {"choices":[{"delta":{"content":"b"}}]}\n\n'
    nothing_and_twice = [*USUAL[:1] * 20, delta('"role":"assistant"'), twice, *USUAL[:1] * 20]
    for reads in (
        THOUGHTS * 20 + USUAL * 20,
        [*COUNTED[:2], *USUAL[:1] * 32, uncounted],
        COUNTED + USUAL * 20,
        nothing_and_twice,
    ):
        same(facts("openai", "chat"), SSE, reads)


def same(asked: RequestFacts, content_type: str, reads: list[bytes], **more: Any) -> None:
    _, *together = observed(asked, content_type, reads, together=True, **more)
    _, *alone = observed(asked, content_type, reads, together=False, **more)
    assert together == alone


CROWD = "[" + "{}," * 12_000 + "1]"


@pytest.mark.parametrize(
    ("asked", "content_type", "usual", "crowded"),
    [
        (facts("openai", "chat"), SSE, USUAL[0], chunk('{"delta":{"content":"a"}}', f',"x":{CROWD}')),
        (facts("ollama", "chat"), NDJSON, LINES[0], b'{"response":"a","x":%b}\n' % CROWD.encode()),
    ],
)
def test_an_event_that_is_too_crowded_to_be_read_is_in_a_row_too(asked, content_type, usual, crowded):
    same(asked, content_type, [*[usual] * 20, crowded, *[usual] * 20], limit=1 << 20)


def test_bytes_that_are_to_be_inflated_are_no_events_yet():
    """A block that is stored as it is looks like what is in it."""
    texts, end = USUAL[:1] * 40, chunk("", ',"usage":{"prompt_tokens":3,"completion_tokens":40}') * 9
    stored, packed = zlib.compressobj(0, wbits=-15), zlib.compressobj(wbits=-15)
    body = stored.compress(b"".join(texts)) + stored.flush(zlib.Z_FULL_FLUSH)
    head = body[: body.index(texts[0])]
    reads = [head, *texts, body[len(head) + len(b"".join(texts)) :] + packed.compress(end) + packed.flush()]
    same(facts("openai", "chat"), SSE, reads, encoding="deflate")
    _, (usage, *_), line = observed(facts("openai", "chat"), SSE, reads, together=True, encoding="deflate")
    assert (line.token_events, usage.output_tokens) == (40, 40)


@pytest.mark.parametrize("name", STREAMS)
def test_recorded_streams_are_the_same(name):
    exchange = recorded()[name]
    end = b"\n" if "json" in exchange.content_type else b"\n\n"
    reads = re.findall(rb".+?(?:%b|$)" % end, exchange.body.encode(), re.DOTALL)
    assert b"".join(reads) == exchange.body.encode()
    same(exchange.facts, exchange.content_type, reads)


@pytest.mark.parametrize(
    ("dialect", "kind", "content_type", "usual"),
    [
        pytest.param("openai", "chat", SSE, USUAL, id="chat"),
        pytest.param("openai", "chat", SSE, THOUGHTS, id="reasoning"),
        pytest.param("openai", "completion", SSE, COMPLETION, id="completion"),
        pytest.param("ollama", "chat", NDJSON, LINES, id="ollama"),
    ],
)
def test_usual_reads_are_taken_many_at_a_time(dialect, kind, content_type, usual):
    taken, _, line = observed(facts(dialect, kind), content_type, usual[:1] * 2 + usual * 20, together=True)
    assert line.token_events == 2 + 20 * len(usual)
    assert taken >= line.token_events * 0.7


def test_other_answers_are_read_one_by_one():
    for dialect, content_type in (("anthropic", SSE), ("openai", "application/json"), ("passthrough", SSE)):
        asked = facts(dialect, "chat")
        assert texts_of(framing_for(content_type, LIMIT), reader_for(asked, content_type, 200)) is None
