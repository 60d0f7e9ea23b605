"""The only reader of clocks.

Everything else is given a `Clock`, or gets time as an argument. Durations come from the monotonic clock in integer
nanoseconds; the wall clock serves only to stamp a record, for it can jump.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What the product needs of time."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds; only differences have a meaning."""
        ...

    def wall_s(self) -> float:
        """Seconds since the epoch; for stamps, never for durations."""
        ...


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    now_ns = staticmethod(time.monotonic_ns)
    wall_s = staticmethod(time.time)
