import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.events import MOST_CHOICES, NOTHING, Event, Frame
from proxy.records import EngineReport, RequestFacts, Usage
from proxy.wire.decoding import MOST, Unreadable
from proxy.wire.openai import OpenAi
from tests.wire.test_fields import JSON


def reader(kind: str = "chat", streamed: bool = True, **facts: Any) -> OpenAi:
    return OpenAi(RequestFacts("openai", kind, "inference", **facts), streamed)


def frame(body: object) -> Frame:
    return Frame(json.dumps(body).encode())


def delta(content: object = None, index: int = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    said = {} if content is None else {"content": content}
    return {"index": index, "delta": said | more, "finish_reason": finish}


def chunk(*choices: dict[str, Any], **more: Any) -> Frame:
    return frame({"choices": list(choices), **more})


FIRST = chunk(delta("a"))


@pytest.mark.parametrize(
    ("choice", "event"),
    [
        pytest.param(delta("a"), Event((0,), text="a"), id="content"),
        pytest.param(delta(" \n"), Event((0,), text=" \n"), id="white space counts"),
        pytest.param(delta(""), NOTHING, id="an empty string does not"),
        pytest.param(delta("", role="assistant"), Event(role=True), id="role only"),
        pytest.param(delta("a", role="assistant"), Event((0,), text="a"), id="role and content"),
        pytest.param(delta(None, reasoning="r"), Event((0,), True), id="reasoning"),
        pytest.param(delta("", reasoning_content="r"), Event((0,), True), id="reasoning_content"),
        pytest.param(delta(None, thinking="r"), Event((0,), True), id="thinking"),
        pytest.param(delta("a", reasoning="r"), Event((0,), False, "a"), id="reasoning beside an answer"),
        pytest.param(
            delta([{"type": "text", "text": "a"}, {"type": "x"}]), Event((0,), text="a"), id="content in parts"
        ),
        pytest.param(
            delta(None, tool_calls=[{"index": 0, "function": {"name": "f"}}]), Event((0,)), id="a call's name"
        ),
        pytest.param(delta(None, tool_calls=[{"function": {"arguments": "{"}}]), Event((0,)), id="a call's arguments"),
        pytest.param(delta(None, tool_calls=[{"function": {"arguments": {"a": 1}}}]), Event((0,)), id="as an object"),
        pytest.param(delta(None, tool_calls=[{"id": "x", "function": {"arguments": ""}}]), NOTHING, id="an empty call"),
        pytest.param(delta(None, tool_calls=[{"id": "x"}, 5, None]), NOTHING, id="no call at all"),
        pytest.param(delta(None, function_call={"name": "f"}), Event((0,)), id="the older call"),
        pytest.param(delta(None, finish="stop"), Event(finish=((0, "stop"),)), id="finish only"),
        pytest.param(delta("a", finish="length"), Event((0,), text="a", finish=((0, "length"),)), id="finish and text"),
        pytest.param({"index": 0, "text": "a"}, Event((0,), text="a"), id="completion"),
        pytest.param({"index": 1, "text": "", "finish_reason": "stop"}, Event(finish=((1, "stop"),)), id="its end"),
        pytest.param({"index": 0, "message": {"content": "a"}}, Event((0,), text="a"), id="a message in a stream"),
        pytest.param({"delta": {"content": 5}, "index": "x", "finish_reason": 7}, NOTHING, id="odd types"),
        pytest.param(
            {"delta": {"content": 5, "reasoning": "r"}}, Event((0,), True), id="an odd type beside a good one"
        ),
        pytest.param({}, NOTHING, id="an empty choice"),
        pytest.param(delta("a", finish=""), Event((0,), text="a"), id="an empty finish reason is none"),
        pytest.param(delta("a") | {"index": None}, Event((0,), text="a"), id="an index that is null"),
        pytest.param(delta("", role=""), NOTHING, id="an empty role is none"),
    ],
)
def test_what_a_chunk_says(choice, event):
    fresh, started = reader(), reader()
    started.read(FIRST)
    assert fresh.read(chunk(choice)) == event
    assert started.read(chunk(choice)) == event


@pytest.mark.parametrize(
    "data", [b"", b" ", b"null", b"{}", b'{"choices":[]}', b'{"choices":null}', b"[1]", b'"x"', b'{"choices":7}', b"5"]
)
def test_these_say_nothing_and_are_no_error(data):
    assert reader().read(Frame(data)) == NOTHING


@pytest.mark.parametrize("data", [b"{", b"nope", b'{"choices":', b"{]"])
def test_what_is_no_json_is_unreadable(data):
    with pytest.raises(Unreadable):
        reader().read(Frame(data))


def test_white_space_around_a_chunk_does_not_matter():
    assert reader().read(Frame(b"\t " + FIRST.data + b"\n")).text == "a"
    assert reader().read(Frame(b" [DONE] ")) == Event(done=True)


def test_several_choices_in_one_chunk():
    event = reader(n=2).read(chunk(delta("a", 0), delta("b", 1), delta("", 2)))
    assert event == Event((0, 1), text="ab")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"error": {"message": "m", "type": "t", "param": None, "code": 500}}, "t"),
        ({"error": "m", "error_type": "generation"}, ""),
        ({"object": "error", "message": "m", "code": 400}, ""),
        ({"error": {"type": "server_error"}}, "server_error"),
        ({"error": True}, ""),
        ({"choices": [delta("a")], "error": {"message": "m"}}, ""),
    ],
)
def test_an_error_in_the_stream_is_an_error(error, kind):
    assert reader().read(frame(error)) == Event(error=kind)


def test_an_event_named_error_is_an_error():
    assert reader().read(Frame(b'{"code":500}', b"error")) == Event(error="")
    assert reader().read(Frame(FIRST.data, b"message")).error is None


def test_an_error_that_is_null_is_none():
    assert reader().read(frame({"choices": [delta("a")], "error": None})).error is None


USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 8},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


@pytest.mark.parametrize(
    "choices", [(), (delta(None),), (delta("a", finish="stop"),)], ids=["none", "empty", "with text"]
)
def test_usage_is_read_wherever_it_stands(choices):
    used = reader()
    used.read(FIRST)
    assert used.read(chunk(*choices, usage=USAGE)).usage == Usage(9, 4, 8, 2)


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        (None, None),
        ({}, None),
        ("x", None),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, None),
        ({"prompt_tokens": 9, "completion_tokens": 0}, Usage(9, 0)),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, Usage(9)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": None}}, Usage(9)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}, Usage(9, cached_tokens=0)),
        ({"prompt_tokens": 9, "completion_tokens": -1}, Usage(9)),
        ({"prompt_tokens": True, "completion_tokens": 3.0}, None),
        ({"prompt_tokens": 9, "completion_tokens": "4"}, Usage(9)),
        ({"prompt_tokens": 9, "reasoning_tokens": 3}, Usage(9, reasoning_tokens=3)),
    ],
)
def test_what_usage_does_not_say_is_unknown(usage, found):
    assert reader().read(chunk(delta("a"), usage=usage)).usage == found


def test_nan_beside_usage_does_not_hide_it():
    event = reader(streamed=False).read(
        Frame(b'{"choices":[{"logprobs":{"x":[NaN,-Infinity]},"message":{"content":"a"}}],"usage":{"prompt_tokens":9}}')
    )
    assert (event.text, event.usage) == ("a", Usage(9))


def counted(number: int) -> dict[str, int]:
    return {"prompt_tokens": 9, "completion_tokens": number}


def test_where_every_event_counts_the_count_decides():
    used = reader()
    events = [
        used.read(chunk(delta("", role="assistant"), usage=counted(0))),
        used.read(chunk(delta("a"), usage=counted(1))),
        used.read(chunk(delta(""), usage=counted(2))),
        used.read(chunk(delta("held back"), usage=counted(2))),
        used.read(chunk(delta("bcd"), usage=counted(5))),
        used.read(chunk(delta(None, finish="stop"), usage=counted(6))),
        used.read(chunk(usage=counted(6))),
    ]
    assert [event.tokens for event in events] == [(), (0,), (0,), (), (0,), (0,), ()]
    assert [event.counted for event in events] == [None, 1, 1, None, 3, 1, None]
    assert events[0].role


def test_timings_on_every_event_count_too():
    used = reader()
    events = [
        used.read(chunk(delta(text), timings=TIMINGS | {"predicted_n": count}))
        for text, count in [("", 0), ("a", 1), ("", 2), ("b", 2)]
    ]
    assert [event.tokens for event in events] == [(), (0,), (0,), ()]


def test_each_choice_counts_for_itself():
    used = reader(n=2)
    pieces = [("a", 0, 1), ("b", 1, 1), ("cd", 1, 3), ("", 0, 2), ("e", 0, 2), ("", 1, 3)]
    events = [used.read(chunk(delta(text, index), usage=counted(count))) for text, index, count in pieces]
    assert [event.tokens for event in events] == [(0,), (1,), (1,), (0,), (), ()]


NO_COUNTS = {
    "none yet": [0, 0, 0, 0],
    "the end is known": [20, 20, 20, 20],
    "one an event": [1, 1, 1, 1],
    "of each event": [1, 3, 1, 2],
    "now and then": [1, 1, 2, 2],
    "one late": [0, 1, 2, 3],
}


@pytest.mark.parametrize("usage", NO_COUNTS.values(), ids=NO_COUNTS)
@pytest.mark.parametrize("role", [False, True], ids=["text first", "a role first"])
def test_text_is_a_token_event_whatever_a_figure_that_does_not_run_says(usage: list[int], role: bool):
    used = reader()
    if role:
        event = used.read(chunk(delta("", role="assistant"), usage=counted(usage[0])))
        assert (event.tokens, event.role) == ((), True)
    assert [used.read(chunk(delta("a"), usage=counted(count))).tokens for count in usage] == [(0,)] * 4
    end = used.read(chunk(delta(None, finish="stop"), usage=counted(20)))
    assert (end.tokens, end.usage) == ((), Usage(9, 20))


def test_one_event_without_a_count_and_text_decides():
    used = reader()
    used.read(chunk(delta("", role="assistant"), usage=counted(0)))
    used.read(chunk(delta("a")))
    assert used.read(chunk(delta("b"), usage=counted(0))).tokens == (0,)
    assert used.read(chunk(delta(""), usage=counted(7))).tokens == ()


def test_zeros_on_every_chunk_count_nothing():
    zero = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    event = reader("completion").read(chunk({"index": 0, "text": "a"}, usage=zero))
    assert (event.tokens, event.usage) == ((0,), None)


@pytest.mark.parametrize(
    ("choice", "tokens"),
    [
        (delta("abc") | {"token_ids": [1, 2, 3]}, 3),
        (delta("abc") | {"logprobs": {"content": [{}, {}]}}, 2),
        ({"index": 0, "text": "ab", "logprobs": {"tokens": ["a", "b"]}}, 2),
        (delta("abc") | {"logprobs": {"content": []}}, None),
        (delta(None) | {"token_ids": [2]}, None),
    ],
)
def test_tokens_that_are_listed_are_counted(choice, tokens):
    used = reader()
    used.read(FIRST)
    assert used.read(chunk(choice)).counted == tokens


def test_ids_of_an_answer_are_handed_on_where_there_is_one_choice():
    spelt = chunk(delta("abc") | {"token_ids": [1, 2, None]})
    assert reader().read(spelt).ids == (1, 2)
    assert reader("completion", streamed=False).read(chunk({"text": "abc", "token_ids": [1, 2]})).ids == (1, 2)
    assert reader(n=2).read(spelt).ids == ()


METRICS = {"queue_time_ms": 1.5, "time_to_first_token_ms": 20, "generation_time_ms": 40.25, "mean_itl_ms": None}
TIMINGS = {"cache_n": 31, "prompt_n": 1, "prompt_ms": 3.2, "predicted_n": 8, "predicted_ms": 21.0}


def test_vllms_metrics_are_queue_prefill_and_decode():
    event = reader().read(chunk(usage=USAGE, metrics=METRICS))
    assert event.report == EngineReport(
        source="vllm.metrics", queue_ns=1_500_000, prefill_ns=20_000_000, decode_ns=40_250_000
    )


def test_llamacpps_timings_stand_in_for_usage():
    event = reader().read(chunk(delta(None, finish="stop"), timings=TIMINGS))
    assert event.usage == Usage(32, 8, 31)
    assert event.report == EngineReport(
        source="llamacpp.timings", prefill_ns=3_200_000, decode_ns=21_000_000, fresh_tokens=1, output_tokens=8
    )


def test_timings_of_a_prefill_that_runs_are_not_taken():
    running = TIMINGS | {"predicted_n": 0}
    event = reader().read(chunk(delta(None, role="assistant"), timings=running))
    assert (event.usage, event.report) == (None, None)


def test_sglangs_meta_info_rides_on_the_choice():
    info = {"prompt_tokens": 5, "completion_tokens": 2, "cached_tokens": 1, "queue_time": 0.25}
    event = reader(streamed=False).read(frame({"choices": [{"message": {"content": "a"}, "meta_info": info}]}))
    assert event.usage == Usage(5, 2, 1)
    assert event.report == EngineReport(source="sglang.meta_info", queue_ns=250_000_000)


@pytest.mark.parametrize("facts", [{"n": 2}, {"prompts": 2}])
def test_figures_for_several_do_not_cover_all(facts):
    report = reader(**facts).read(chunk(timings=TIMINGS)).report
    assert report is not None
    assert not report.covers_all


def test_a_body_has_no_token_events():
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}]}
    used = reader(streamed=False)
    assert used.read(frame(body | {"usage": USAGE})) == Event(text="a", finish=((0, "stop"),), usage=Usage(9, 4, 8, 2))
    assert used.complete()


@pytest.mark.parametrize(
    ("frames", "complete"),
    [
        pytest.param([FIRST], False, id="no end"),
        pytest.param([FIRST, Frame(b"[DONE]")], True, id="DONE"),
        pytest.param([FIRST, chunk(delta(None, finish="stop"))], True, id="finished, DONE missing"),
        pytest.param([chunk(delta("a"), delta("b", 1)), chunk(delta(None, finish="stop"))], False, id="one of two"),
        pytest.param([chunk(usage=USAGE)], False, id="no choice"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_a_stream_is_complete_at_done_or_when_every_choice_has_finished(frames, complete):
    used = reader()
    for each in frames:
        used.read(each)
    assert used.complete() is complete


@pytest.mark.parametrize("facts", [{"n": 2}, {"prompts": 2}])
def test_a_choice_that_never_came_is_missing(facts):
    used = reader(**facts)
    used.read(chunk(delta("a", finish="stop")))
    assert not used.complete()
    used.read(chunk(delta("b", 1, "stop")))
    assert used.complete()


def test_what_generates_nothing_is_complete_as_it_ends():
    used = reader("embed")
    assert used.read(frame({"data": [{"embedding": [0.1]}], "usage": {"prompt_tokens": 3}})).usage == Usage(3)
    assert used.complete()


@given(st.lists(st.dictionaries(st.sampled_from(["choices", "usage", "metrics", "timings", "error", "message"]), JSON)))
def test_no_json_raises(bodies):
    used, whole = reader(), reader(streamed=False)
    for body in bodies:
        assert used.read(frame(body)) is not None
        assert whole.read(frame(body)).tokens == ()
    used.complete()


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["index", "delta", "text", "finish_reason", "message", "token_ids", "logprobs", "meta_info"]
            ),
            JSON
            | st.dictionaries(st.sampled_from(["content", "role", "tool_calls", "reasoning", "function_call"]), JSON),
        ),
        max_size=3,
    )
)
def test_no_choice_raises(choices):
    used = reader()
    used.read(FIRST)
    assert used.read(chunk(*choices)) is not None


@pytest.mark.parametrize("content", ["a", [{"text": "a"}, *[5] * (MOST - 2), {"text": ""}, {"text": "b"}]])
def test_of_very_many_choices_and_parts_in_one_body_the_first_are_told(content):
    choices = [
        {"index": n, "message": {"content": content if n == 0 else "a"}, "finish_reason": "stop"} for n in range(999)
    ]
    event = reader(streamed=False).read(chunk(*choices, usage=counted(3)))
    assert (event.text, len(event.finish)) == ("a" * MOST, MOST)
    assert event.usage is not None


def test_choices_without_end_take_bounded_memory():
    used = reader()
    for index in range(MOST_CHOICES + 100):
        used.read(frame({"choices": [{"index": index, "delta": {"content": "a"}, "finish_reason": "stop"}]}))
    assert (len(used._seen), len(used._finished)) == (MOST_CHOICES, MOST_CHOICES)
