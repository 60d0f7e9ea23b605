"""What all exporters have in common."""

from typing import Protocol

from proxy.records import RequestRecord


class Exporter(Protocol):
    """Takes records and brings them somewhere. What it loses it counts; the office guards against what it raises."""

    def export(self, record: RequestRecord) -> None:
        """Takes one record; quick, for it may only buffer."""
        ...

    def tick(self, now_ns: int) -> None:
        """About twice a second: writes what is buffered."""
        ...

    def reopen(self) -> None:
        """Opens its file anew (SIGHUP, log rotation)."""
        ...

    def close(self) -> None:
        """Writes what is left and lets go."""
        ...

    @property
    def lost(self) -> int:
        """Records that could not be brought where they belong, since start."""
        ...

    @property
    def unwritten(self) -> int:
        """Records that are not yet where they belong: lost, should the office be killed now."""
        ...


class InMemory:
    """What an exporter does that has no file, buffers nothing and loses nothing."""

    unwritten = 0

    @property
    def lost(self) -> int:
        """None."""
        return 0

    def tick(self, now_ns: int) -> None:
        """Nothing is buffered."""

    def reopen(self) -> None:
        """There is no file."""

    def close(self) -> None:
        """There is no file."""
