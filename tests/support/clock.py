"""Time that stands still while work is done, and jumps to the next due moment when nothing is left to do.

One instant has three ranks, in this order: what an engine sends (ENGINE), what the code under test waits for (its own
timers, asyncio's), what a client does (CLIENT, then LEAVE). Between two moments the loop runs until nothing is ready,
so a limit that is due with an engine's byte sees the byte handled.
"""

import asyncio
import heapq
import itertools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

WALL, ENGINE, TIMER, CLIENT, LEAVE = range(5)
"""Ranks of moments that fall on the same nanosecond. TIMER is asyncio's own."""

START_NS = 1_000_000_000_000
"""Where a manual clock begins: not zero, so that a test sees a moment taken for an absence."""
EPOCH_S = 1_790_000_000.0

_BEHIND_NS = 300
"""While a moment before TIMER is handled, loop.time() is this far behind, so that timers of the instant stay asleep."""
_DUE_S = 100e-9
"""A timer that is due within this counts as due: more than the float error of loop.time() up to 10^8 s."""
_REAL_WAIT_S = 10.0
"""How long an idle loop waits for a thread of the code under test before it calls a deadlock."""


class ManualClock:
    """A clock that moves only when told to; satisfies `proxy.clock.Clock`."""

    def __init__(self, now_ns: int = START_NS, wall_s: float = EPOCH_S) -> None:
        self._now_ns = now_ns
        self._wall_offset_s = wall_s - now_ns / 1e9

    def now_ns(self) -> int:
        return self._now_ns

    def wall_s(self) -> float:
        return self._now_ns / 1e9 + self._wall_offset_s

    def advance(self, ns: int) -> int:
        """Move both clocks on; returns the new time."""
        self._now_ns += ns
        return self._now_ns

    def jump_wall(self, by_s: float) -> None:
        """Move the wall clock alone, as an operator or a time server does."""
        self._wall_offset_s += by_s


class Deadlock(RuntimeError):
    """Nothing is left to do, no moment is due, and somebody still waits."""


class Moment:
    """Something that is due at a time; `cancel` takes it off the agenda."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self.action: Callable[[], object] | None = action

    def cancel(self) -> None:
        self.action = None


class _Jumping(selectors.SelectSelector):
    """A selector that waits for nothing: where a real one would sleep, it makes the loop jump."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return []
        if len(self.get_map()) > 1:
            raise RuntimeError("virtual time has no sockets: only the loop's own wake-up pipe may be watched")
        if self.loop.jump():
            return []
        events = super().select(_REAL_WAIT_S)
        if not events:
            raise Deadlock(f"nothing is due, and these wait: {sorted(map(str, asyncio.all_tasks(self.loop)))}")
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. `clock` is its time, exact to the nanosecond.

    Timers of asyncio (`sleep`, `timeout`, `call_at`) are due on whole microseconds. Work given to an executor runs at
    once and takes no time. Real sockets are refused.
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        # All state: the clock, the agenda [(ns, rank, sequence, moment)], and whether time() is held behind.
        self.clock = clock or ManualClock()
        self._agenda: list[tuple[int, int, int, Moment]] = []
        self._sequence = itertools.count()
        self._behind_ns = 0
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = _DUE_S

    def time(self) -> float:
        return (self.clock.now_ns() - self._behind_ns) / 1e9

    def at(self, when_ns: int, rank: int, action: Callable[[], object]) -> Moment:
        """Do something at a time; what is past is due now."""
        moment = Moment(action)
        heapq.heappush(self._agenda, (max(when_ns, self.clock.now_ns()), rank, next(self._sequence), moment))
        return moment

    async def until(self, when_ns: int, rank: int) -> None:
        """Wait for a time; returns at once if it is past."""
        if when_ns < self.clock.now_ns():
            return
        reached: asyncio.Future[None] = self.create_future()
        moment = self.at(when_ns, rank, lambda: reached.set_result(None))
        try:
            await reached
        finally:
            moment.cancel()

    def jump(self) -> bool:
        """Go to the next due moment and do what is due; False if there is none."""
        while self._agenda and self._agenda[0][3].action is None:
            heapq.heappop(self._agenda)
        timer_ns = self._next_timer_ns()
        if self._agenda and (timer_ns is None or self._agenda[0][:2] < (timer_ns, TIMER)):
            when_ns, rank, _, moment = heapq.heappop(self._agenda)
            self._reach(when_ns, _BEHIND_NS if rank < TIMER else 0)
            assert moment.action is not None
            moment.action()
            return True
        if timer_ns is not None:
            self._reach(timer_ns, 0)
        return timer_ns is not None

    def _reach(self, when_ns: int, behind_ns: int) -> None:
        self.clock.advance(max(0, when_ns - self.clock.now_ns()))
        self._behind_ns = behind_ns

    def _next_timer_ns(self) -> int | None:
        """The next timer of asyncio, on the whole microsecond that it is due."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # asyncio's own heap
        if not timers:
            return None
        when_ns = round(timers[0].when() * 1e9) - 50
        return max(-(-when_ns // 1000) * 1000, self.clock.now_ns())

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run it here and now: a thread's work takes no virtual time."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:  # whatever it is, it belongs to the one who waits
            future.set_exception(error)
        return future


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], clock: ManualClock | None = None) -> T:
    """Run a coroutine function on a fresh virtual loop, cancel what it left behind, and close the loop."""
    loop = VirtualLoop(clock)
    asyncio.set_event_loop(None)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        _close(loop)


def _close(loop: VirtualLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
