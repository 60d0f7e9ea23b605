import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.events import NOTHING, Event, Frame
from proxy.records import EngineReport, RequestFacts, Usage
from proxy.wire.decoding import Unreadable
from proxy.wire.ollama import Ollama
from tests.wire.test_fields import JSON


def read(line: object, kind: str = "chat", streamed: bool = True) -> Event:
    data = line if isinstance(line, bytes) else json.dumps(line).encode()
    return Ollama(RequestFacts("ollama", kind, "inference"), streamed).read(Frame(data))


def message(**said: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": "", **said}, "done": False}


@pytest.mark.parametrize(
    ("line", "event"),
    [
        pytest.param(message(content="a"), Event((0,), text="a"), id="chat"),
        pytest.param({"response": " ", "done": False}, Event((0,), text=" "), id="generate, white space"),
        pytest.param(message(), NOTHING, id="nothing"),
        pytest.param(message(thinking="hm"), Event((0,), True), id="thinking in a message"),
        pytest.param({"response": "", "thinking": "hm"}, Event((0,), True), id="thinking beside a response"),
        pytest.param(message(content="a", thinking="hm"), Event((0,), text="a"), id="both"),
        pytest.param(
            message(tool_calls=[{"function": {"name": "f", "arguments": {"city": "Paris"}}}]), Event((0,)), id="a call"
        ),
        pytest.param(message(tool_calls=[]), NOTHING, id="no call"),
        pytest.param({"error": "unexpected EOF"}, Event(error=""), id="an error line"),
        pytest.param({"status": "pulling manifest"}, NOTHING, id="progress"),
        pytest.param({"message": {"content": 5}, "response": []}, NOTHING, id="odd types"),
        pytest.param(b"", NOTHING, id="empty"),
        pytest.param(b"[]", NOTHING, id="no object"),
    ],
)
def test_what_a_line_says(line, event):
    assert read(line) == event


COUNTERS = {
    "total_duration": 4883583458,
    "load_duration": 13340250,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}
LAST = {"response": "", "done": True, "done_reason": "stop", **COUNTERS}


def test_the_last_line_has_the_counters():
    event = read(LAST, "generate")
    assert event == Event(
        finish=((0, "stop"),),
        usage=Usage(26, 282),
        report=EngineReport(
            source="ollama.durations",
            total_ns=4883583458,
            load_ns=13340250,
            prefill_ns=342546000,
            decode_ns=4535599000,
        ),
        done=True,
    )


def test_beside_a_total_an_absent_duration_is_zero_and_an_absent_count_unknown():
    event = read({"done": True, "total_duration": 500, "eval_count": 1}, "generate")
    assert event.usage == Usage(None, 1)
    assert event.report == EngineReport(source="ollama.durations", total_ns=500, load_ns=0, prefill_ns=0, decode_ns=0)


def test_without_a_total_an_absent_duration_is_unknown():
    event = read({"done": True, "eval_duration": 7}, "generate")
    assert event.report == EngineReport(source="ollama.durations", decode_ns=7)


@pytest.mark.parametrize("reason", ["load", "unload", "stop"])
def test_an_end_without_counters_reports_nothing(reason):
    event = read({"response": "", "done": True, "done_reason": reason})
    assert event == Event(finish=((0, reason),), done=True)


@pytest.mark.parametrize("odd", [-5, "5", 1.5e300, True, [], 10**30])
def test_a_counter_that_is_not_sane_is_unknown(odd):
    event = read(LAST | {"eval_duration": odd, "prompt_eval_count": odd}, "generate")
    assert event.usage == Usage(None, 282)
    assert event.report is not None
    assert event.report.decode_ns is None
    assert event.report.total_ns == 4883583458


def test_an_embedding_has_no_decode_to_be_zero():
    event = read(
        {"embeddings": [[0.1]], "total_duration": 9, "load_duration": 3, "prompt_eval_count": 4}, "embed", False
    )
    assert event.usage == Usage(4)
    assert event.report == EngineReport(source="ollama.durations", total_ns=9, load_ns=3)


def test_a_body_has_no_token_events():
    event = read(LAST | {"response": "a"}, "generate", streamed=False)
    assert (event.tokens, event.text, event.done) == ((), "a", True)


def test_a_clean_close_is_an_end():
    reader = Ollama(RequestFacts("ollama", "chat", "inference"), True)
    reader.read(Frame(b'{"response":"0","done":false}'))
    assert reader.complete()


def test_what_is_no_json_is_unreadable():
    with pytest.raises(Unreadable):
        read(b'{"response":')


@given(st.dictionaries(st.sampled_from(["message", "response", "done", "done_reason", "error", *COUNTERS]), JSON))
def test_no_line_raises(line):
    assert read(line) is not None
    assert read(line, streamed=False).tokens == ()
