from proxy.attribution.slots import Residual, part
from proxy.records import Class, Evidence


def test_with_a_free_slot_a_residual_is_work() -> None:
    assert part(Evidence(slots=2, ahead=1, contended_ns=90), 50) == Residual(0, 50, Class.DERIVED)
    assert part(Evidence(slots=None, ahead=0), 50) == Residual(0, 50, Class.DERIVED)


def test_with_all_slots_taken_it_is_waiting_as_long_as_they_were() -> None:
    assert part(Evidence(slots=1, ahead=1, contended_ns=90), 50) == Residual(50, 0, Class.DERIVED)
    assert part(Evidence(slots=2, ahead=2, contended_ns=30), 50) == Residual(30, 20, Class.DERIVED)
    assert part(Evidence(slots=2, ahead=2, contended_ns=30), 50, before_ns=20) == Residual(10, 40, Class.DERIVED)
    assert part(Evidence(slots=2, ahead=2, contended_ns=30), 50, before_ns=40) == Residual(0, 50, Class.DERIVED)


def test_waiting_is_inferred_where_slots_are_not_known() -> None:
    assert part(Evidence(slots=None, ahead=1, contended_ns=90), 50) == Residual(50, 0, Class.INFERRED)
