"""Looks at the engines' own metrics, and holds their means against ours.

Advisory only: an engine that answers late or not at all costs a look, never a request. (llama.cpp answers from its
inference loop, so during a long batch it is late.)
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from typing import Any

from proxy.engines.gauges import KINDS, TARGET, read
from proxy.messages import EngineState
from proxy.office.windows import Keep, Windows, nowhere
from proxy.records import RequestRecord

Fetch = Callable[[str, str], Awaitable[bytes | None]]
"""Engine's name and target -> body of a 200, in bounded time; None for anything else."""


class Scraper:
    """The engines' figures, and ours beside them. An exporter, for it is given every record.

    State: the windows of each engine.
    """

    lost = 0
    """Nothing is lost here."""

    def __init__(self, fetch: Fetch, keep: Keep = nowhere) -> None:
        self._fetch = fetch
        self._keep = keep
        self._engines: dict[str, Windows] = {}

    async def look(self, engines: Iterable[EngineState], now_ns: int, at_s: float) -> None:
        """One look at every engine that answers, all at once. `at_s`: the same moment by the wall clock."""
        asked = [engine.name for engine in engines if engine.answers and engine.kind in KINDS]
        pages = await asyncio.gather(*(self._fetch(name, TARGET) for name in asked))
        for name, page in zip(asked, pages, strict=True):
            if page is not None:
                self.see(name, page, now_ns, at_s)

    def see(self, engine: str, page: bytes, now_ns: int, at_s: float) -> None:
        """One page of metrics."""
        self._windows(engine).see(read(page.decode("utf-8", "replace")), now_ns, at_s)

    def details(self, engine: str) -> dict[str, Any]:
        """What `/api/engines` shows of an engine beside what the data process sees; empty before the first look."""
        windows = self._windows(engine)
        if windows.latest is None:
            return {}
        gauges = asdict(windows.latest)
        del gauges["totals"]
        means = {name: {**asdict(mean), "apart": mean.apart} for name, mean in windows.compared.items()}
        return {"gauges": gauges, "means": means, "findings": self.findings(engine)}

    def findings(self, engine: str) -> list[str]:
        """`means_apart.NAME` for each mean that differs, and `cache_contradicted`."""
        windows = self._windows(engine)
        apart = [f"means_apart.{name}" for name, mean in windows.compared.items() if mean.apart]
        return apart + ["cache_contradicted"] * windows.contradicted

    def export(self, record: RequestRecord) -> None:
        """Adds one record to our sums."""
        self._windows(record.finished.engine).add(record)

    def tick(self, now_ns: int) -> None:
        """Nothing to write."""

    def reopen(self) -> None:
        """No file."""

    def close(self) -> None:
        """Ends the windows that are kept."""
        for windows in self._engines.values():
            windows.close()

    def _windows(self, engine: str) -> Windows:
        return self._engines.setdefault(engine, Windows(engine, self._keep))
