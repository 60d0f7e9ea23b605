import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.records import RequestFacts
from proxy.wire.edits import Events
from proxy.wire.request import read_facts
from proxy.wire.routes import classify
from proxy.wire.usage import UsageEdit, asks


def facts(body: bytes, path: str = "/v1/chat/completions") -> RequestFacts:
    return read_facts(classify("POST", path), "application/json", body)


@pytest.mark.parametrize(
    ("kind", "path", "body", "expected"),
    [
        ("vllm", "/v1/chat/completions", {"stream": True}, True),
        ("openai", "/v1/completions", {"stream": True}, True),
        ("sglang", "/v1/chat/completions", {"stream": True}, True),
        ("ollama", "/v1/chat/completions", {"stream": True}, True),
        ("ollama", "/v1/completions", {"stream": True}, False),
        ("llamacpp", "/v1/chat/completions", {"stream": True}, False),
        ("vllm", "/v1/chat/completions", {"stream": False}, False),
        ("vllm", "/v1/chat/completions", {}, False),
        ("vllm", "/v1/chat/completions", {"stream": True, "stream_options": {"include_usage": True}}, False),
        ("vllm", "/v1/chat/completions", {"stream": True, "stream_options": {"include_usage": False}}, True),
        ("vllm", "/v1/embeddings", {"stream": True}, False),
        ("vllm", "/v1/responses", {"stream": True}, False),
        ("ollama", "/api/chat", {"stream": True}, False),
    ],
)
def test_usage_is_asked_for_only_where_it_comes_on_demand(kind, path, body, expected):
    assert asks(kind, facts(json.dumps(body).encode(), path)) is expected


TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
RIDING = b'data: {"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":3}}\n\n'
FILTER = b'data: {"choices":[],"prompt_filter_results":[],"usage":null}\n\n'
DONE = b"data: [DONE]\n\n"
NOTE = b": keep-alive\n\n"
BROKEN = b'data: {"usage": nope\n\n'
COMMENT = b': "usage"\n\n'
LIST = b'data: ["usage"]\n\n'


def filtered(pieces: list[bytes]) -> bytes:
    taken = Events([UsageEdit()])
    return b"".join([*(taken.feed(piece) for piece in pieces), taken.close()])


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        pytest.param(TEXT + USAGE + DONE, TEXT + DONE, id="the event asked for is taken out"),
        pytest.param(NOTE + TEXT + NOTE + USAGE + NOTE + DONE, NOTE + TEXT + NOTE + NOTE + DONE, id="comments stay"),
        pytest.param(b": x\n" + USAGE + DONE, b": x\n" + DONE, id="a comment inside the event stays"),
        pytest.param(RIDING + DONE, RIDING + DONE, id="usage beside a choice stays"),
        pytest.param(FILTER + TEXT, FILTER + TEXT, id="no choice and no usage stays"),
        pytest.param(
            BROKEN + LIST + b"event: usage\n\n", BROKEN + LIST + b"event: usage\n\n", id="what is no chunk stays"
        ),
        pytest.param(COMMENT + TEXT, COMMENT + TEXT, id="a comment that names it stays"),
        pytest.param(TEXT + USAGE[:-2], TEXT, id="open at the end"),
        pytest.param(TEXT + USAGE[:20], TEXT + USAGE[:20], id="half an event at the end stays"),
    ],
)
def test_exactly_the_event_not_asked_for_is_taken_out(body, kept):
    assert filtered([body]) == kept
    for end in (b"\r\n", b"\r"):
        assert filtered([body.replace(b"\n", end)]) == kept.replace(b"\n", end)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_the_same_bytes_stay_at_every_cut(end):
    body, kept = (each.replace(b"\n", end) for each in (NOTE + TEXT + USAGE + DONE, NOTE + TEXT + DONE))
    assert all(filtered([body[:at], body[at:]]) == kept for at in range(len(body)))
    assert filtered([bytes([byte]) for byte in body]) == kept


def test_an_answer_that_is_no_stream_keeps_its_usage():
    assert (
        UsageEdit().body(b'{"choices":[],"usage":{"prompt_tokens":3}}') == b'{"choices":[],"usage":{"prompt_tokens":3}}'
    )


def test_a_complete_event_is_never_held_back():
    taken = Events([UsageEdit()])
    assert taken.feed(TEXT) == TEXT
    assert taken.feed(TEXT + USAGE[:9]) == TEXT
    assert taken.feed(USAGE[9:] + DONE) == DONE


@given(
    st.lists(st.sampled_from([TEXT, RIDING, FILTER, DONE, NOTE, BROKEN, b"\n", b"data: x\n"]), max_size=8),
    st.integers(0, 400),
)
def test_a_stream_without_that_event_passes_byte_for_byte(events, at):
    body = b"".join(events)
    assert filtered([body[:at], body[at:]]) == body


def test_an_event_over_the_limit_is_passed_on_and_nothing_taken_out_any_more():
    taken = Events([UsageEdit()], limit=100)
    assert taken.feed(b"data: " + b"x" * 90) == b""
    assert taken.feed(b"x" * 10) == b"data: " + b"x" * 100
    assert taken.feed(b"\n\n" + USAGE) == b"\n\n" + USAGE
    assert taken.close() == b""
