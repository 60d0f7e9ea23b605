import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.events import NOTHING, Event, Frame
from proxy.records import EngineReport, RequestFacts, Usage
from proxy.wire.decoding import MOST, Unreadable
from proxy.wire.responses import Responses
from tests.wire.test_fields import JSON


def reader(streamed: bool = True) -> Responses:
    return Responses(RequestFacts("responses", "chat", "inference"), streamed)


def frame(body: object) -> Frame:
    return Frame(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("body", "event"),
    [
        pytest.param({"type": "response.created", "response": {"status": "in_progress"}}, NOTHING, id="created"),
        pytest.param({"type": "response.output_text.delta", "delta": "a"}, Event((0,), text="a"), id="text"),
        pytest.param({"type": "response.output_text.delta", "delta": ""}, NOTHING, id="empty text"),
        pytest.param({"type": "response.reasoning_text.delta", "delta": "r"}, Event((0,), True), id="reasoning"),
        pytest.param({"type": "response.reasoning_summary_text.delta", "delta": "r"}, Event((0,), True), id="summary"),
        pytest.param({"type": "response.function_call_arguments.delta", "delta": "{"}, Event((0,)), id="arguments"),
        pytest.param({"type": "response.audio.delta", "delta": "x"}, NOTHING, id="another delta"),
        pytest.param(
            {"type": "response.output_item.added", "item": {"type": "function_call", "name": "f"}},
            Event((0,)),
            id="call",
        ),
        pytest.param(
            {"type": "response.output_item.added", "item": {"type": "message"}}, NOTHING, id="a message opens"
        ),
        pytest.param({"type": "response.output_text.done", "text": "abc"}, NOTHING, id="text again"),
        pytest.param({"type": "error", "message": "m", "code": "x"}, Event(error="x"), id="error"),
        pytest.param({"type": "error", "error": {"message": "m"}}, Event(error=""), id="error as an object"),
        pytest.param({"type": "response.output_text.delta", "delta": 5}, NOTHING, id="odd types"),
        pytest.param([], NOTHING, id="no object"),
    ],
)
def test_what_an_event_says(body, event):
    assert reader().read(frame(body)) == event


def usage(cached: int | None, **details: object) -> dict[str, object]:
    return {"input_tokens": 37, "output_tokens": 8, "input_tokens_details": {"cached_tokens": cached, **details}}


TIMINGS = {"cache_n": 0, "prompt_n": 37, "prompt_ms": 3.5, "predicted_n": 8, "predicted_ms": 21}


@pytest.mark.parametrize("kind", ["completed", "incomplete", "failed"])
def test_the_end_has_usage_and_no_text(kind):
    response = {"status": kind, "usage": usage(24), "output": [{"content": [{"type": "output_text", "text": "a"}]}]}
    used = reader()
    assert not used.complete()
    event = used.read(frame({"type": f"response.{kind}", "response": response}))
    assert event == Event(finish=((0, kind),), usage=Usage(37, 8, 24), done=True)
    assert used.complete()


@pytest.mark.parametrize(
    ("response", "beside", "cached"),
    [
        pytest.param({"usage": usage(0)}, None, None, id="a bare zero is a constant"),
        pytest.param({"usage": usage(0, cache_write_tokens=0)}, None, 0, id="more details"),
        pytest.param({"usage": usage(0), "metrics": {"queue_time_ms": 1}}, None, 0, id="beside metrics"),
        pytest.param({"usage": usage(0)}, TIMINGS, 0, id="beside timings"),
        pytest.param({"usage": usage(16)}, None, 16, id="a number that is none"),
        pytest.param({"usage": usage(None)}, None, None, id="null"),
    ],
)
def test_a_zero_is_believed_where_the_engine_is_seen_to_count(response, beside, cached):
    event = reader().read(frame({"type": "response.completed", "response": response, "timings": beside}))
    assert event.usage == Usage(37, 8, cached)


def test_engines_report_inside_or_beside_the_response():
    timed = reader().read(frame({"type": "response.completed", "response": {}, "timings": TIMINGS}))
    assert timed.report == EngineReport(
        source="llamacpp.timings", prefill_ns=3_500_000, decode_ns=21_000_000, fresh_tokens=37, output_tokens=8
    )
    assert timed.usage == Usage(37, 8, 0)
    metrics = {"queue_time_ms": 1, "time_to_first_token_ms": 2, "generation_time_ms": 3}
    assert reader(streamed=False).read(frame({"metrics": metrics})).report == EngineReport(
        source="vllm.metrics", queue_ns=1_000_000, prefill_ns=2_000_000, decode_ns=3_000_000
    )


def test_a_body_is_read_whole():
    body = {
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "error": None,
        "output": [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
            {
                "type": "message",
                "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}],
            },
        ],
    }
    used = reader(streamed=False)
    assert used.read(frame(body)) == Event(text="ab", finish=((0, "max_output_tokens"),))
    assert used.complete()


def test_of_very_many_items_and_parts_the_first_are_told():
    item = {"type": "message", "content": [{"type": "output_text", "text": "a"}, 5] * 1_000}
    body = {"status": "completed", "output": [item, *[5] * 1_000, item]}
    assert reader(streamed=False).read(frame(body)).text == "a" * (MOST // 2)


def test_a_failed_response_is_an_error():
    body = {"type": "response.failed", "response": {"status": "failed", "error": {"code": "x", "message": "m"}}}
    assert reader().read(frame(body)) == Event(finish=((0, "failed"),), error="x", done=True)


@pytest.mark.parametrize("data", [b"", b" ", b"[DONE]", b"null"])
@pytest.mark.parametrize("streamed", [True, False])
def test_these_say_nothing(data, streamed):
    assert reader(streamed).read(Frame(data)) == NOTHING


@pytest.mark.parametrize("streamed", [True, False])
def test_what_is_no_json_is_unreadable(streamed):
    with pytest.raises(Unreadable):
        reader(streamed).read(Frame(b"{"))


@given(
    st.sampled_from(["response.completed", "response.output_text.delta", "response.output_item.added", "error"]),
    st.dictionaries(st.sampled_from(["delta", "item", "response", "timings", "message", "error"]), JSON),
    st.dictionaries(st.sampled_from(["output", "usage", "metrics", "timings", "error", "status"]), JSON),
)
def test_no_json_raises(kind, body, response):
    assert reader().read(frame({"type": kind, "response": response} | body)) is not None
    assert reader(streamed=False).read(frame(response)).tokens == ()
