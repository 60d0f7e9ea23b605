"""The bill: an exchange's total, and what is left of it to be explained."""

from proxy.records import PHASES, Class, Finished, Phase

_ORDER = {name: place for place, name in enumerate(PHASES)}


class Bill:
    """Splits a total into phases that sum to it to the nanosecond, none negative.

    Opens with what our own clock knows at both ends: admission and proxy. What nobody claims is `unattributed`.
    """

    # State: the phases so far by name, and the nanoseconds that are not explained yet.
    __slots__ = ("_phases", "left")

    def __init__(self, finished: Finished) -> None:
        line = finished.timeline
        self._phases: dict[str, Phase] = {}
        self.left = max(line.total_ns, 0)
        self.take("admission", line.admission_ns or None, Class.MEASURED, "clock", 0)
        dispatched = line.total_ns if line.dispatched_ns is None else line.dispatched_ns
        self.take("proxy", dispatched - line.admission_ns, Class.MEASURED, "clock", 0)

    def take(self, name: str, ns: int | None, klass: Class, source: str, error_ns: int | None = None) -> None:
        """Give `ns` to a phase, at most what is left. None is no phase; a zero is one only where it was measured.
        Raises ValueError for a phase that is there already: its time would be lost."""
        if ns is None or (ns <= 0 and klass is not Class.MEASURED):
            return
        if name in self._phases:
            raise ValueError(f"{name} is taken twice")
        ns = min(max(ns, 0), self.left)
        self.left -= ns
        self._phases[name] = Phase(name, ns, klass, source, error_ns)

    def close(self) -> tuple[Phase, ...]:
        """All phases in the order of life."""
        self.take("unattributed", self.left, Class.UNKNOWN, "clock")
        return tuple(sorted(self._phases.values(), key=lambda phase: _ORDER[phase.name]))
