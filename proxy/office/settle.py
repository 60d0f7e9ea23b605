"""The settling room: a finished exchange waits here until all the evidence that its engine gives is in.

Evidence in the body comes with the exchange itself: it settles at once. Evidence that comes by another way (spans) is
waited for, LIMIT_NS at most. What comes later is counted, never applied: a record is published once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from proxy.records import EngineReport, Finished

LIMIT_NS = 6_000_000_000
"""A span exporter's batch leaves every 5 s by default (OTEL_BSP_SCHEDULE_DELAY); one second for the way."""

Sources = frozenset[str]


def body_only(finished: Finished) -> Sources:
    """Nothing comes later than the body: the answer for engines without spans."""
    return frozenset()


@dataclass(slots=True)
class _Waiting:
    finished: Finished
    missing: Sources
    until_ns: int


class SettlingRoom:
    """Exchanges that have ended and are not yet published.

    State: who waits, in the order of arrival (so the first is always the next that is due), and evidence come too late.
    """

    def __init__(self, sources: Callable[[Finished], Sources] = body_only, limit_ns: int = LIMIT_NS) -> None:
        self._sources = sources
        self._limit_ns = limit_ns
        self._waiting: dict[str, _Waiting] = {}
        self.late = 0
        """Evidence for an exchange that was published before, or is not known."""

    def __len__(self) -> int:
        return len(self._waiting)

    def arrive(self, finished: Finished, now_ns: int) -> list[Finished]:
        """What is settled now: the exchange itself where nothing more is to come."""
        missing = self._sources(finished)
        if not missing or finished.id in self._waiting:
            return [finished]
        self._waiting[finished.id] = _Waiting(finished, missing, now_ns + self._limit_ns)
        return []

    def evidence(self, id: str, source: str, report: EngineReport) -> list[Finished]:
        """Late evidence for one exchange; what is settled by it."""
        waiting = self._waiting.get(id)
        if waiting is None or source not in waiting.missing:
            self.late += 1
            return []
        waiting.finished = waiting.finished._replace(report=report)
        waiting.missing -= {source}
        return [] if waiting.missing else [self._waiting.pop(id).finished]

    def due(self, now_ns: int) -> list[Finished]:
        """Exchanges that have waited long enough."""
        ripe = [id for id, waiting in self._waiting.items() if waiting.until_ns <= now_ns]
        return [self._waiting.pop(id).finished for id in ripe]

    def empty(self) -> list[Finished]:
        """Everybody out: the office closes."""
        everyone = [waiting.finished for waiting in self._waiting.values()]
        self._waiting.clear()
        return everyone
