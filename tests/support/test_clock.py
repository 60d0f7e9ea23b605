"""The virtual loop: time is exact, and one instant has an order."""

import asyncio

import pytest

from tests.support.clock import CLIENT, ENGINE, START_NS, Deadlock, ManualClock, VirtualLoop, run

S = 1_000_000_000


def test_sleeping_takes_no_time_and_is_exact() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        seen = []
        for seconds in (0.1, 0.2, 3600, 620.7):
            await asyncio.sleep(seconds)
            seen.append(loop.clock.now_ns() - START_NS)
        return seen

    assert run(main) == [100_000_000, 300_000_000, 3600_300_000_000, 4221 * S]


def test_on_one_instant_the_engine_comes_first_then_a_limit_then_the_client() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        seen: list[str] = []
        due = loop.clock.now_ns() + S
        loop.at(due, CLIENT, lambda: seen.append("client"))
        loop.call_later(1.0, seen.append, "limit")
        loop.at(due, ENGINE, lambda: loop.call_soon(seen.append, "engine"))
        await asyncio.sleep(2)
        return seen

    assert run(main) == ["engine", "limit", "client"]


def test_a_byte_that_comes_with_its_limit_beats_it() -> None:
    async def main(loop: VirtualLoop) -> str:
        async with asyncio.timeout(1.0):
            await loop.until(loop.clock.now_ns() + S, ENGINE)
            return "read"

    assert run(main) == "read"


def test_a_limit_set_while_a_byte_is_handled_is_not_early() -> None:
    async def main(loop: VirtualLoop) -> int:
        await loop.until(loop.clock.now_ns() + S, ENGINE)
        await asyncio.sleep(30)
        return loop.clock.now_ns() - START_NS

    assert run(main) == 31 * S


def test_moments_that_were_cancelled_do_not_come() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        seen: list[str] = []
        loop.at(loop.clock.now_ns() + 1, ENGINE, lambda: seen.append("never")).cancel()
        await asyncio.sleep(1)
        return seen

    assert run(main) == []


def test_the_wall_clock_jumps_alone() -> None:
    clock = ManualClock(wall_s=1000.0)
    clock.advance(2 * S)
    clock.jump_wall(-5)
    assert clock.now_ns() - START_NS == 2 * S
    assert clock.wall_s() == pytest.approx(997.0)


def test_work_for_a_thread_is_done_at_once() -> None:
    async def main(loop: VirtualLoop) -> tuple[int, int]:
        return await asyncio.to_thread(len, "abc"), loop.clock.now_ns() - START_NS

    assert run(main) == (3, 0)


def test_waiting_for_nothing_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.clock._REAL_WAIT_S", 0.01)

    async def main(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        run(main)
