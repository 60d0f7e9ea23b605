"""The one reader of clocks."""

import datetime

from proxy.clock import Clock, SystemClock


def test_monotonic_time_never_falls_and_is_in_nanoseconds() -> None:
    clock: Clock = SystemClock()
    times = [clock.now_ns() for _ in range(1000)]
    assert times == sorted(times)
    assert all(isinstance(time, int) for time in times)
    assert times[-1] - times[0] < 60_000_000_000


def test_the_wall_clock_is_the_date() -> None:
    now = datetime.datetime.now(datetime.UTC).timestamp()
    assert abs(SystemClock().wall_s() - now) < 60
