"""Looks at what the engines tell of themselves, and holds their means against ours.

Advisory only: an engine that answers late or not at all costs a look, never a request. (llama.cpp answers from its
inference loop, so during a long batch it is late.) A page is bounded in bytes and time by `fetch`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from proxy.engines import inside
from proxy.engines.gauges import KINDS, TARGET, Gauges, read
from proxy.engines.inside import CALM, STIRRING, Inside
from proxy.exporters.exporter import InMemory
from proxy.messages import EngineState
from proxy.office.figures import Figures
from proxy.office.windows import Keep, Windows, nowhere
from proxy.records import RequestRecord

Fetch = Callable[[str, str], Awaitable[bytes | None]]
"""Engine's name and target -> body of a 200, in bounded time; None for anything else."""

NO_METRICS = Gauges(totals={})


@dataclass(slots=True)
class _Seen:
    """One engine. State: both parts."""

    windows: Windows
    figures: Figures = field(default_factory=Figures)


class Scraper(InMemory):
    """The engines' figures, and ours beside them. An exporter, for it is given every record.

    State: what was seen of each engine.
    """

    def __init__(self, fetch: Fetch, keep: Keep = nowhere) -> None:
        self._fetch = fetch
        self._keep = keep
        self._engines: dict[str, _Seen] = {}

    async def look(self, engines: Iterable[EngineState], now_ns: int, at_s: float) -> None:
        """One look at every engine that answers, all at once. `at_s`: the same moment by the wall clock."""
        await asyncio.gather(*(self._look(engine, now_ns, at_s) for engine in engines))

    async def _look(self, engine: EngineState, now_ns: int, at_s: float) -> None:
        """First what costs an engine nothing; what counts as work only where it does not keep it from its sleep."""
        figures = self._seen(engine.name).figures
        figures.of(engine.kind)
        if not engine.answers:
            figures.silent()
            return
        await self._calm(engine, figures)
        if figures.inside.sleeping:
            figures.slept()
        elif not figures.rests(engine.in_flight):
            figures.asked()
            also = [self._ask(engine.name, target) for target in STIRRING.get(engine.kind, ())]
            metrics = [self._metrics(engine.name, now_ns, at_s)] if engine.kind in KINDS else []
            await asyncio.gather(*also, *metrics)

    async def _calm(self, engine: EngineState, figures: Figures) -> None:
        """Of pages that stand for one another, the one that was answered before, else each until one is."""
        targets = CALM.get(engine.kind, ())
        for target in [target for target in targets if figures.said(target)] or targets:
            await self._ask(engine.name, target)
            if figures.said(target):
                break

    async def _ask(self, engine: str, target: str) -> None:
        body = await self._fetch(engine, target)
        self._seen(engine).figures.heard(target, None if body is None else inside.read(target, body))

    async def _metrics(self, engine: str, now_ns: int, at_s: float) -> None:
        page = await self._fetch(engine, TARGET)
        if page is not None:
            self.see(engine, page, now_ns, at_s)
        else:
            self._seen(engine).figures.heard(TARGET, None)

    def see(self, engine: str, page: bytes, now_ns: int, at_s: float) -> None:
        """One page of metrics."""
        seen, gauges = self._seen(engine), read(page.decode("utf-8", "replace"))
        seen.windows.see(gauges, now_ns, at_s)
        seen.figures.heard(TARGET, inside.of_metrics(gauges))

    def inside(self, engine: str) -> Inside:
        """What an engine says of its inside, as far as it said so lately."""
        return self._seen(engine).figures.inside

    def details(self, engine: str) -> dict[str, Any]:
        """What `/api/engines` shows of an engine beside what the data process sees: what it said lately, and its means.
        The keys are the same for every engine; what it does not say is None."""
        windows, now = self._seen(engine).windows, self.inside(engine)
        shown = {name: value for name, value in asdict(now).items() if value is not None}
        gauges = {name: shown.pop(name, None) for name in ("running", "waiting", "kv_usage")}
        said = asdict(replace(windows.latest or NO_METRICS, **gauges))
        del said["totals"]
        return {
            "gauges": said,
            "inside": shown,
            "means": {name: {**asdict(mean), "apart": mean.apart} for name, mean in windows.compared.items()},
            "findings": self.findings(engine),
        }

    def findings(self, engine: str) -> list[str]:
        """`means_apart.NAME` for each mean that differs, and `cache_contradicted`."""
        windows = self._seen(engine).windows
        apart = [f"means_apart.{name}" for name, mean in windows.compared.items() if mean.apart]
        return apart + ["cache_contradicted"] * windows.contradicted

    def export(self, record: RequestRecord) -> None:
        """Adds one record to our sums."""
        finished = record.finished
        seen = self._seen(finished.engine)
        seen.windows.add(record)
        if finished.facts.route == "inference" and finished.timeline.dispatched_ns is not None:
            seen.figures.stir()

    def close(self) -> None:
        """Ends the windows that are kept."""
        for seen in self._engines.values():
            seen.windows.close()

    def _seen(self, engine: str) -> _Seen:
        if engine not in self._engines:
            self._engines[engine] = _Seen(Windows(engine, self._keep))
        return self._engines[engine]
