"""Looks at the engines' own metrics, and holds their means against ours.

Advisory only: an engine that answers late or not at all costs a look, never a request. (llama.cpp answers from its
inference loop, so during a long batch it is late.)
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from typing import Any

from proxy.engines.gauges import KINDS, TARGET, read
from proxy.messages import EngineState
from proxy.office.reconcile import Compared, Ours, Snapshot, cache_contradicted, compare
from proxy.records import RequestRecord

WINDOW_NS = 300_000_000_000
"""Means are taken over so long: enough requests, and one preemption is still seen."""

Fetch = Callable[[str, str], Awaitable[bytes | None]]
"""Engine's name and target -> body of a 200, in bounded time; None for anything else."""


class Scraper:
    """The engines' figures, and ours beside them. An exporter, for it is given every record.

    State: our sums, and the snapshots of the window, by engine.
    """

    lost = 0
    """Nothing is lost here."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._ours: dict[str, Ours] = {}
        self._seen: dict[str, deque[Snapshot]] = {}

    async def look(self, engines: Iterable[EngineState], now_ns: int) -> None:
        """One look at every engine that answers, all at once."""
        asked = [engine.name for engine in engines if engine.answers and engine.kind in KINDS]
        pages = await asyncio.gather(*(self._fetch(name, TARGET) for name in asked))
        for name, page in zip(asked, pages, strict=True):
            if page is not None:
                self.see(name, page, now_ns)

    def see(self, engine: str, page: bytes, now_ns: int) -> None:
        """One page of metrics. An engine whose counters fell was restarted: its window begins anew."""
        snapshots = self._seen.setdefault(engine, deque())
        snapshot = Snapshot(now_ns, read(page.decode("utf-8", "replace")), self._sums(engine).copy())
        if snapshots and not compare(snapshots[-1], snapshot) and snapshot.gauges.totals:
            snapshots.clear()
        snapshots.append(snapshot)
        while snapshots[0].at_ns < now_ns - WINDOW_NS:
            snapshots.popleft()

    def details(self, engine: str) -> dict[str, Any]:
        """What `/api/engines` shows of an engine beside what the data process sees; empty before the first look."""
        snapshots = self._seen.get(engine)
        if not snapshots:
            return {}
        gauges = asdict(snapshots[-1].gauges)
        del gauges["totals"]
        means = {name: asdict(compared) for name, compared in self._compared(engine).items()}
        return {"gauges": gauges, "means": means, "findings": self.findings(engine)}

    def findings(self, engine: str) -> list[str]:
        """`means_apart.NAME` for each mean that differs, and `cache_contradicted`."""
        snapshots = self._seen.get(engine)
        if not snapshots:
            return []
        apart = [f"means_apart.{name}" for name, compared in self._compared(engine).items() if compared.apart]
        return apart + ["cache_contradicted"] * cache_contradicted(snapshots[0], snapshots[-1])

    def export(self, record: RequestRecord) -> None:
        """Adds one record to our sums."""
        self._sums(record.finished.engine).add(record)

    def tick(self, now_ns: int) -> None:
        """Nothing to write."""

    def reopen(self) -> None:
        """No file."""

    def close(self) -> None:
        """Nothing to let go."""

    def _sums(self, engine: str) -> Ours:
        return self._ours.setdefault(engine, Ours())

    def _compared(self, engine: str) -> dict[str, Compared]:
        snapshots = self._seen[engine]
        return compare(snapshots[0], snapshots[-1])
