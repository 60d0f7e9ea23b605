from proxy.attribution.joint import since_dispatch
from proxy.records import Gaps, Outcome, Timeline, Usage
from tests.attribution.made import line, phases, split


def test_a_stream_is_one_sum_up_to_its_first_token() -> None:
    breakdown = split("openai", line(217, dispatched=7, first_token=190, last_token=215))
    assert phases(breakdown) == {"proxy": 7, "queue_prefill": 183, "decode": 25, "delivery": 2}


def test_a_body_that_is_no_stream_is_one_sum() -> None:
    assert phases(split("openai", line(3000, last_byte=2999, head=2990))) == {"engine": 2999, "delivery": 1}


def test_all_output_in_one_event_hides_the_end_of_prefill() -> None:
    one_event = line(100, first_token=90)
    assert phases(split("openai", one_event)) == {"engine": 90, "delivery": 10}
    assert phases(split("openai", one_event, None, Usage(5, 18))) == {"engine": 90, "delivery": 10}
    assert phases(split("openai", one_event, None, Usage(5, 1))) == {"queue_prefill": 90, "delivery": 10}


def test_output_that_was_held_back_hides_the_end_of_prefill() -> None:
    at_once = line(2010, first_token=2000, token_events=50)
    assert phases(split("openai", at_once, None, Usage(5, 50))) == {"engine": 2000, "delivery": 10}
    bursts = line(2010, first_token=2000, last_token=2005, token_events=50)._replace(
        gaps=(Gaps(0, 49, 5_000_000, 0, 5_000_000, 5_000_000, lead=25, moments=2),),
    )
    assert phases(split("openai", bursts, None, Usage(5, 50))) == {"engine": 2005, "delivery": 5}
    burst_then_gone = split("openai", bursts, None, None, Outcome.CLIENT_GONE)
    assert phases(burst_then_gone) == {"engine": 2010}
    thought = line(2010, first_token=1000, last_token=2000, token_events=50)
    assert phases(split("openai", thought, None, Usage(5, 150, None, 100))) == {"engine": 2000, "delivery": 10}


def test_an_abort_after_the_first_token_keeps_it() -> None:
    breakdown = split("openai", line(100, first_token=90, last_byte=None), outcome=Outcome.CLIENT_GONE)
    assert phases(breakdown) == {"queue_prefill": 90, "unattributed": 10}


def test_several_prompts_are_read_while_others_are_written() -> None:
    breakdown = split("openai", line(100, first_token=40, last_token=90), prompts=2)
    assert phases(breakdown) == {"queue_prefill": 40, "prefill_decode": 50, "delivery": 10}


def test_marks_count_from_dispatch() -> None:
    assert since_dispatch(Timeline(0.0, 9, dispatched_ns=2), 5) == 3
    assert since_dispatch(Timeline(0.0, 9, dispatched_ns=2), None) is None
    assert since_dispatch(Timeline(0.0, 9), 5) is None
