import pytest

from proxy.prefixes.pace import A_SECOND, AT_ONCE, SET_BACK_S, Pace


def taken(pace: Pace, *moments: float) -> int:
    """How many of the prompts that came then are taken."""
    count = 0
    for at_s in moments:
        if pace.has_room(at_s):
            pace.take()
            count += 1
    return count


def test_few_are_all_taken_and_of_many_so_many_a_second() -> None:
    pace = Pace()
    assert taken(pace, *[0.4 * k for k in range(1_000)]) == pytest.approx(800 + AT_ONCE, rel=0.05)
    assert taken(Pace(), *[0.5 * k for k in range(1_000)]) == 1_000
    assert taken(Pace(), *[0.0] * 1_000) == pytest.approx(AT_ONCE, abs=2)


def test_what_came_early_and_ends_late_fills_nothing() -> None:
    pace = Pace()
    moments = [second + 60.0 * (k % 2) for second in range(60) for k in range(100)]
    assert taken(pace, *moments) <= AT_ONCE + A_SECOND * 120


def test_a_clock_that_was_set_back_goes_on_from_there() -> None:
    pace = Pace()
    assert taken(pace, *[10_000.0] * 500) == pytest.approx(AT_ONCE, abs=2)
    assert taken(pace, 10_000.0 - SET_BACK_S) == 0
    assert taken(pace, *[1_000.0 + k for k in range(10)]) >= 8
