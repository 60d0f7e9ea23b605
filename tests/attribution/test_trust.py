import pytest

from proxy.attribution.ladder import DISTRUSTED, attribute
from proxy.attribution.trust import contradicts
from proxy.claims import LATE_NS
from proxy.records import EngineReport, Timeline, Usage
from tests.attribution.made import finished, line, ollama, report

MS = 1_000_000
SOUND = ollama(total=990, load=10, prefill=400, decode=500)


def doubt(said: EngineReport, timeline: Timeline, usage: Usage | None = None) -> bool:
    done = finished("ollama", timeline, said, usage)
    contradicted = contradicts(done, said, timeline.total_ns)
    assert (DISTRUSTED in attribute(done).findings) is contradicted
    return contradicted


def test_a_sound_report_is_trusted() -> None:
    assert not doubt(SOUND, line(1000, first_token=480, last_token=980), Usage(10, 50))


def test_parts_that_exceed_the_time_are_not() -> None:
    assert doubt(ollama(total=990, load=10, prefill=500, decode=500), line(1000, first_token=990, last_token=995))


def test_a_total_may_exceed_it_by_our_own_lateness() -> None:
    assert not doubt(ollama(total=1000 + LATE_NS / MS, prefill=400, decode=500), line(1000))
    assert doubt(ollama(total=1001 + LATE_NS / MS, prefill=400, decode=500), line(1000))


def test_a_first_token_cannot_come_before_its_prefill_has_ended() -> None:
    assert doubt(ollama(total=990, load=300, prefill=300, decode=300), line(1000, first_token=500, last_token=900))


def test_a_stream_written_in_two_runs_may_report_the_second() -> None:
    two_runs = line(1000, first_token=100, first_answer=700, last_token=900, token_events=40)
    assert not doubt(ollama(total=990, load=1, prefill=200, decode=150), two_runs, Usage(10, 20))


@pytest.mark.parametrize("tokens", [101, None])
def test_no_engine_writes_so_fast(tokens: int | None) -> None:
    """FC-094: 10,500 ns for 101 tokens that took 10 s on the wire."""
    said = ollama(total=12000, load=100, decode=0.0105, output_tokens=tokens)
    done = finished("ollama", line(12000, first_token=1000, last_token=11000, token_events=101), said, Usage(None, 101))
    breakdown = attribute(done)
    assert breakdown.findings == (DISTRUSTED,)
    assert breakdown.decode_rate == pytest.approx(10, abs=0.2)
    assert breakdown.tpot_ns == 100 * MS


def test_a_stream_cannot_last_far_longer_than_its_decode() -> None:
    long = line(9000, first_token=500, last_token=8900)
    assert doubt(ollama(total=8990, load=1, prefill=400, decode=300), long)
    assert not doubt(ollama(total=8990, load=1, prefill=400, decode=500), long)
    blocked = line(9000, first_token=500, last_token=8900, blocked_ns=3000 * MS)
    assert not doubt(ollama(total=8990, load=1, prefill=400, decode=300), blocked)


def test_one_token_of_no_duration_contradicts_nothing() -> None:
    """FC-093."""
    said = ollama(total=60, load=1, prefill=40, decode=0.001)
    assert not doubt(said, line(60, first_token=50), Usage(9, 1))


def test_more_prefill_than_time_contradicts() -> None:
    """FC-092: 15 + 130 ms of work in 130 ms."""
    assert doubt(ollama(total=150, load=15, prefill=130), line(130, streamed=True), Usage(38, 1))


def test_a_report_without_decode_is_not_measured_against_the_stream() -> None:
    said = report("vllm.metrics", queue=1, prefill=10)
    assert not doubt(said, line(9000, first_token=500, last_token=8900), Usage(10, 50))
