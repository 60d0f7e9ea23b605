"""Chance is drawn from a seed: what is taken is the same every time."""

import pytest

from proxy.prefixes.pace import A_SECOND, AT_ONCE, LEAST, SET_BACK_S, Pace


def taken(pace: Pace, *moments: float) -> int:
    """How many of the prompts that came then are taken."""
    return sum(pace.take(at_s) > 0 for at_s in moments)


def test_few_are_all_taken_and_of_many_so_many_a_second() -> None:
    assert taken(Pace(), *[0.4 * k for k in range(5_000)]) == pytest.approx(4_000 + AT_ONCE, rel=0.05)
    assert taken(Pace(), *[0.01 * k for k in range(100_000)]) == pytest.approx(2_000 + AT_ONCE, rel=0.05)
    assert taken(Pace(), *[0.5 * k for k in range(1_000)]) == 1_000
    assert taken(Pace(), *[0.0] * 1_000) == pytest.approx(AT_ONCE, rel=0.1)


@pytest.mark.parametrize("a_second", [1, 10, 100, 1_000])
@pytest.mark.parametrize("crowd_s", [0, 30, 300], ids=["alone", "behind a burst", "behind a crowd"])
def test_those_taken_stand_for_all(a_second: int, crowd_s: int) -> None:
    """Whatever came before, and whatever comes in between."""
    pace = Pace()
    for k in range(100 * crowd_s):
        pace.take(k / 100)
    told = sum(pace.take(crowd_s + k / a_second) for k in range(300 * a_second))
    assert told == pytest.approx(300 * a_second, rel=0.15)


def test_none_stands_for_more_than_a_busy_proxy_passes_on_in_half_a_second() -> None:
    pace = Pace()
    assert 0 < max(pace.take(0.0) for _ in range(20_000)) <= 1 / LEAST


def test_what_came_early_and_ends_late_fills_nothing() -> None:
    pace = Pace()
    moments = [second + 60.0 * (k % 2) for second in range(60) for k in range(100)]
    assert taken(pace, *moments) <= 1.1 * (AT_ONCE + A_SECOND * 120)


def test_a_clock_that_was_set_back_goes_on_from_there() -> None:
    pace = Pace()
    assert taken(pace, *[10_000.0] * 500) == pytest.approx(AT_ONCE, rel=0.1)
    assert taken(pace, 10_000.0 - SET_BACK_S) == 0
    assert taken(pace, *[1_000.0 + 10 * k for k in range(10)]) >= 7
