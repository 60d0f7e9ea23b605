from proxy.attribution.slots import Residual, part, prompt_tokens, was_cut
from proxy.records import Class, Evidence, TokenCount, Usage
from tests.attribution.made import finished, line


def test_with_a_free_slot_a_residual_is_work() -> None:
    assert part(Evidence(slots=2, ahead=1, contended_ns=90), 50) == Residual(0, 50, Class.DERIVED)
    assert part(Evidence(slots=None, ahead=0), 50) == Residual(0, 50, Class.DERIVED)


def test_with_all_slots_taken_it_is_waiting_as_long_as_they_were() -> None:
    assert part(Evidence(slots=1, ahead=1, contended_ns=90), 50) == Residual(50, 0, Class.DERIVED)
    assert part(Evidence(slots=2, ahead=2, contended_ns=30), 50) == Residual(30, 20, Class.DERIVED)
    assert part(Evidence(slots=2, ahead=2, contended_ns=30), 50, before_ns=20) == Residual(10, 40, Class.DERIVED)
    assert part(Evidence(slots=2, ahead=2, contended_ns=30), 50, before_ns=40) == Residual(0, 50, Class.DERIVED)


S = 1_000_000_000


def test_a_long_front_end_may_be_a_wait_that_is_not_seen() -> None:
    free = Evidence(slots=2, ahead=1)
    assert part(free, S // 10) == Residual(0, S // 10, Class.DERIVED)
    assert part(free, S // 2) == Residual(0, S // 2, Class.DERIVED, S // 2)
    assert part(free, S // 2, tokens=20_000) == Residual(0, S // 2, Class.DERIVED)


def test_no_front_end_works_for_seconds() -> None:
    free, taken = Evidence(slots=1), Evidence(slots=1, ahead=1, contended_ns=S)
    strange = part(free, 2 * S)
    assert strange == Residual(0, 0, Class.DERIVED, 0, 2 * S)
    assert strange.waited() == Residual(2 * S, 0, Class.INFERRED, 2 * S)
    assert part(taken, 4 * S).waited() == Residual(4 * S, 0, Class.INFERRED, 3 * S)
    assert part(free, S // 2).waited() == part(free, S // 2)
    assert part(free, 2 * S, tokens=100_000).frontend_ns == 2 * S


def test_a_prompt_that_does_not_fit_may_be_rendered_for_seconds() -> None:
    assert part(Evidence(slots=1), 2 * S, cut=True) == Residual(0, 2 * S, Class.DERIVED, 2 * S)


def test_a_prompt_was_cut_where_the_engine_read_less_than_there_can_be() -> None:
    count = TokenCount(9000, "estimated", 8000, 10_000, 9000)
    for usage, size, cut in ((Usage(2050, 1), 2050, True), (Usage(8500, 1), 8500, False), (None, 9000, False)):
        done = finished("ollama", line(100), None, usage)._replace(counted=count)
        assert (prompt_tokens(done), was_cut(done)) == (size, cut)
    assert (prompt_tokens(finished("ollama", line(100))), was_cut(finished("ollama", line(100)))) == (0, False)


def test_waiting_is_inferred_where_slots_are_not_known() -> None:
    assert part(Evidence(slots=None, ahead=1, contended_ns=90), 50) == Residual(50, 0, Class.INFERRED)
