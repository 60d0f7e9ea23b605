"""What clients are told of time, in the words of Server-Timing."""

import re

from proxy.events import Event
from proxy.records import EngineReport
from proxy.servertiming import PHASES, comment, told
from proxy.timeline import Recorder

MS = 1_000_000


def recorder() -> Recorder:
    made = Recorder(0.0, 1000 * MS)
    made.admitted(1020 * MS, 20 * MS)
    made.dispatched(1021 * MS)
    return made


def test_the_head_tells_what_is_known_by_then() -> None:
    made = recorder()
    made.head(1100 * MS, 200, False)
    assert (
        told(made, 1100 * MS + 500_000) == b"admission;dur=20.000, proxy;dur=1.000, head;dur=100.000, total;dur=100.500"
    )


def test_an_answer_before_the_request_was_written_has_no_share_of_ours() -> None:
    assert told(Recorder(0.0, 0), 3 * MS) == b"admission;dur=0.000, total;dur=3.000"


def test_the_end_of_a_stream_tells_first_byte_and_token_and_the_engines_own_phases() -> None:
    made = recorder()
    made.head(1050 * MS, 200, True)
    made.read(1060 * MS, 9)
    made.event(1070 * MS, Event((0,), text="a"))
    report = EngineReport(source="vllm.metrics", queue_ns=2 * MS, prefill_ns=30 * MS, decode_ns=123_456)
    assert comment(made, 1200 * MS, report) == (
        b": phasegate admission;dur=20.000, proxy;dur=1.000, ttfb;dur=60.000, ttft;dur=70.000, total;dur=200.000, "
        b"queue;dur=2.000, prefill;dur=30.000, decode;dur=0.123\n\n"
    )


def test_it_is_the_syntax_of_the_standard() -> None:
    made = recorder()
    made.head(1050 * MS, 200, True)
    durations = dict.fromkeys((f"{phase}_ns" for phase in PHASES), 5 * MS)
    said = told(made, 1200 * MS, EngineReport(source="x", **durations)).decode()  # type: ignore[arg-type]
    token = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # RFC 9110, 5.6.2
    assert re.fullmatch(rf"{token};dur=\d+\.\d+(, {token};dur=\d+\.\d+)*", said)
    assert len(said.split(", ")) == 4 + len(PHASES)
