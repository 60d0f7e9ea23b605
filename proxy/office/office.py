"""The middle of the office: a message comes in, a record goes out, once.

    Finished -> settling room -> attribution -> findings -> RequestRecord -> every exporter, and the ring of recent ones

Usable in the data process too (tests, demo): nothing here blocks, and time is an argument.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import structlog

from proxy.attribution.findings import findings
from proxy.exporters.exporter import Exporter
from proxy.messages import Message, Pulse
from proxy.office.settle import SettlingRoom
from proxy.records import Class, EngineReport, Finished, Phase, PhaseBreakdown, RequestRecord

KEEP = 1000
"""Recent records for `/api/requests`: some 2 MB."""

SILENT_NS = 10_000_000_000
"""Ten pulses."""

NOTHING: Mapping[str, int] = {}

Result = TypeVar("Result")

log = structlog.get_logger("phasegate.office")


class Office:
    """Settles, attributes, publishes.

    State: the settling room, recent records, the last pulse and when it came, and the failures of each exporter.
    """

    def __init__(
        self,
        attribute: Callable[[Finished], PhaseBreakdown],
        exporters: Mapping[str, Exporter],
        *,
        keep: int = KEEP,
        room: SettlingRoom | None = None,
        pulsed: Callable[[Pulse], None] = lambda pulse: None,
        former: Mapping[str, int] = NOTHING,
    ) -> None:
        self._attribute = attribute
        self._exporters = dict(exporters)
        self._room = SettlingRoom() if room is None else room
        self._former = former
        self._recent: deque[RequestRecord] = deque(maxlen=keep)
        self._pulsed = pulsed
        self.pulse = Pulse(at_s=0.0)
        """The last state of the data process."""
        self._heard_ns = 0
        self.silent = False
        """No pulse for SILENT_NS: the data process' loop hangs."""
        self.failures: Counter[str] = Counter()
        """Exceptions by name of the exporter (or `attribution`) that raised them."""

    def take(self, message: Message, now_ns: int) -> None:
        """One message from the data process."""
        if isinstance(message, Finished):
            self._publish(self._room.arrive(message, now_ns))
        elif isinstance(message, Pulse):
            self.pulse, self._heard_ns, self.silent = message, now_ns, False
            self.guarded("pulse", self._pulsed, message)

    def evidence(self, id: str, source: str, report: EngineReport) -> None:
        """Late evidence for an exchange (a span)."""
        self._publish(self._room.evidence(id, source, report))

    def tick(self, now_ns: int) -> None:
        """Now and then: publishes who has waited long enough, lets exporters write."""
        self.silent = now_ns - self._heard_ns > SILENT_NS
        self._publish(self._room.due(now_ns))
        for name, exporter in self._exporters.items():
            self.guarded(name, exporter.tick, now_ns)

    def reopen(self) -> None:
        """Exporters open their files anew."""
        for name, exporter in self._exporters.items():
            self.guarded(name, exporter.reopen)

    def close(self) -> None:
        """Publishes all that waits, then closes the exporters."""
        self._publish(self._room.empty())
        for name, exporter in self._exporters.items():
            self.guarded(name, exporter.close)

    def records(self) -> Iterator[RequestRecord]:
        """Recent records, newest first."""
        return reversed(self._recent)

    def lost(self) -> dict[str, int]:
        """Records lost, by who lost them: each exporter (killed offices included), and `channel` on the way."""
        own = {name: exporter.lost + self._former.get(name, 0) for name, exporter in self._exporters.items()}
        return {"channel": self.pulse.records_lost, **own}

    def owed(self) -> dict[str, int]:
        """Records that each exporter has lost, or would lose were the office killed now."""
        waiting = self.waiting().items()
        return {name: self._former.get(name, 0) + self._exporters[name].lost + left for name, left in waiting}

    def waiting(self) -> dict[str, int]:
        """Records that each exporter has yet to get, or to write."""
        return {name: len(self._room) + exporter.unwritten for name, exporter in self._exporters.items()}

    def _publish(self, settled: list[Finished]) -> None:
        for finished in settled:
            record = self._record(finished)
            self._recent.append(record)
            for name, exporter in self._exporters.items():
                self.guarded(name, exporter.export, record)

    def _record(self, finished: Finished) -> RequestRecord:
        breakdown = self.guarded("attribution", self._attribute, finished)
        if breakdown is None:  # our own bug: the time is real, its meaning is not known
            phase = Phase("unattributed", finished.timeline.total_ns, Class.UNKNOWN, "none")
            breakdown = PhaseBreakdown((phase,), findings=("attribution_failed",))
        return RequestRecord(finished, breakdown, findings(finished, breakdown))

    def guarded(self, name: str, work: Callable[..., Result], *arguments: object) -> Result | None:
        """Runs what must not take the office with it; None where it raised."""
        result = None
        with self.guarding(name):
            result = work(*arguments)
        return result

    @contextmanager
    def guarding(self, name: str) -> Iterator[None]:
        """For what must not take the office with it. The one broad except: whatever an exporter does, records and
        traffic go on, and the failure is counted and named."""
        try:
            yield
        except Exception as error:
            self.failures[name] += 1
            if self.failures[name] == 1:  # a full disk would fill the log too
                log.error("exporter_failed", exporter=name, error=type(error).__name__)
