"""The engine's own sums beside ours, over the same window of time.

Both sides only grow. Two snapshots of each, taken at the same moments, give two means. They are held against each other
only where both speak of the same requests: the counts must agree, too (`exporters.means`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from proxy.engines.gauges import Gauges, Total
from proxy.exporters.means import NAMES, NOTHING, Compared, Stretch, compared
from proxy.prefixes.ledger import TEMPLATE, contradicted
from proxy.records import Class, Outcome, PrefixVerdict, RequestRecord

CACHE_TOKENS = 1000
"""Tokens looked up, at least: fewer tell nothing."""
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
            self.reusable += _reusable(finished.prefix)
        if finished.outcome is not Outcome.COMPLETED:
            return
        line = finished.timeline
        if line.first_token_ns is not None and line.dispatched_ns is not None:
            self._count("ttft", line.first_token_ns - line.dispatched_ns)  # the engine's begins when it is asked
        for phase in record.breakdown.phases:
            slowed = line.blocked_ns > 0 and phase.source == "clock"  # by the client, whom the engine does not wait for
            if phase.name in PHASES and phase.klass in KNOWN and not slowed:
                self._count(phase.name, phase.ns)

    def copy(self) -> "Ours":
        """As it is now."""
        return Ours(dict(self.totals), self.reusable, self.audited)

    def _count(self, name: str, ns: int) -> None:
        total = self.totals.get(name, NOTHING)
        self.totals[name] = Total(sum_s=total.sum_s + ns / 1e9, count=total.count + 1)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Both sides at one moment."""

    at_ns: int
    at_s: float
    """The same by the wall clock, seconds since the epoch."""
    gauges: Gauges
    ours: Ours


def compare(before: Snapshot, after: Snapshot) -> dict[str, Compared]:
    """Every mean that the engine has, between two snapshots. Empty where its counters fell: it was restarted."""
    return {name: compared(theirs, ours) for name, (theirs, ours) in _growths(before, after).items()}


def stretches(engine: str, before: Snapshot, after: Snapshot) -> Iterator[Stretch]:
    """What both sides counted between two snapshots, of the means that both may have; nothing where neither counted."""
    for name, (theirs, ours) in _growths(before, after).items():
        if name in NAMES and (theirs.count or ours.count):
            yield Stretch(engine=engine, name=name, since_s=before.at_s, until_s=after.at_s, theirs=theirs, ours=ours)


def cache_contradicted(before: Snapshot, after: Snapshot) -> bool:
    """The engine counts more prefix hits than the prompts that it was sent share. (Seen: recomputation counted as
    hits.)"""
    queries = _difference(before.gauges.prefix_queries, after.gauges.prefix_queries)
    hits = _difference(before.gauges.prefix_hits, after.gauges.prefix_hits)
    audited = after.ours.audited - before.ours.audited
    if queries is None or hits is None or not CACHE_TOKENS <= queries <= CACHE_OTHERS * audited:
        return False
    return contradicted(hits, after.ours.reusable - before.ours.reusable, queries)


def _reusable(prefix: PrefixVerdict) -> int:
    """Tokens that may be shared with other prompts: those that we saw shared, and its template's, which are among them
    where the engine says what it took."""
    if prefix.infinite is None:
        return prefix.tokens
    return prefix.infinite if prefix.reported is not None else min(prefix.tokens, prefix.infinite + TEMPLATE)


def _growths(before: Snapshot, after: Snapshot) -> dict[str, tuple[Total, Total]]:
    """By mean, what the engine and we have added up since; empty where the engine's counters fell."""
    growths = {}
    for name, total in after.gauges.totals.items():
        theirs = _growth(before.gauges.totals, total, name)
        if theirs.count < 0 or theirs.sum_s < 0:
            return {}
        growths[name] = theirs, _growth(before.ours.totals, after.ours.totals.get(name, NOTHING), name)
    return growths


def _growth(before: Mapping[str, Total], after: Total, name: str) -> Total:
    start = before.get(name, NOTHING)
    return Total(sum_s=after.sum_s - start.sum_s, count=after.count - start.count)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
