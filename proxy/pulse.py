"""The pulse of the data process: once a second, its state to the office; twenty times, how late its loop is."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace

from proxy.clock import Clock
from proxy.messages import Message, Pulse

LOOKS = 20
"""Looks at the loop's lateness per pulse: a stall of 50 ms is always seen, and each look costs microseconds."""
LOOK_NS = 50_000_000


async def beat(clock: Clock, state: Callable[[], Pulse], send: Callable[[Message], None]) -> None:
    """Sends a pulse a second, for ever. `state` gives all of it but the lateness."""
    while True:
        lags = [await _lateness_ns(clock) for _ in range(LOOKS)]
        send(replace(state(), lag_ns=tuple(lags)))


def memory_bytes() -> int | None:
    """Resident memory of this process; None where the system does not tell (only Linux does so cheaply)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


async def _lateness_ns(clock: Clock) -> int:
    due = clock.now_ns() + LOOK_NS
    await asyncio.sleep(LOOK_NS / 1e9)
    return max(0, clock.now_ns() - due)
