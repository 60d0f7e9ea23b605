"""Lines at rest. (tests/socket/test_wire.py has real ones.)"""

import asyncio

from proxy.idle import IDLE_S, Idle
from tests.support.clock import VirtualLoop, run


class Rests:
    """A line, as far as it matters here."""

    def __init__(self, good: bool = True) -> None:
        self.good, self.closed, self.spoke = good, False, False

    def usable(self) -> bool:
        return self.good

    def quiet(self) -> bool:
        return self.good and not self.spoke

    def close(self) -> None:
        self.closed = True


def test_each_line_is_closed_when_its_own_time_is_over() -> None:
    async def main(loop: VirtualLoop) -> None:
        idle, early, late = Idle(), Rests(), Rests()
        idle.park(early)  # type: ignore[arg-type]
        await asyncio.sleep(IDLE_S / 2)
        idle.park(late)  # type: ignore[arg-type]
        await asyncio.sleep(IDLE_S / 2 + 0.01)
        assert (early.closed, late.closed) == (True, False)
        await asyncio.sleep(IDLE_S / 2)
        assert late.closed
        assert idle.take() is None

    run(main)


def test_the_line_that_was_used_last_is_taken_first_and_one_that_is_no_good_never() -> None:
    async def main(loop: VirtualLoop) -> None:
        idle, first, second, bad = Idle(), Rests(), Rests(), Rests(good=False)
        for line in (first, second, bad):
            idle.park(line)  # type: ignore[arg-type]
        assert bad.closed
        assert idle.take() is second
        first.spoke = True  # while it rested
        assert idle.take() is None
        assert first.closed
        await asyncio.sleep(2 * IDLE_S)
        assert not second.closed  # who took it, has it

    run(main)


def test_closing_closes_all() -> None:
    async def main(loop: VirtualLoop) -> None:
        idle, lines = Idle(), [Rests(), Rests()]
        for line in lines:
            idle.park(line)  # type: ignore[arg-type]
        idle.close()
        assert all(line.closed for line in lines)

    run(main)
