"""Cached tokens from prefill time, for engines that do not report them (Ollama).

A prompt of which `fresh` tokens are computed takes about as long as the quickest prompt seen, which computed one, and b
for each more. Prompts whose text was mostly never seen lie on a line, if the engine has not met them elsewhere, and
prompts that were cached far below it: b is the cost of a token among those near the line (a low quantile, for
contention only adds). The estimate is inferred, and says so with an interval, wider the fewer cold prompts were seen.
"""

from collections import deque

from proxy.records import Inferred

SAMPLES = 512
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
"""... and the part of it that makes a prompt count as cold."""

LOW, USUAL, HIGH = 0.05, 0.15, 0.9
"""Quantiles of the cold prompts' cost: for the upper bound, the estimate, and the lower bound of what was computed."""

FEW = 2.0
"""Over the number of cold prompts: the part of itself by which such a quantile may be missed, for the bounds."""


class PrefillTimes:
    """The prefill times of one model on one engine."""

    # State: new tokens (0: too few to tell) and nanoseconds of the latest prompts.

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque(maxlen=SAMPLES)

    def add(self, tokens: int, prefill_ns: int, known: int = 0) -> None:
        """Take a prompt's tokens, the time that the engine says it took, and how many tokens of it were seen before."""
        if tokens > 0 and prefill_ns > 0:
            new = tokens - known
            self._seen.append((new if new >= max(LONG, NEW * tokens) else 0, prefill_ns))

    def cached(self, tokens: int, prefill_ns: int) -> Inferred | None:
        """Cached tokens of a prompt that took this long; None while too little is known."""
        quickest = min((ns for _, ns in self._seen), default=0)
        costs = sorted((ns - quickest) / (n - 1) for n, ns in self._seen if n)
        if len(self._seen) < FIRST or not costs or costs[-1] <= 0:
            return None
        cold = [cost for cost in costs if cost >= COLD * _quantile(costs, TOP)]
        few = 1 + FEW / len(cold)

        def estimate(cost: float) -> int:
            fresh = 1 + (prefill_ns - quickest) / cost
            return round(max(0.0, min(tokens - 1.0, tokens - fresh)))

        usual = estimate(_quantile(cold, USUAL))
        low, high = estimate(_quantile(cold, LOW) / few), estimate(_quantile(cold, HIGH) * few)
        return Inferred(usual, min(low, usual), max(high, usual))


def _quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]
