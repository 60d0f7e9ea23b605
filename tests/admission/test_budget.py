import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.budget import DAY_S, HOUR_S, Budget

TEN = 10 * HOUR_S


def test_a_window_is_an_hour_of_the_clock() -> None:
    budget = Budget(100, HOUR_S)
    budget.charge(TEN + 3000, 60)
    assert budget.wait_s(TEN + 3000, 40) == 0
    assert budget.wait_s(TEN + 3000, 41) == 600
    assert budget.remaining(TEN + 3000) == 40
    assert budget.wait_s(TEN + 3600, 41) == 0
    assert budget.remaining(TEN + 3600) == 100


def test_what_was_not_used_is_given_back_and_what_was_used_beyond_is_charged() -> None:
    budget = Budget(100, DAY_S)
    less, more = budget.charge(0, 30), budget.charge(0, 30)
    budget.settle(less, 30, 10)
    budget.settle(more, 30, 80)
    assert budget.remaining(0) == 10


def test_going_over_is_remembered_and_never_shown_as_a_negative_rest() -> None:
    budget = Budget(100, HOUR_S)
    budget.settle(budget.charge(0, 100), 100, 500)
    assert budget.remaining(0) == 0
    assert budget.wait_s(0, 0) == HOUR_S


def test_more_than_the_whole_budget_waits_for_an_unused_window() -> None:
    budget = Budget(100, HOUR_S)
    assert budget.wait_s(0, 500) == 0
    budget.charge(0, 1)
    assert budget.wait_s(0, 500) == HOUR_S


def test_an_end_in_a_later_window_changes_nothing_there() -> None:
    budget = Budget(100, HOUR_S)
    charge = budget.charge(0, 50)
    assert budget.remaining(HOUR_S) == 100
    budget.settle(charge, 50, 90)
    assert budget.remaining(HOUR_S) == 100


def test_a_clock_that_is_put_back_a_little_gives_nobody_an_hour_twice() -> None:
    budget = Budget(100, HOUR_S)
    budget.charge(TEN, 100)
    assert budget.remaining(TEN - 10) == 0
    assert budget.wait_s(TEN - 10, 1) == HOUR_S + 10
    assert budget.remaining(TEN + HOUR_S) == 100


def test_a_window_of_a_clock_that_had_jumped_is_void() -> None:
    budget = Budget(100, HOUR_S)
    ahead = budget.charge(TEN + 999 * HOUR_S, 100)
    assert budget.wait_s(TEN, 100) == 0
    budget.charge(TEN, 30)
    budget.settle(ahead, 100, 500)
    assert budget.remaining(TEN) == 70
    kept = Budget(100, HOUR_S)
    kept.restore({"window": 10 + 999, "used": 100})
    assert kept.remaining(TEN) == 100


def test_what_was_charged_before_the_clock_jumped_ahead_and_back_is_not_given_back_after_it() -> None:
    budget = Budget(100, HOUR_S)
    lost = budget.charge(TEN, 100)
    assert budget.remaining(TEN + 999 * HOUR_S) == 100
    kept = budget.charge(TEN, 60)
    budget.settle(lost, 100, 0)
    assert budget.remaining(TEN) == 40
    budget.settle(kept, 60, 10)
    assert budget.remaining(TEN) == 90


@pytest.mark.parametrize(
    "odd",
    [{}, {"window": 1}, {"used": 1}, {"window": -1, "used": 0}, {"window": 1, "used": -10}, {"window": "1", "used": 1},
     {"window": 1, "used": 1.5}, {"window": True, "used": 1}, {"window": 10**400, "used": 1}],
)  # fmt: skip
def test_what_it_never_kept_is_not_taken_up(odd: dict[str, object]) -> None:
    budget = Budget(100, HOUR_S)
    with pytest.raises(ValueError, match="no window"):
        budget.restore(odd)
    assert budget.remaining(TEN) == 100


def test_a_restart_goes_on_in_the_same_window_and_forgets_an_old_one() -> None:
    budget = Budget(100, HOUR_S)
    budget.charge(TEN, 70)
    again = Budget(100, HOUR_S)
    again.restore(json.loads(json.dumps(budget.to_dict())))
    assert again.remaining(TEN + 1) == 30
    assert again.remaining(TEN + HOUR_S) == 100
    assert repr(again) == "<Budget 0 of 100 in 3600 s>"


def test_a_budget_is_idle_when_nothing_is_used_and_nothing_is_to_be_settled() -> None:
    budget = Budget(100, HOUR_S)
    charge = budget.charge(TEN, 0)
    assert (budget.idle(TEN), budget.unused) == (False, True)
    budget.settle(charge, 0, 70)
    assert (budget.idle(TEN), budget.unused) == (False, False)
    assert budget.idle(TEN + HOUR_S)


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 60), st.integers(0, 90)), max_size=30))
def test_the_rest_is_the_limit_less_what_was_used_in_the_window(steps: list[tuple[int, int, int]]) -> None:
    budget, now = Budget(200, HOUR_S), TEN
    used: dict[int, int] = {}
    for after, charged, spent in steps:
        now += after
        budget.settle(budget.charge(now, charged), charged, spent)
        used[now // HOUR_S] = used.get(now // HOUR_S, 0) + spent
        assert budget.remaining(now) == max(0, 200 - used[now // HOUR_S])
