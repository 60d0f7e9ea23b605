import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.events import MOST_CHOICES, NOTHING, Event, Frame
from proxy.records import EngineReport, RequestFacts, Usage
from proxy.wire.decoding import MOST, Unreadable
from proxy.wire.sglang import TEXTS, SgLang
from tests.wire.test_fields import JSON


def reader(streamed: bool = True, **facts: Any) -> SgLang:
    return SgLang(RequestFacts("sglang", "generate", "inference", **facts), streamed)


def frame(body: object) -> Frame:
    return Frame(json.dumps(body).encode())


def event(text: str, count: int | None = None, **info: object) -> Frame:
    counted = {} if count is None else {"completion_tokens": count}
    return frame({"text": text, "meta_info": {"prompt_tokens": 5, "finish_reason": None, **counted, **info}})


def test_cumulative_text_is_told_once():
    used = reader()
    events = [used.read(event(text, count)) for text, count in [("a", 1), ("ab", 2), ("ab", 3), ("abcd", 5)]]
    assert [each.text for each in events] == ["a", "b", "", "cd"]
    assert [each.tokens for each in events] == [(0,)] * 4
    assert [each.counted for each in events] == [1, 1, 1, 2]


def test_incremental_text_stays_as_it_is():
    used = reader()
    assert [used.read(event(text)).text for text in ("a", "b", "", "b", "bc")] == ["a", "b", "", "b", "bc"]


def test_without_counts_text_decides():
    used = reader()
    assert [used.read(event(text)).tokens for text in ("", "a", "a", "ab")] == [(), (0,), (), (0,)]


@pytest.mark.parametrize("count", [0, 1, 16])
def test_text_is_a_token_event_whatever_a_constant_says(count):
    used = reader()
    assert [used.read(event(text, count)).tokens for text in ("a", "ab", "abc")] == [(0,)] * 3


INFO = {
    "prompt_tokens": 5,
    "completion_tokens": 2,
    "cached_tokens": 4,
    "reasoning_tokens": 0,
    "e2e_latency": 1.5,
    "queue_time": 0.25,
    "request_received_ts": 1795962579.0,
    "api_server_dispatch_finish_ts": 1795962579.125,
    "forward_entry_time": 1795962579.5,
    "prefill_finished_time": 1795962580.0,
    "request_finished_ts": 1795962580.25,
}
REPORT = EngineReport(
    source="sglang.meta_info",
    total_ns=1_500_000_000,
    frontend_ns=125_000_000,
    queue_ns=250_000_000,
    prefill_ns=500_000_000,
    decode_ns=250_000_000,
)


def test_the_last_event_has_the_figures():
    used = reader()
    said = used.read(event("a", **INFO | {"finish_reason": {"type": "length", "length": 2}}))
    assert (said.finish, said.usage, said.report) == (((0, "length"),), Usage(5, 2, 4, 0), REPORT)
    assert used.complete()
    assert used.read(Frame(b"[DONE]")) == Event(done=True)


def test_older_names_of_the_stamps_are_read():
    older = {"forward_entry_time": 1.0, "prefill_finished_ts": 1.5, "decode_finished_ts": 2.5, "finish_reason": "stop"}
    report = reader().read(event("a", **older)).report
    assert report == EngineReport(source="sglang.meta_info", prefill_ns=500_000_000, decode_ns=1_000_000_000)


def test_without_metrics_nothing_is_reported():
    said = reader().read(event("a", 1, finish_reason={"type": "stop"}))
    assert said.report is None
    assert said.usage == Usage(5, 1)


def test_an_abort_is_an_error():
    said = reader().read(event("", finish_reason={"type": "abort", "message": "gone", "status_code": 500}))
    assert (said.error, said.finish) == ("abort", ((0, "abort"),))
    assert reader().read(frame({"error": {"message": "m"}})) == Event(error="")


def test_several_results_are_told_without_the_figures_of_one():
    results = [{"index": n, "text": "ab"[n], "meta_info": INFO | {"finish_reason": "stop"}} for n in (0, 1)]
    assert reader(streamed=False, prompts=2).read(frame([*results, 5])) == Event(
        text="ab", finish=((0, "stop"), (1, "stop"))
    )


def test_of_very_many_results_the_first_are_told():
    results = [{"index": n, "text": "a", "meta_info": {"finish_reason": "stop"}} for n in range(1_000)]
    event = reader(streamed=False).read(frame(results))
    assert (event.text, len(event.finish)) == ("a" * MOST, MOST)


def test_a_body_is_complete_and_a_stream_needs_its_end():
    assert reader(streamed=False).complete()
    used = reader()
    assert not used.complete()
    used.read(Frame(b"[DONE]"))
    assert used.complete()
    several = reader(n=2)
    several.read(event("a", finish_reason="stop"))
    assert not several.complete()


@pytest.mark.parametrize("data", [b"", b"  ", b"null"])
def test_these_say_nothing(data):
    assert reader().read(Frame(data)) == NOTHING


@pytest.mark.parametrize("data", [b"[", b"{"])
def test_what_is_no_json_is_unreadable(data):
    with pytest.raises(Unreadable):
        reader().read(Frame(data))


@given(
    st.dictionaries(st.sampled_from(["index", "text", "meta_info", "error"]), JSON),
    st.dictionaries(st.sampled_from([*INFO, "finish_reason"]), JSON),
)
def test_no_json_raises(body, info):
    assert reader().read(frame({"meta_info": info} | body)) is not None
    assert reader(streamed=False).read(frame([body])).tokens == ()


def test_choices_without_end_take_bounded_memory():
    used = reader()
    for index in range(MOST_CHOICES + 100):
        used.read(frame({"index": index, "text": "a", "meta_info": {"finish_reason": "stop", "completion_tokens": 1}}))
    assert (len(used._finished), len(used._texts)) == (MOST_CHOICES, TEXTS)
    assert used.read(frame({"index": 0, "text": "ab", "meta_info": {}})).text == "b"
    assert used.read(frame({"index": TEXTS, "text": "ab", "meta_info": {}})).text == "ab"
