from proxy.records import Usage
from tests.attribution.made import line, phases, report, split

SAID = report("sglang.meta_info", frontend=3, queue=20, prefill=30, decode=40)


def test_meta_info_stands_and_the_first_tokens_rest_is_the_way_to_the_scheduler() -> None:
    found = phases(split("sglang", line(100, head=1, first_token=57, last_token=96), SAID))
    assert found == {"frontend": 3, "step_wait": 4, "queue": 20, "prefill": 30, "decode": 40, "delivery": 3}


def test_a_body_that_is_no_stream_leaves_its_rest_unattributed() -> None:
    found = phases(split("sglang", line(100, head=99, last_byte=99), SAID))
    assert found == {"frontend": 3, "queue": 20, "prefill": 30, "decode": 40, "delivery": 1, "unattributed": 6}


def test_output_that_was_held_back_does_not_lengthen_the_way_to_the_scheduler() -> None:
    found = phases(split("sglang", line(2010, head=1, first_token=2000, token_events=50), SAID, Usage(5, 50)))
    assert found == {"frontend": 3, "queue": 20, "prefill": 30, "decode": 40, "delivery": 10, "unattributed": 1907}


def test_without_meta_info_a_stream_is_joint() -> None:
    found = phases(split("sglang", line(100, head=56, first_token=57, last_token=96)))
    assert found == {"queue_prefill": 57, "decode": 39, "delivery": 4}
