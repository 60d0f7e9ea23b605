import pytest

from proxy.attribution.ladder import attribute
from proxy.records import Gaps, Usage
from tests.attribution.made import finished, line, ollama, report, split

MS = 1_000_000


def test_fresh_tokens_make_the_prefill_rate() -> None:
    """FC-051: (80,000 - 79,500) / 2.0 s."""
    said = report("vllm.metrics", queue=1, prefill=2000, decode=100)
    breakdown = split("vllm", line(2106, first_token=2005, last_token=2105), said, Usage(80_000, 2, 79_500))
    assert breakdown.prefill_rate == pytest.approx(250)
    assert breakdown.decode_rate == pytest.approx(10)
    assert breakdown.tpot_ns == 100 * MS


def test_prefill_rate_of_llamacpp_uses_its_own_count() -> None:
    """FC-059: 30 / 0.75 s, and 200 tokens in 16 s."""
    said = report("llamacpp.timings", prefill=750, decode=16000, fresh_tokens=30, output_tokens=200)
    timeline = line(16760, first_token=760, last_token=16680, token_events=200)
    breakdown = split("llamacpp", timeline, said, Usage(1000, 200, 970))
    assert breakdown.prefill_rate == pytest.approx(40)
    assert 12.4 < (breakdown.decode_rate or 0) < 12.6


@pytest.mark.parametrize(
    ("usage", "version", "rate"),
    [
        (Usage(100, 5), "0.33.0", None),
        (Usage(100, 5), "0.0.0", None),
        (Usage(100, 5), "0.30.0", 1000),
        (Usage(100, 5), "0.3.14", 1000),
        (Usage(None, 5), "0.3.14", None),
        (Usage(1, 5), "0.3.14", None),
        (None, "0.3.14", None),
    ],
)
def test_ollamas_prompt_count_is_fresh_work_only_in_some_versions(
    usage: Usage | None, version: str, rate: float | None
) -> None:
    said = ollama(total=190, prefill=100, decode=80)
    breakdown = split("ollama", line(200, first_token=110, last_token=190), said, usage, version=version)
    assert breakdown.prefill_rate == (None if rate is None else pytest.approx(rate))


def test_a_speed_needs_two_tokens_and_a_sane_duration() -> None:
    """FC-092, FC-093, FC-037."""
    stream = line(60, first_token=50)
    one = split("ollama", stream, ollama(total=60, load=1, prefill=40, decode=0.001), Usage(9, 1))
    assert (one.decode_rate, one.tpot_ns) == (None, None)
    none = split("ollama", line(200, streamed=True), ollama(total=150, load=15, prefill=130), Usage(38, 1))
    assert none.decode_rate is None
    assert split("openai", line(81, first_token=80, streamed=True), None, Usage(5, 0)).tpot_ns is None
    mad = report("vllm.metrics", prefill=0.0001, decode=10, fresh_tokens=1000)
    assert split("vllm", line(60, first_token=50), mad, Usage(9, 3)).prefill_rate is None


def test_tokens_of_the_first_event_do_not_count() -> None:
    timeline = line(300, first_token=100, last_token=190, token_events=10, first_event_tokens=4)
    assert split("openai", timeline, None, Usage(6, 13)).tpot_ns == 10 * MS
    waited_for = timeline._replace(blocked_ns=MS)
    assert split("openai", waited_for, None, Usage(6, 13)).tpot_ns is None, "the pace is the client's"


@pytest.mark.parametrize(
    ("finish", "after_ms", "output", "tpot_ms"),
    [
        pytest.param("stop", 10, 11, 10, id="the end token came behind"),
        pytest.param("tool_calls", 5, 11, 10, id="and behind a call"),
        pytest.param("stop", 4, 11, 9, id="too soon for another token"),
        pytest.param("length", 10, 11, 9, id="no end token at the limit"),
        pytest.param("stop", 10, 10, 10, id="an end token that was not counted"),
        pytest.param("stop", 10, 22, 4.5, id="and of more tokens than events"),
    ],
)
def test_the_token_that_ends_an_answer_is_in_no_event(finish: str, after_ms: int, output: int, tpot_ms: float) -> None:
    seen = line(300, first_token=100, last_token=190, token_events=10, finish=finish, finish_ns=(190 + after_ms) * MS)
    assert split("openai", seen, None, Usage(6, output)).tpot_ns == tpot_ms * MS


def test_unseen_reasoning_does_not_count() -> None:
    stream = line(300, first_token=100, last_token=190, token_events=10)
    hidden = split("openai", stream, None, Usage(6, 110, None, 100))
    assert hidden.tpot_ns == 10 * MS
    assert hidden.decode_rate == pytest.approx(100)
    shown = line(300, first_token=100, first_answer=150, last_token=190, token_events=10)
    assert split("openai", shown, None, Usage(6, 10, None, 5)).tpot_ns == 10 * MS


def test_time_per_token_has_no_meaning_for_several_choices_or_prompts() -> None:
    two = line(300, first_token=100, last_token=190, choices=2)
    assert split("openai", two, None, Usage(6, 10)).tpot_ns is None
    one = line(300, first_token=100, last_token=190)
    assert split("openai", one, None, Usage(6, 10), prompts=2).tpot_ns is None
    said = report("vllm.metrics", queue=1, prefill=10, decode=90, fresh_tokens=5)
    both = split("vllm", two, said, Usage(6, 10, 1))
    assert (both.tpot_ns, both.decode_rate, both.prefill_rate) == (None, None, None)


def test_reasoning_in_the_text_counts() -> None:
    """It came as `<think>`, in as many events as there are tokens."""
    stream = line(1200, first_token=100, last_token=1090, token_events=100)
    plain = split("openai", stream, None, Usage(10, 100, None, 90))
    assert plain.tpot_ns == 10 * MS
    assert plain.decode_rate == pytest.approx(100)


def test_an_answer_that_was_held_back_shows_no_speed() -> None:
    """Fifty tokens in two bursts, 5 ms apart, after two seconds."""
    bursts = line(2010, first_token=2000, last_token=2005, token_events=50)._replace(
        gaps=(Gaps(0, 49, 5 * MS, 0, 5 * MS, 5 * MS, lead=25, moments=2),),
    )
    breakdown = split("openai", bursts, None, Usage(10, 50))
    assert (breakdown.tpot_ns, breakdown.decode_rate) == (None, None)


def test_no_time_per_token_is_shorter_than_any_engine_takes() -> None:
    stream = line(300, first_token=100, last_token=190, token_events=10)
    mad = split("openai", stream, None, Usage(6, 2**53))
    assert (mad.tpot_ns, mad.decode_rate) == (None, None)
    counted = stream._replace(first_event_tokens=2**52)
    assert split("openai", counted, None, Usage(6, 2**53)).tpot_ns is None


def test_chunks_are_never_counted_as_tokens() -> None:
    breakdown = split("openai", line(300, first_token=100, last_token=190, token_events=10))
    assert (breakdown.tpot_ns, breakdown.decode_rate) == (None, None)


def test_a_body_that_is_no_stream_has_a_decode_rate_where_the_engine_times_it() -> None:
    said = ollama(total=990, load=1, prefill=400, decode=500)
    breakdown = split("ollama", line(1000), said, Usage(10, 51))
    assert (breakdown.decode_rate, breakdown.tpot_ns) == (pytest.approx(100), None)


def test_two_events_of_nearly_one_moment_are_no_speed() -> None:
    breakdown = split("openai", line(300, first_token=100, last_token=100.001), None, Usage(6, 10))
    assert breakdown.decode_rate is None


def test_a_last_token_before_the_first_is_no_span() -> None:
    backwards = split("openai", line(100, first_token=50, last_token=49, streamed=True), None, Usage(6, 10))
    assert (backwards.decode_rate, backwards.tpot_ns) == (None, None)


def test_a_report_of_the_first_prompt_gives_no_speed_of_all() -> None:
    said = report("llamacpp.timings", prefill=10, decode=90, fresh_tokens=5, output_tokens=9, covers_all=False)
    done = finished("llamacpp", line(300, first_token=100, last_token=190, choices=2, head=50), said, Usage(6, 18))
    assert attribute(done).decode_rate is None
