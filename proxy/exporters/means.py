"""The engine's own means beside ours: what both counted over the same stretch of time, and whether they agree.

Both sides are sums that only grow, so stretches add up: the means of an hour are those of its minutes, put together.
"""

from dataclasses import dataclass

from proxy.engines.gauges import Total

NAMES = ("ttft", "queue", "prefill", "decode")
"""Means that an engine tells and records have too, with the same start and end: of `ttft` from dispatch, for the engine
knows nothing of our queue, and no decode by our clock while a client read slowly."""

APART = 0.05
"""Means that differ by more, as a share of the engine's, are apart ..."""
APART_S = 0.005
"""... where it is more than the way between two processes costs, too."""
ENOUGH = 20
"""Requests; fewer say nothing about a mean."""
COUNTS_APART = 0.1
"""The engine's count and ours may differ so much: aborted requests, the window's edges. More is other traffic."""

NOTHING = Total(sum_s=0, count=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One mean of one engine over a stretch of time, as the engine counted it and as we did."""

    engine: str
    name: str
    """One of NAMES."""
    since_s: float
    """Seconds since the epoch."""
    until_s: float
    theirs: Total
    ours: Total


@dataclass(frozen=True, slots=True)
class Compared:
    """One mean, said twice. None: nothing was counted."""

    engine_s: float | None
    ours_s: float | None
    engine_count: float
    our_count: float
    difference: float | None
    """Ours less the engine's, as a share of the engine's."""
    verdict: str
    """`agree`; `apart`; or why a difference of more than APART says nothing: `few` requests, `other_traffic`, `small`
    (less than APART_S); `unknown` where one side has none."""

    @property
    def apart(self) -> bool:
        """The same requests, and another mean."""
        return self.verdict == "apart"


def compared(theirs: Total, ours: Total) -> Compared:
    """Both means, held against each other."""
    their_mean, our_mean = _mean(theirs), _mean(ours)
    difference = (our_mean - their_mean) / their_mean if their_mean and our_mean is not None else None
    return Compared(their_mean, our_mean, theirs.count, ours.count, difference, _verdict(theirs, ours))


def _verdict(theirs: Total, ours: Total) -> str:
    their_mean, our_mean = _mean(theirs), _mean(ours)
    if their_mean is None or our_mean is None:
        return "unknown"
    differ_s = abs(our_mean - their_mean)
    if differ_s <= APART * their_mean:
        return "agree"
    if min(theirs.count, ours.count) < ENOUGH:
        return "few"
    if abs(theirs.count - ours.count) > COUNTS_APART * theirs.count:
        return "other_traffic"
    return "apart" if differ_s > APART_S else "small"


def _mean(total: Total) -> float | None:
    return total.sum_s / total.count if total.count else None
