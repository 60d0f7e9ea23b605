"""What a breaker cost: in the time that was observed, and an hour at that pace."""

from typing import Any

from proxy.prefixes.breakers.finder import Breaker

HOUR_S = 3600.0
LEAST_S = 1.0
"""Prompts that all came within less (or have no time at all) tell nothing of time."""


def cost(breaker: Breaker, observed_s: float, sampled: float = 1.0, rate: float | None = None) -> dict[str, Any]:
    """As JSON can say it; nothing of less than LEAST_S. `sampled`: the part of the prompts of that time that was looked
    at, over 0. `rate`: prompt tokens that the engine reads a second, where known; then it is told in seconds too."""
    if observed_s < LEAST_S:
        return {}
    tokens = breaker.tokens_saved / sampled
    seconds = tokens / rate if rate else None
    hours = observed_s / HOUR_S
    return {
        "observed_s": round(observed_s, 1),
        "tokens_observed": round(tokens),
        "seconds_observed": None if seconds is None else round(seconds, 1),
        "requests_per_hour": round(len(breaker.ids) / sampled / hours, 1),
        "tokens_per_hour": round(tokens / hours),
        "seconds_per_hour": None if seconds is None else round(seconds / hours, 1),
    }
