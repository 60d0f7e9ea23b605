"""Cached tokens from prefill time, for engines that do not report them (Ollama).

A prompt of which `fresh` tokens are computed takes about as long as the quickest prompt seen, which computed one, and b
for each more. Prompts whose text was mostly never seen lie on a line, if the engine has not met them elsewhere, and
prompts that were cached far below it: b is the cost of a token among those near the line (a low quantile, for
contention only adds).

The estimate is inferred, and says so with an interval that takes back what was assumed. Perhaps the quickest prompt
computed much more than one: only where our text says that little of a prompt was left, its time tells where the line
starts. Perhaps what lies below the line was not cached, but had the engine for itself: the interval reaches to the
cheapest new prompt of all. It is wider the fewer new prompts were seen.
"""

from collections import deque
from typing import NamedTuple

from proxy.records import Inferred

SAMPLES = 256
"""Prompts remembered: the machine's speed may change."""

FIRST = 8
"""Prompts seen before anything is said."""

LONG = 64
"""New tokens from which on a prompt tells the cost of a token; a shorter one is all overhead."""

NEW = 0.5
"""The part of a prompt that must be new, as far as its text shows."""

TOP = 0.9
"""The quantile of cost per token that a cold prompt has, at least ..."""
COLD = 0.5
"""... the part of it that makes a prompt count as cold ..."""
ALONE = 0.25
"""... and the part that one may have that had the engine for itself: others make it so many times slower at most."""

USUAL = 0.15
"""The quantile of the cold prompts' cost that the estimate takes."""

LOW, HIGH = 0.02, 0.95
"""Quantiles for the bounds: of all new prompts' cost the low one, of the cold prompts' the high one."""

SOON, LATE = 0.05, 0.9
"""Quantiles of where the line starts, for the bounds: jitter adds to short times as to long ones."""

FEW = 2.0
"""Over the number of cold prompts: the part of itself by which such a quantile may be missed, for the bounds."""


class _Sample(NamedTuple):
    """One prompt."""

    new: int
    """Tokens that nobody had sent before; 0: too few to tell."""
    fresh: int
    """Tokens that were computed, as we believe."""
    ns: int


class PrefillTimes:
    """The prefill times of one model on one engine."""

    # State: the latest prompts.

    def __init__(self) -> None:
        self._seen: deque[_Sample] = deque(maxlen=SAMPLES)

    def add(self, tokens: int, prefill_ns: int, known: int = 0, there: int = 0) -> None:
        """Take a prompt's tokens, the time that the engine says it took, how many of the tokens were seen before, and
        how many of these are in the cache as we believe."""
        if tokens > 0 and prefill_ns > 0:
            new = tokens - known
            self._seen.append(_Sample(new if new >= max(LONG, NEW * tokens) else 0, tokens - there, prefill_ns))

    def cached(self, tokens: int, prefill_ns: int) -> Inferred | None:
        """Cached tokens of a prompt that took this long; None while too little is known."""
        quickest = min((one.ns for one in self._seen), default=0)
        costs = sorted((one.ns - quickest) / (one.new - 1) for one in self._seen if one.new)
        if len(self._seen) < FIRST or not costs or costs[-1] <= 0:
            return None
        cold = [cost for cost in costs if cost >= COLD * _quantile(costs, TOP)]
        few = 1 + FEW / len(cold)
        typical = _quantile(cold, USUAL)
        soon, late = self._starts(quickest, typical)
        alone = sorted((one.ns - soon) / one.new for one in self._seen if one.new)
        cheapest = _quantile([cost for cost in alone if cost >= ALONE * _quantile(alone, TOP)], LOW)

        def estimate(start: float, cost: float) -> int:
            fresh = 1 + (prefill_ns - start) / cost
            return round(max(0.0, min(tokens - 1.0, tokens - fresh)))

        usual = estimate(quickest, typical)
        low, high = estimate(soon, cheapest / few), estimate(late, _quantile(cold, HIGH) * few)
        return Inferred(usual, min(low, usual), max(high, usual))

    def _starts(self, quickest: int, cost: float) -> tuple[float, float]:
        """Nanoseconds of a prompt of which one token is computed, at least and at most."""
        starts = sorted(one.ns - cost * (one.fresh - 1) for one in self._seen if one.fresh < LONG)
        if not starts:
            return 0.0, quickest
        return max(0.0, min(quickest, _quantile(starts, SOON))), max(quickest, _quantile(starts, LATE))


def _quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]
