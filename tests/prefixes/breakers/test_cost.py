import pytest

from proxy.prefixes.breakers.cost import HOUR_S, LEAST_S, cost, dearest, in_time, unit_of
from proxy.prefixes.breakers.finder import Breaker

BREAKER = Breaker("timestamp", "move", ("1", "2", "3"), 0, "system", 38, 9, 50, 900, 0.25, 0.7, ("dd:dd",))


def test_it_is_told_of_the_time_observed_and_by_the_hour():
    told = cost(BREAKER, 60.04)
    assert (told["observed_s"], told["tokens_observed"], told["seconds_observed"]) == (60.0, 900, None)
    assert (told["requests_per_hour"], told["tokens_per_hour"], told["seconds_per_hour"]) == (179.9, 53964, None)
    assert cost(BREAKER, 2 * HOUR_S, rate=100.0) == {
        "observed_s": 7200.0,
        "tokens_observed": 900,
        "seconds_observed": 9.0,
        "requests_per_hour": 1.5,
        "tokens_per_hour": 450,
        "seconds_per_hour": 4.5,
    }
    assert cost(BREAKER, HOUR_S)["seconds_per_hour"] is None


def test_what_was_not_looked_at_costs_as_much_as_what_was():
    told = cost(BREAKER, HOUR_S, stand_for=4.0, rate=100.0)
    assert (told["tokens_observed"], told["seconds_observed"]) == (3600, 36.0)
    assert (told["requests_per_hour"], told["tokens_per_hour"], told["seconds_per_hour"]) == (12.0, 3600, 36.0)


@pytest.mark.parametrize("observed_s", [0.0, LEAST_S - 0.1, -5.0, float("-inf")])
def test_a_moment_tells_nothing_of_time(observed_s):
    assert cost(BREAKER, observed_s) == {}


@pytest.mark.parametrize(
    ("seconds", "tokens", "first"),
    [
        ((0.4, 6.1), (9, 9), "slow"),
        ((0.4, None), (9, 8), "fast"),
        ((None, None), (8, 9), "slow"),
        ((None, None), (None, 9), "fast"),
        ((0.0, 0.0), (9, 9), "fast"),
    ],
)
def test_the_dearest_is_told_by_the_hour_and_in_time_where_that_is_known_of_all(seconds, tokens, first):
    fast, slow = (
        {"kind": kind, "tokens_saved": saved, "seconds_per_hour": took, "tokens_per_hour": pace}
        for kind, saved, took, pace in zip(("fast", "slow"), (900, 300), seconds, tokens, strict=True)
    )
    assert dearest([slow, fast])[0]["kind"] == first
    unit = unit_of([slow, fast])
    assert None not in (slow[unit], fast[unit])


def test_a_rate_stands_in_for_a_pace_that_is_not_known():
    told = in_time({"tokens_saved": 900, "tokens_observed": 900, "tokens_per_hour": 450}, 100.0)
    assert (told["seconds_saved"], told["seconds_observed"], told["seconds_per_hour"]) == (9.0, 9.0, 4.5)
    paced = {"tokens_saved": 900, "tokens_observed": 900, "tokens_per_hour": 450}
    paced |= {"seconds_observed": 1.0, "seconds_per_hour": 0.5}
    told = in_time(paced, 100.0)
    assert (told["seconds_observed"], told["seconds_per_hour"]) == (1.0, 0.5)
    assert in_time({"tokens_saved": 900}, 100.0)["seconds_per_hour"] is None
