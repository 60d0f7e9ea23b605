from proxy.attribution.ladder import attribute
from proxy.records import Class, Usage
from tests.attribution.made import finished, line, phases, report, split


def test_metrics_stand_and_the_head_is_the_front_end() -> None:
    said = report("vllm.metrics", queue=100, prefill=500, decode=1000)
    done = finished("vllm", line(1702, head=5, role=699, first_token=700, last_token=1690), said)
    assert phases(attribute(done)) == {
        "frontend": 5,
        "step_wait": 94,
        "queue": 100,
        "prefill": 500,
        "decode": 1000,
        "delivery": 3,
    }
    classes = {phase.name: phase.klass for phase in attribute(done).phases}
    assert classes["queue"] is classes["prefill"] is classes["decode"] is Class.MEASURED
    assert classes["frontend"] is classes["step_wait"] is Class.DERIVED


def test_a_preempted_request_keeps_the_engines_phases() -> None:
    """FC-045: head at 0, 100 + 600 + 1000 of 1702 ms."""
    said = report("vllm.metrics", queue=100, prefill=600, decode=1000)
    found = phases(split("vllm", line(1702, head=0, role=700, first_token=700, last_token=1700), said))
    assert found == {"queue": 100, "prefill": 600, "decode": 1000, "delivery": 2}


def test_a_head_that_came_late_is_cut_to_what_the_first_token_leaves() -> None:
    said = report("vllm.metrics", queue=1, prefill=40, decode=50)
    found = phases(split("vllm", line(100, head=30, first_token=45, last_token=97), said))
    assert found == {"frontend": 4, "queue": 1, "prefill": 40, "decode": 50, "delivery": 3, "unattributed": 2}


def test_a_tool_call_held_back_does_not_lengthen_the_way_to_the_engine() -> None:
    said = report("vllm.metrics", queue=1, prefill=40, decode=900)
    found = phases(split("vllm", line(1000, head=5, role=50, first_token=450, last_token=960), said))
    assert (found["frontend"], found["step_wait"], found["delivery"]) == (5, 4, 40)


def test_a_body_that_is_no_stream_leaves_its_rest_unattributed() -> None:
    said = report("vllm.metrics", queue=1, prefill=40, decode=50)
    assert phases(split("vllm", line(100, head=99, last_byte=99), said)) == {
        "queue": 1,
        "prefill": 40,
        "decode": 50,
        "delivery": 1,
        "unattributed": 8,
    }


def test_without_metrics_queue_and_prefill_are_one_sum() -> None:
    found = phases(split("vllm", line(200, head=5, role=49, first_token=50, last_token=190)))
    assert found == {"frontend": 5, "queue_prefill": 44, "decode": 141, "delivery": 10}


def test_without_metrics_the_role_ends_prefill_where_all_output_comes_at_once() -> None:
    found = phases(split("vllm", line(200, head=5, role=49, first_token=190)))
    assert found == {"frontend": 5, "queue_prefill": 44, "decode": 141, "delivery": 10}
    assert phases(split("vllm", line(200, head=5, first_token=190))) == {"engine": 190, "delivery": 10}


def test_a_head_that_leaves_with_the_first_output_marks_nothing() -> None:
    held = line(2010, head=2000, role=2000, first_token=2000, last_token=2005, token_events=50)
    assert phases(split("vllm", held, None, Usage(5, 50))) == {"queue_prefill": 2000, "decode": 5, "delivery": 5}
    at_once = held._replace(last_token_ns=2_000_000_000)
    assert phases(split("vllm", at_once, None, Usage(5, 50))) == {"engine": 2000, "delivery": 10}
    said = report("vllm.metrics", queue=1, prefill=40, decode=50)
    found = phases(split("vllm", at_once, said, Usage(5, 50)))
    assert found == {"queue": 1, "prefill": 40, "decode": 50, "delivery": 10, "unattributed": 1909}


def test_output_that_was_held_back_does_not_lengthen_the_wait_for_a_step() -> None:
    held = line(2010, head=5, first_token=2000, token_events=50)
    said = report("vllm.metrics", queue=1, prefill=40, decode=50)
    found = phases(split("vllm", held, said, Usage(5, 50)))
    assert found == {"frontend": 5, "queue": 1, "prefill": 40, "decode": 50, "delivery": 10, "unattributed": 1904}


def test_without_metrics_a_body_that_is_no_stream_is_one_sum() -> None:
    assert phases(split("vllm", line(200, head=199))) == {"engine": 200}
