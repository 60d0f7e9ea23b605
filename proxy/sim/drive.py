"""A machine against a clock: jobs go in, tokens come out when they are due."""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from proxy.clock import Clock
from proxy.sim.jobs import Job, Step, Steppable, Token, Truth

Heard = Token | Truth
"""What a client of the machine hears: tokens, then the truth."""


class Drive:
    """Runs one machine. State: the steps whose tokens have not left yet, and who listens.

    The machine's time is exact: a late wake-up delays tokens, never the schedule.
    """

    def __init__(self, machine: Steppable, clock: Clock, seen: Callable[[Step], None] = lambda step: None) -> None:
        self._machine, self._clock, self._seen = machine, clock, seen
        self._origin = clock.now_ns()
        self._order = count()
        self._leaving: list[tuple[int, int, Step]] = []
        self._listeners: dict[str, asyncio.Queue[Heard]] = {}
        self._woken = asyncio.Event()

    def now(self) -> int:
        """The machine's time."""
        return self._clock.now_ns() - self._origin

    async def run(self) -> None:
        """Step and deliver until cancelled."""
        while True:
            self._woken.clear()
            wait_ns = self._catch_up(self.now())
            await self._sleep(wait_ns)

    @contextmanager
    def hearing(self, jobs: Sequence[Job]) -> Iterator[asyncio.Queue[Heard]]:
        """Hand in `jobs` now; what they hear comes in one queue, for each its tokens and then its truth.

        Raises what the machine's `submit` raises. Jobs that have not ended when the block is left are aborted.
        """
        queue: asyncio.Queue[Heard] = asyncio.Queue()
        try:
            for job in jobs:
                self._machine.submit(self.now(), job)
                self._listeners[job.id] = queue
            self._woken.set()
            yield queue
        finally:
            for job in jobs:
                if self._listeners.pop(job.id, None) is not None:
                    self._machine.abort(self.now(), job.id)
            self._woken.set()

    def _catch_up(self, now: int) -> int | None:
        """Do all that is due; nanoseconds until more is, None: not before new work."""
        while (due := self._machine.due()) is not None and due <= now:
            step = self._machine.step(due)
            if step is not None:
                heapq.heappush(self._leaving, (step.end_ns, next(self._order), step))
        while self._leaving and self._leaving[0][0] <= now:
            self._deliver(heapq.heappop(self._leaving)[2])
        moments = [*(entry[0] for entry in self._leaving[:1]), *([due] if due is not None else [])]
        return min(moments) - now if moments else None

    def _deliver(self, step: Step) -> None:
        self._seen(step)
        for token in step.tokens:
            if token.id in self._listeners:
                self._listeners[token.id].put_nowait(token)
        for truth in step.ended:
            if truth.id in self._listeners:
                self._listeners.pop(truth.id).put_nowait(truth)

    async def _sleep(self, wait_ns: int | None) -> None:
        timeout = None if wait_ns is None else wait_ns / 1e9
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            return
