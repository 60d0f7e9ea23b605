import pytest

from proxy.attribution.bill import Bill
from proxy.records import Class, Phase
from tests.attribution.made import finished, line


def test_a_part_is_at_most_what_is_left() -> None:
    bill = Bill(finished("openai", line(10)))
    bill.take("decode", 7_000_000, Class.MEASURED, "a")
    bill.take("queue", 7_000_000, Class.DERIVED, "b", 5)
    assert bill.left == 0
    assert bill.close() == (
        Phase("proxy", 0, Class.MEASURED, "clock", 0),
        Phase("queue", 3_000_000, Class.DERIVED, "b", 5),
        Phase("decode", 7_000_000, Class.MEASURED, "a"),
    )


def test_a_zero_is_a_phase_only_where_it_was_measured() -> None:
    bill = Bill(finished("openai", line(10)))
    bill.take("queue", 0, Class.MEASURED, "a")
    bill.take("load", None, Class.MEASURED, "a")
    bill.take("prefill", 0, Class.DERIVED, "a")
    bill.take("decode", -3, Class.DERIVED, "a")
    bill.take("delivery", -3, Class.MEASURED, "a")
    assert [(phase.name, phase.ns) for phase in bill.close()] == [
        ("proxy", 0),
        ("queue", 0),
        ("delivery", 0),
        ("unattributed", 10_000_000),
    ]


def test_a_phase_is_taken_once() -> None:
    bill = Bill(finished("openai", line(10)))
    bill.take("queue", 3_000_000, Class.DERIVED, "a")
    with pytest.raises(ValueError, match="queue is taken twice"):
        bill.take("queue", 4_000_000, Class.DERIVED, "b")
    assert sum(phase.ns for phase in bill.close()) == 10_000_000
