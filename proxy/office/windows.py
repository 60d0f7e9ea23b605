"""The windows of time over which an engine's own sums stand beside ours: a sliding one to look at, whole ones to keep.

The sliding window is what `/api/engines` shows. The kept ones follow each other without a gap, so that they add up over
any time (`exporters.means`); only an engine's restart, or the office's, leaves one out.
"""

from collections import deque
from collections.abc import Callable

from proxy.engines.gauges import Gauges
from proxy.exporters.means import Compared, Stretch
from proxy.office.reconcile import Ours, Snapshot, cache_contradicted, compare, stretches
from proxy.records import RequestRecord

WINDOW_NS = 300_000_000_000
"""Means are shown over so long: enough requests, and one preemption is still seen."""
KEPT_NS = 60_000_000_000
"""Length of a window that is kept: a report's time is honoured to the minute, and a busy engine has four rows in it."""

Keep = Callable[[Stretch], None]
"""Who keeps a window that is over."""


def nowhere(stretch: Stretch) -> None:
    """Windows are not kept: there is no store."""


class Windows:
    """One engine's windows.

    State: our sums, the snapshots of the sliding window, and the one with which the window to keep began.
    """

    def __init__(self, engine: str, keep: Keep) -> None:
        self._engine = engine
        self._keep = keep
        self._ours = Ours()
        self._seen: deque[Snapshot] = deque()
        self._begun: Snapshot | None = None

    def add(self, record: RequestRecord) -> None:
        """One record of this engine."""
        self._ours.add(record)

    def see(self, gauges: Gauges, now_ns: int, at_s: float) -> None:
        """The engine's own figures, now. One whose counters fell was restarted: its windows begin anew."""
        snapshot = Snapshot(now_ns, at_s, gauges, self._ours.copy())
        if self._seen and gauges.totals and not compare(self._seen[-1], snapshot):
            self.close()
            self._seen.clear()
            self._begun = None
        self._seen.append(snapshot)
        while self._seen[0].at_ns < now_ns - WINDOW_NS:
            self._seen.popleft()
        if self._begun is None:
            self._begun = snapshot
        elif now_ns - self._begun.at_ns >= KEPT_NS:
            self.close()

    def close(self) -> None:
        """The window to keep is over; the next one begins where it ends."""
        if self._begun is not None:
            for stretch in stretches(self._engine, self._begun, self._seen[-1]):
                self._keep(stretch)
            self._begun = self._seen[-1]

    @property
    def latest(self) -> Gauges | None:
        """The engine's figures, as it said them last."""
        return self._seen[-1].gauges if self._seen else None

    @property
    def compared(self) -> dict[str, Compared]:
        """Its means beside ours over the sliding window."""
        return compare(self._seen[0], self._seen[-1]) if self._seen else {}

    @property
    def contradicted(self) -> bool:
        """It counted more prefix hits over the sliding window than its prompts explain."""
        return bool(self._seen) and cache_contradicted(self._seen[0], self._seen[-1])
