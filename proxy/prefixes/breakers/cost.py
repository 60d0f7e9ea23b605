"""What a breaker cost: in the time that was observed, and an hour at that pace."""

from collections.abc import Iterable
from typing import Any

from proxy.prefixes.breakers.finder import Breaker

HOUR_S = 3600.0
LEAST_S = 30.0
"""Prompts that all came within less (or have no time at all) tell nothing of time: a burst is no hour."""


UNITS = ("seconds_per_hour", "tokens_per_hour", "seconds_saved", "tokens_saved")
"""In what breakers are ranked and told: by the hour, for each family is observed for a time of its own, and in time,
for engines differ in speed."""


def unit_of(breakers: Iterable[dict[str, Any]]) -> str:
    """The first unit in which all of these are known: what is told in two can be set against nothing."""
    told = list(breakers)
    return next(unit for unit in UNITS if all(one.get(unit) is not None for one in told))


def dearest(breakers: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The dearest first; of equals that which saved most tokens."""
    told = list(breakers)
    unit = unit_of(told)
    return sorted(told, key=lambda one: (-float(one[unit]), -int(one["tokens_saved"])))


def in_time(breaker: dict[str, Any], rate: float) -> dict[str, Any]:
    """The same in time too. `rate`: prompt tokens a second, where its engine does not say how fast it reads."""
    taken = {}
    for what in ("per_hour", "observed", "saved"):
        seconds, tokens = breaker.get(f"seconds_{what}"), breaker.get(f"tokens_{what}")
        taken[f"seconds_{what}"] = tokens / rate if seconds is None and tokens is not None else seconds
    return {**breaker, **taken}


def cost(breaker: Breaker, observed_s: float, stand_for: float = 1.0, rate: float | None = None) -> dict[str, Any]:
    """As JSON can say it; nothing of less than LEAST_S. `stand_for`: the prompts of that time for which each of its
    requests stands. `rate`: prompt tokens that the engine reads a second, in ours as the others, where known; then it
    is told in seconds too."""
    if observed_s < LEAST_S:
        return {}
    tokens = breaker.tokens_saved * stand_for
    seconds = tokens / rate if rate else None
    hours = observed_s / HOUR_S
    return {
        "observed_s": round(observed_s, 1),
        "tokens_observed": round(tokens),
        "seconds_observed": None if seconds is None else round(seconds, 1),
        "requests_per_hour": round(len(breaker.ids) * stand_for / hours, 1),
        "tokens_per_hour": round(tokens / hours),
        "seconds_per_hour": None if seconds is None else round(seconds / hours, 1),
    }
