from typing import Any

import pytest

from proxy.attribution.ladder import attribute
from proxy.records import Class, Outcome, Usage
from tests.attribution.made import finished, line, phases, report, split

SAID = report("llamacpp.timings", prefill=400, decode=500)


def test_the_head_ends_the_queue() -> None:
    done = finished("llamacpp", line(1000, head=90, first_token=495, last_token=990), SAID)
    assert phases(attribute(done)) == {"step_wait": 5, "queue": 90, "prefill": 400, "decode": 500, "delivery": 5}
    (queue,) = [phase for phase in attribute(done).phases if phase.name == "queue"]
    assert (queue.klass, queue.source) == (Class.DERIVED, "llamacpp.head")


def test_a_head_that_overlaps_the_prompt_time_is_cut_to_what_is_left() -> None:
    found = phases(split("llamacpp", line(1000, head=92, first_token=490, last_token=985), SAID))
    assert (found["queue"], "step_wait" in found) == (90, False)


def test_old_builds_send_their_head_with_the_first_token() -> None:
    done = finished("llamacpp", line(1000, head=489.5, first_token=490, last_token=985), SAID)
    (queue,) = [phase for phase in attribute(done).phases if phase.name == "queue"]
    assert (queue.ns, queue.source) == (90_000_000, "llamacpp.timings")


@pytest.mark.parametrize(
    ("waited", "evidence"),
    [
        (460, {"slots": 2, "ahead": 1, "busy": 4000}),  # beside a free slot, for the batch of another's prompt
        (460, {"slots": 1, "ahead": 1, "contended": 455, "busy": 455}),
        (460, {"slots": None, "ahead": 1, "busy": 500}),
        (80, {"slots": 2, "ahead": 1, "busy": 4000}),
        (20, {"slots": 2}),
    ],
    ids=["free_slot", "slots_taken", "slots_unknown", "below_100_ms", "alone"],
)
def test_a_wait_has_the_same_name_and_class_with_a_stream_and_without(waited: float, evidence: dict[str, Any]) -> None:
    whole = finished("llamacpp", line(waited + 901, last_byte=waited + 900), SAID, **evidence)
    stream = line(waited + 901, head=waited, first_token=waited + 400, last_token=waited + 900)
    for done in (whole, finished("llamacpp", stream, SAID, **evidence)):
        assert phases(attribute(done)) == {"queue": waited, "prefill": 400, "decode": 500, "delivery": 1}
        (queue,) = [phase for phase in attribute(done).phases if phase.name == "queue"]
        assert queue.klass is Class.DERIVED
        assert queue.error_ns is not None
        assert queue.error_ns <= 10_000_000


def test_what_no_front_end_takes_was_a_wait_for_somebody_whom_we_do_not_see() -> None:
    done = finished("llamacpp", line(3000, head=2999), SAID, slots=1)
    assert phases(attribute(done)) == {"queue": 2100, "prefill": 400, "decode": 500}
    for waited, busy, error in ((2100, 0, 2100), (500, 0, 500), (500, 300, 200)):
        done = finished("llamacpp", line(900 + waited), SAID, slots=2, ahead=1, busy=busy)
        (queue,) = [phase for phase in attribute(done).phases if phase.name == "queue"]
        assert (queue.klass, queue.error_ns) == (Class.INFERRED, error * 1_000_000)
    tokens = finished("llamacpp", line(1400), SAID, Usage(20_000, 50), slots=1)
    (queue,) = [phase for phase in attribute(tokens).phases if phase.name == "queue"]
    assert queue.klass is Class.DERIVED


def test_a_stream_that_was_held_back_is_as_good_as_none() -> None:
    at_once = line(3000, head=2990, first_token=2990, token_events=50)
    found = phases(split("llamacpp", at_once, SAID, Usage(5, 50)))
    assert found == {"queue": 2090, "prefill": 400, "decode": 500, "delivery": 10}
    assert phases(split("llamacpp", at_once, None, Usage(5, 50))) == {"engine": 2990, "delivery": 10}
    after_its_head = at_once._replace(head_ns=90_000_000)
    found = phases(split("llamacpp", after_its_head, SAID, Usage(5, 50)))
    assert found == {"queue": 90, "prefill": 400, "decode": 500, "delivery": 10, "unattributed": 2000}
    found = phases(split("llamacpp", after_its_head, None, Usage(5, 50)))
    assert found == {"queue": 90, "prefill_decode": 2900, "delivery": 10}


def test_what_a_broken_answer_was_waited_for_after_its_end_is_no_queue() -> None:
    held = line(303_000, head=2990, first_token=2990, token_events=50, last_byte=2990, first_event_tokens=50)
    for broken in (held, line(303_000, head=2990, last_byte=2990), line(303_000, head=None, last_byte=2990)):
        found = phases(split("llamacpp", broken, SAID, Usage(5, 50), Outcome.ENGINE_STALLED))
        assert found == {"queue": 2090, "prefill": 400, "decode": 500, "unattributed": 300_010}


def test_figures_of_the_first_prompt_do_not_stand_for_all() -> None:
    said = report("llamacpp.timings", prefill=40, decode=50, covers_all=False)
    stream = line(1000, head=90, first_token=200, last_token=990, choices=2)
    assert phases(split("llamacpp", stream, said)) == {"queue": 90, "prefill_decode": 900, "delivery": 10}
    assert phases(split("llamacpp", line(1000), said, prompts=2)) == {"engine": 1000}


def test_without_timings_the_wire_splits_a_stream() -> None:
    found = phases(split("llamacpp", line(1000, head=90, first_token=490, last_token=990)))
    assert found == {"queue": 90, "prefill": 400, "decode": 500, "delivery": 10}


def test_without_timings_head_and_first_token_together_split_nothing() -> None:
    found = phases(split("llamacpp", line(1000, head=489, first_token=490, last_token=990)))
    assert found == {"queue_prefill": 490, "decode": 500, "delivery": 10}


def test_without_timings_one_event_hides_the_end_of_prefill() -> None:
    found = phases(split("llamacpp", line(1000, head=90, first_token=990)))
    assert found == {"queue": 90, "prefill_decode": 900, "delivery": 10}


def test_without_a_head_nothing_is_split() -> None:
    found = phases(split("llamacpp", line(1000, head=None, first_token=990, last_token=995), SAID))
    assert found == {"queue": 95, "prefill": 400, "decode": 500, "delivery": 5}
