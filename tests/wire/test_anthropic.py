import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.events import NOTHING, Event, Frame
from proxy.records import RequestFacts, Usage
from proxy.wire.anthropic import Anthropic
from proxy.wire.decoding import Unreadable
from tests.wire.test_fields import JSON


def reader(streamed: bool = True) -> Anthropic:
    return Anthropic(RequestFacts("anthropic", "chat", "inference"), streamed)


def frame(body: object) -> Frame:
    return Frame(json.dumps(body).encode())


def delta(**said: str) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": said}


def block(**said: str) -> dict[str, object]:
    return {"type": "content_block_start", "index": 0, "content_block": said}


@pytest.mark.parametrize(
    ("body", "event"),
    [
        pytest.param(
            {"type": "message_start", "message": {"usage": {"input_tokens": 8}}}, Event(role=True), id="start"
        ),
        pytest.param({"type": "ping"}, NOTHING, id="ping"),
        pytest.param(block(type="text", text=""), NOTHING, id="a block opens"),
        pytest.param(block(type="text", text="a"), Event((0,), text="a"), id="a block opens with text"),
        pytest.param(block(type="tool_use", name="f"), Event((0,)), id="a call's name"),
        pytest.param(delta(type="text_delta", text="a"), Event((0,), text="a"), id="text"),
        pytest.param(delta(type="text_delta", text=""), NOTHING, id="empty text"),
        pytest.param(delta(type="thinking_delta", thinking="hm"), Event((0,), True), id="thinking"),
        pytest.param(delta(type="input_json_delta", partial_json="{"), Event((0,)), id="a call's arguments"),
        pytest.param(delta(type="signature_delta", signature="x"), NOTHING, id="signature"),
        pytest.param({"type": "content_block_stop"}, NOTHING, id="a block closes"),
        pytest.param({"type": "message_stop"}, Event(done=True), id="stop"),
        pytest.param(
            {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
            Event(error="overloaded_error"),
            id="error",
        ),
        pytest.param({"type": "message_start", "message": 5}, Event(role=True), id="odd types"),
        pytest.param([], NOTHING, id="no object"),
    ],
)
def test_what_an_event_says(body, event):
    assert reader().read(frame(body)) == event


@pytest.mark.parametrize(
    ("start", "end", "usage"),
    [
        pytest.param(
            {"input_tokens": 8}, {"input_tokens": 16, "output_tokens": 8}, Usage(16, 8), id="Ollama guesses first"
        ),
        pytest.param(
            {"input_tokens": 1, "cache_read_input_tokens": 36}, {"output_tokens": 24}, Usage(37, 24, 36), id="llama.cpp"
        ),
        pytest.param(
            {"input_tokens": 37},
            {"input_tokens": 5, "output_tokens": 8, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 32},
            Usage(39, 8, 32),
            id="vLLM",
        ),
        pytest.param(None, {"output_tokens": 3}, Usage(None, 3), id="only the end"),
        pytest.param({"input_tokens": 3}, None, None, id="only the start"),
    ],
)
def test_usage_is_what_the_end_says_and_what_only_the_start_says(start, end, usage):
    used = reader()
    assert used.read(frame({"type": "message_start", "message": {"usage": start}})).usage is None
    event = used.read(frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": end}))
    assert event == Event(finish=((0, "end_turn"),), usage=usage)


def test_an_end_without_a_reason_has_none():
    assert reader().read(frame({"type": "message_delta"})) == NOTHING


def test_a_body_is_read_whole():
    body = {
        "type": "message",
        "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "name": "f"}, {"type": "text", "text": "b"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 8},
    }
    used = reader(streamed=False)
    assert used.read(frame(body)) == Event(text="ab", finish=((0, "end_turn"),), usage=Usage(5, 8))
    assert used.read(frame({})) == NOTHING
    assert used.complete()


def test_a_stream_is_complete_at_message_stop():
    used = reader()
    assert not used.complete()
    used.read(frame({"type": "message_stop"}))
    used.read(frame({"type": "ping"}))
    assert used.complete()


@pytest.mark.parametrize("data", [b"", b" ", b"[DONE]", b"null"])
def test_these_say_nothing(data):
    assert reader().read(Frame(data)) == NOTHING


def test_what_is_no_json_is_unreadable():
    with pytest.raises(Unreadable):
        reader().read(Frame(b"{"))


@given(
    st.dictionaries(
        st.sampled_from(["type", "delta", "content_block", "content", "message", "stop_reason", "usage", "error"]), JSON
    ),
    st.sampled_from(["message_start", "message_delta", "content_block_delta", "message_stop"]),
)
def test_no_json_raises(body, kind):
    assert reader().read(frame({"type": kind} | body)) is not None
    assert reader(streamed=False).read(frame(body)).tokens == ()
