import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.events import MOST_CHOICES, NOTHING, Event, Frame
from proxy.records import EngineReport, RequestFacts, Usage
from proxy.wire.decoding import MOST, Unreadable
from proxy.wire.llamacpp import LlamaCpp
from tests.wire.test_fields import JSON

TIMINGS = {"cache_n": 3, "prompt_n": 1, "prompt_ms": 8.986, "predicted_n": 16, "predicted_ms": 181.791}
REPORT = EngineReport(
    source="llamacpp.timings", prefill_ns=8_986_000, decode_ns=181_791_000, fresh_tokens=1, output_tokens=16
)


def reader(streamed: bool = True, kind: str = "completion", **facts: Any) -> LlamaCpp:
    return LlamaCpp(RequestFacts("llamacpp", kind, "inference", **facts), streamed)


def frame(body: object) -> Frame:
    return Frame(json.dumps(body).encode())


def test_where_every_event_counts_the_count_decides():
    used = reader()
    texts = [("", 0), ("a", 1), ("", 2), ("held", 2), ("bcd", 5)]
    events = [used.read(frame({"content": text, "stop": False, "tokens_predicted": n})) for text, n in texts]
    assert [event.tokens for event in events] == [(), (0,), (0,), (), (0,)]
    assert [event.counted for event in events] == [None, 1, 1, None, 3]
    assert "".join(event.text for event in events) == "aheldbcd"


@pytest.mark.parametrize("count", [0, 1, 16])
def test_text_is_a_token_event_whatever_a_constant_says(count):
    used = reader()
    events = [used.read(frame({"content": "a", "stop": False, "tokens_predicted": count})) for _ in range(3)]
    assert [event.tokens for event in events] == [(0,)] * 3


def test_without_counts_text_decides():
    used = reader()
    assert used.read(frame({"content": "a", "stop": False})) == Event((0,), text="a")
    assert used.read(frame({"content": "", "stop": False})) == NOTHING


def test_the_last_event_has_the_figures():
    last = {"content": "", "stop": True, "stop_type": "limit", "tokens_predicted": 16, "tokens_evaluated": 4}
    used = reader()
    used.read(frame({"content": "a", "tokens_predicted": 16}))
    assert used.read(frame(last | {"timings": TIMINGS})) == Event(
        finish=((0, "limit"),), usage=Usage(4, 16, 3), report=REPORT, done=True
    )
    assert used.complete()


def test_an_older_build_says_the_whole_prompt_elsewhere():
    timings = {"prompt_n": 1, "prompt_ms": 8, "predicted_n": 16, "predicted_ms": 9}
    last = {"content": "", "stop": True, "tokens_predicted": 16, "tokens_evaluated": 4, "tokens_cached": 19}
    event = reader().read(frame(last | {"timings": timings}))
    assert (event.usage, event.finish) == (Usage(4, 16), ((0, "stop"),))
    assert reader().read(frame({"stop": True})).report is None


def test_a_body_is_read_whole():
    used = reader(streamed=False)
    event = used.read(frame({"content": "abc", "stop": True, "stop_type": "eos", "timings": TIMINGS}))
    assert (event.tokens, event.text, event.done, event.report) == ((), "abc", True, REPORT)
    assert used.complete()


def test_several_results_are_told_without_the_figures_of_one():
    results = [{"index": n, "content": "ab"[n], "stop": True, "stop_type": "eos", "timings": TIMINGS} for n in (0, 1)]
    assert reader(streamed=False, prompts=2).read(frame([*results, 5])) == Event(
        text="ab", finish=((0, "eos"), (1, "eos")), done=True
    )


def test_of_very_many_results_the_first_are_told():
    event = reader(streamed=False).read(frame([{"index": n, "content": "a", "stop": True} for n in range(1_000)]))
    assert (event.text, len(event.finish), event.done) == ("a" * MOST, MOST, True)


def test_several_prompts_in_a_stream_stop_one_by_one():
    used = reader(prompts=2)
    events = [used.read(frame({"index": n, "content": "a", "tokens_predicted": 1})) for n in (0, 1)]
    assert [event.tokens for event in events] == [(0,), (1,)]
    report = used.read(frame({"index": 1, "stop": True, "timings": TIMINGS})).report
    assert report is not None
    assert not report.covers_all
    assert not used.complete()
    late = reader(prompts=2)
    late.read(frame({"index": 1, "stop": True}))
    assert not late.complete()
    used.read(frame({"index": 0, "stop": True}))
    assert used.complete()


def test_an_error_is_an_error():
    assert reader().read(frame({"error": {"code": 500, "message": "m", "type": "server_error"}})) == Event(
        error="server_error"
    )


@pytest.mark.parametrize("data", [b"", b"  ", b"[DONE]", b"null"])
def test_these_say_nothing(data):
    assert reader().read(Frame(data)) == NOTHING


def test_an_embedding_is_complete_as_it_ends():
    assert reader(kind="embed").complete()
    assert not reader().complete()


@pytest.mark.parametrize("data", [b"[", b"{", b"nope"])
def test_what_is_no_json_is_unreadable(data):
    with pytest.raises(Unreadable):
        reader().read(Frame(data))


NAMES = st.sampled_from(
    ["index", "content", "stop", "stop_type", "tokens_predicted", "tokens_evaluated", "timings", "error"]
)


@given(st.lists(st.dictionaries(NAMES, JSON), max_size=3))
def test_no_json_raises(bodies):
    used = reader()
    for body in [*bodies, bodies]:
        assert used.read(frame(body)) is not None


def test_choices_without_end_take_bounded_memory():
    used = reader()
    for index in range(MOST_CHOICES + 100):
        used.read(frame({"index": index, "content": "a", "stop": True}))
    assert (len(used._seen), len(used._stopped)) == (MOST_CHOICES, MOST_CHOICES)
