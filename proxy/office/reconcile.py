"""The engine's own means beside ours, over the same window of time.

Both sides are sums that only grow. Two snapshots of each, taken at the same moments, give two means. They are held
against each other only where both speak of the same requests: the counts must agree, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.engines.gauges import Gauges, Total
from proxy.records import Class, Outcome, RequestRecord

APART = 0.05
"""Means that differ by more are a finding ..."""
APART_S = 0.005
"""... where it is more than the way between two processes costs, too."""
ENOUGH = 20
"""Requests in the window; fewer say nothing about a mean."""
COUNTS_APART = 0.1
"""The engine's count and ours may differ so much: aborted requests, the window's edges. More is other traffic."""
CACHE_TOKENS = 1000
CACHE_APART = 0.1
"""Prefix hits that shared prompts do not explain are a finding from this share of the looked-up tokens on."""
CACHE_OTHERS = 1.5
"""Looked-up tokens over ours: a preempted request is looked up again; more is other traffic."""
PHASES = ("queue", "prefill", "decode")
KNOWN = frozenset({Class.MEASURED, Class.DERIVED})


@dataclass(slots=True)
class Ours:
    """What our records of one engine sum to. State: all of it."""

    totals: dict[str, Total] = field(default_factory=dict)
    reusable: int = 0
    """Prompt tokens that shared prefixes explain, by the audit; of audited requests."""
    audited: int = 0
    """Prompt tokens of audited requests."""

    def add(self, record: RequestRecord) -> None:
        """One more record."""
        finished = record.finished
        if finished.prefix is not None:
            self.audited += finished.prefix.tokens
            self.reusable += finished.prefix.infinite or 0
        if finished.outcome is not Outcome.COMPLETED:
            return
        if finished.timeline.first_token_ns is not None:
            self._count("ttft", finished.timeline.first_token_ns)
        for phase in record.breakdown.phases:
            if phase.name in PHASES and phase.klass in KNOWN:
                self._count(phase.name, phase.ns)

    def copy(self) -> "Ours":
        """As it is now."""
        return Ours(dict(self.totals), self.reusable, self.audited)

    def _count(self, name: str, ns: int) -> None:
        total = self.totals.get(name, Total(sum_s=0, count=0))
        self.totals[name] = Total(sum_s=total.sum_s + ns / 1e9, count=total.count + 1)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Both sides at one moment."""

    at_ns: int
    gauges: Gauges
    ours: Ours


@dataclass(frozen=True, slots=True)
class Compared:
    """One mean, said twice. None: nothing in the window."""

    engine_s: float | None
    ours_s: float | None
    engine_count: float
    our_count: float
    apart: bool


def compare(before: Snapshot, after: Snapshot) -> dict[str, Compared]:
    """Every mean that the engine has, between two snapshots. Empty where its counters fell: it was restarted."""
    compared = {}
    for name, total in after.gauges.totals.items():
        engine = _growth(before.gauges.totals, total, name)
        ours = _growth(before.ours.totals, after.ours.totals.get(name, Total(sum_s=0, count=0)), name)
        if engine.count < 0 or engine.sum_s < 0:
            return {}
        compared[name] = Compared(_mean(engine), _mean(ours), engine.count, ours.count, _apart(engine, ours))
    return compared


def cache_contradicted(before: Snapshot, after: Snapshot) -> bool:
    """The engine counts more prefix hits than the prompts that it was sent share. (Seen: recomputation counted as
    hits.)"""
    queries = _difference(before.gauges.prefix_queries, after.gauges.prefix_queries)
    hits = _difference(before.gauges.prefix_hits, after.gauges.prefix_hits)
    audited = after.ours.audited - before.ours.audited
    if queries is None or hits is None or not CACHE_TOKENS <= queries <= CACHE_OTHERS * audited:
        return False
    return hits - (after.ours.reusable - before.ours.reusable) > CACHE_APART * queries


def _growth(before: Mapping[str, Total], after: Total, name: str) -> Total:
    start = before.get(name, Total(sum_s=0, count=0))
    return Total(sum_s=after.sum_s - start.sum_s, count=after.count - start.count)


def _mean(total: Total) -> float | None:
    return total.sum_s / total.count if total.count else None


def _apart(engine: Total, ours: Total) -> bool:
    theirs, own = _mean(engine), _mean(ours)
    if theirs is None or own is None or min(engine.count, ours.count) < ENOUGH:
        return False
    if abs(engine.count - ours.count) > COUNTS_APART * engine.count:
        return False
    return abs(theirs - own) > max(APART * theirs, APART_S)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
