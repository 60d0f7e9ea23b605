import pytest

from proxy.attribution.ladder import attribute
from proxy.attribution.ollama import counts_fresh_only, waits_inside_prefill
from proxy.records import Class, Evidence, Finished, Outcome, TokenCount, Usage
from tests.attribution.made import finished, line, ollama, phases, report, split

STREAM = line(1000, dispatched=2, first_token=480, last_token=985)
SOUND = ollama(total=990, load=5, prefill=400, decode=500)


def classes(done: Finished) -> dict[str, Class]:
    return {phase.name: phase.klass for phase in attribute(done).phases}


def test_with_a_free_slot_the_residual_is_front_end() -> None:
    breakdown = split("ollama", STREAM, SOUND, slots=2, ahead=1)
    assert phases(breakdown) == {
        "proxy": 2,
        "frontend": 73,
        "load": 5,
        "prefill": 400,
        "decode": 500,
        "delivery": 15,
        "unattributed": 5,
    }


def test_with_every_slot_taken_it_is_queue_for_as_long_as_they_were() -> None:
    breakdown = split("ollama", STREAM, SOUND, slots=1, ahead=1, contended=500)
    assert (phases(breakdown)["queue"], "frontend" in phases(breakdown)) == (73, False)
    short = phases(split("ollama", STREAM, SOUND, slots=1, ahead=1, contended=55))
    assert (short["queue"], short["frontend"]) == (50, 23)


def test_counters_are_measured_and_the_residual_is_derived_with_its_error() -> None:
    done = finished("ollama", STREAM, SOUND, slots=1, ahead=1, contended=55)
    assert classes(done) == {
        "proxy": Class.MEASURED,
        "queue": Class.DERIVED,
        "frontend": Class.DERIVED,
        "load": Class.MEASURED,
        "prefill": Class.MEASURED,
        "decode": Class.MEASURED,
        "delivery": Class.DERIVED,
        "unattributed": Class.UNKNOWN,
    }
    (queue,) = [phase for phase in attribute(done).phases if phase.name == "queue"]
    assert (queue.source, queue.error_ns) == ("ollama.durations", 2_400_000)


def test_front_end_beside_others_may_hold_a_wait_for_their_batch() -> None:
    alone, beside = (
        next(phase for phase in split("ollama", STREAM, SOUND, slots=2, ahead=ahead).phases if phase.name == "frontend")
        for ahead in (0, 1)
    )
    assert (alone.error_ns, beside.error_ns) == (2_400_000, beside.ns)


def test_seconds_that_no_front_end_takes_are_no_front_end() -> None:
    """Of a stream they were a wait for somebody whom we do not see; else perhaps a first run that is not counted."""
    said = ollama(total=3990, load=5, prefill=400, decode=500)
    stream = finished("ollama", line(4000, first_token=3480, last_token=3985), said, slots=1)
    (queue,) = [phase for phase in attribute(stream).phases if phase.name == "queue"]
    assert (queue.ns, queue.klass, queue.error_ns) == (3_085_000_000, Class.INFERRED, 3_085_000_000)
    whole = finished("ollama", line(4000), said, slots=1)
    assert phases(attribute(whole)) == {"load": 5, "prefill": 400, "decode": 500, "engine": 3085, "delivery": 10}
    assert classes(whole)["engine"] is Class.DERIVED
    behind = finished("ollama", line(4000), said, slots=1, ahead=1, contended=3000)
    assert (phases(attribute(behind))["queue"], phases(attribute(behind))["frontend"]) == (2995, 90)


def test_half_a_second_of_front_end_says_that_it_may_be_a_wait() -> None:
    said = ollama(total=1490, load=5, prefill=400, decode=500)
    done = finished("ollama", line(1500), said, slots=1)
    (frontend,) = [phase for phase in attribute(done).phases if phase.name == "frontend"]
    assert (frontend.ns, frontend.klass, frontend.error_ns) == (585_000_000, Class.DERIVED, 585_000_000)


def test_a_chat_that_is_cut_may_be_rendered_for_seconds() -> None:
    said = ollama(total=3990, load=5, prefill=400, decode=500)
    count = TokenCount(9000, "estimated", 8000, 10_000, 9000)
    cut = finished("ollama", line(4000), said, Usage(2050, 9), slots=1)._replace(counted=count)
    assert phases(attribute(cut))["frontend"] == 3085


def test_waiting_for_a_runner_that_had_to_go_is_queue_the_rest_of_the_load_is_load() -> None:
    said = ollama(total=3594, load=3498, prefill=27, decode=65)
    timeline = line(3594.3, first_token=3528, last_token=3594)
    apart = phases(split("ollama", timeline, said, slots=1, others_done=2691, swapped=True))
    assert (apart["queue"], apart["load"]) == (2691, 807)
    both_fit = phases(split("ollama", timeline, said, slots=1, others_done=2691, swapped=False))
    assert both_fit["load"] == 3498


def test_a_load_that_may_hold_a_wait_says_so() -> None:
    said = ollama(total=3594, load=3498, prefill=27, decode=65)
    done = finished("ollama", line(3600, first_token=3528, last_token=3594), said, slots=1, others_done=2691)
    (load,) = [phase for phase in attribute(done).phases if phase.name == "load"]
    assert (load.ns, load.klass, load.error_ns) == (3_498_000_000, Class.DERIVED, 2_691_000_000)


def test_a_warm_load_held_no_wait() -> None:
    breakdown = split("ollama", STREAM, SOUND, slots=1, others_done=4, swapped=True)
    assert phases(breakdown)["load"] == 5


def test_a_swap_and_a_wait_for_a_slot_are_one_queue() -> None:
    said = ollama(total=3569, load=3398, prefill=10, decode=63)
    timeline = line(3570, first_token=3506, last_token=3569)
    done = finished(
        "ollama",
        timeline,
        said,
        slots=1,
        ahead=1,
        contended=3494,
        others_done=2590,
        swapped=True,
        outcome=Outcome.COMPLETED,
    )
    found = phases(attribute(done))
    assert found["queue"] == 2590 + 96
    assert found["load"] == 808


@pytest.mark.parametrize("version", ["0.12.4", "0.4.0"])
def test_go_runners_of_old_hid_the_wait_in_prefill(version: str) -> None:
    waited = split("ollama", STREAM, SOUND, version=version, slots=1, ahead=1, contended=500)
    assert phases(waited)["queue_prefill"] == 400
    free = split("ollama", STREAM, SOUND, version=version, slots=1)
    assert phases(free)["prefill"] == 400


def test_versions_of_another_kind_are_of_no_known_age() -> None:
    old = ["0.4.0", "0.12.4", "0.5.7-rc1"]
    new = ["0.12.5", "0.33.0-rc2", "0.3.14", "0.0.0", "", None, "main", "0.x.1"]
    assert [waits_inside_prefill(version) for version in old + new] == [True] * 3 + [False] * 8
    fresh = ["0.0.21", "0.1.32", "0.2.0", "0.3.14", "0.30.0", "0.30.0-rc1"]
    total = ["0.4.0", "0.24.0", "0.30.1", "0.33.0-rc2", "0.0.0", "0.0.0-dirty", "", None, "1.3.0"]
    assert [counts_fresh_only(Evidence("ollama", version)) for version in fresh + total] == [True] * 6 + [False] * 9
    assert not counts_fresh_only(Evidence("llamacpp", "0.1.32"))


def test_a_tool_call_in_one_event_keeps_its_prefill() -> None:
    said = ollama(total=257, load=2, prefill=88, decode=163)
    breakdown = split("ollama", line(258, first_token=255, last_token=255), said, slots=1)
    assert phases(breakdown) == {"frontend": 4, "load": 2, "prefill": 88, "decode": 163, "delivery": 1}


def test_a_first_run_that_is_not_reported_is_not_queue() -> None:
    """Thinking with a format: two runs, counters of the second; its residual does not fit before the first token."""
    timeline = line(1000, first_token=60, first_answer=780, last_token=990, token_events=60)
    said = ollama(total=995, load=1, prefill=20, decode=200)
    found = phases(split("ollama", timeline, said, slots=1, ahead=1, contended=900))
    assert found["queue"] == 60 - 1 - 20
    assert found["prefill_decode"] == 995 - 1 - 20 - 200 - 39
    assert "frontend" not in found


def test_a_residual_that_does_not_fit_before_the_first_token_is_not_called_waiting() -> None:
    """FC-048: no counters but total and load."""
    breakdown = split("ollama", line(900, first_token=500), ollama(total=900, load=52), slots=1)
    assert phases(breakdown) == {"frontend": 448, "load": 52, "delivery": 400}


def test_tokenizing_after_the_total_is_delivery() -> None:
    said = ollama(total=85, load=1, prefill=10, decode=70)
    assert phases(split("ollama", line(105, last_byte=105), said, slots=1))["delivery"] == 20


def test_embeddings_are_one_sum_beside_the_load() -> None:
    said = report("ollama.durations", total=900, load=700)
    assert phases(split("ollama", line(905), said, route="embed")) == {"load": 700, "engine": 200, "delivery": 5}
    swapped = split("ollama", line(905), said, route="embed", others_done=100, swapped=True)
    assert phases(swapped) == {"queue": 100, "load": 600, "engine": 200, "delivery": 5}


def test_an_object_that_only_loads_is_a_load() -> None:
    assert phases(split("ollama", line(800, finish="load"))) == {"load": 800}
    assert phases(split("ollama", line(800, finish="unload"))) == {"engine": 800}
    never = line(800, finish="load", dispatched=None)
    assert phases(split("ollama", never)) == {"proxy": 800}


def test_v1_routes_are_joint() -> None:
    breakdown = split("ollama", line(100, first_token=40, last_token=90), slots=1, ahead=1, contended=30)
    assert phases(breakdown) == {"queue_prefill": 40, "decode": 50, "delivery": 10}


def test_a_load_alone_is_the_load() -> None:
    """FC-050."""
    timeline = line(21000, first_token=20500)
    said = ollama(total=21000, load=20000, prefill=450, decode=500)
    found = phases(split("ollama", timeline, said, slots=1))
    assert (found["load"], found["prefill"], found["decode"]) == (20000, 450, 500)
