"""What ends an exchange from outside: one reason, the first, and to the nanosecond."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from proxy.errors import BodyTimeout, ClientGone, Draining, EngineStalled, EngineTimeout, ProxyError
from proxy.guard import Guard
from tests.support.clock import ENGINE, START_NS, VirtualLoop, run

S = 1_000_000_000

Ended = tuple[ProxyError | None, int | None]


def guarded(work: Callable[[VirtualLoop, Guard], Awaitable[None]]) -> Ended:
    """Why this work was cancelled and after how many nanoseconds; None, None: it was not."""

    async def main(loop: VirtualLoop) -> Ended:
        guard: Guard | None = None

        async def exchange() -> None:
            nonlocal guard
            guard = Guard(loop.clock.now_ns)
            await work(loop, guard)

        try:
            await asyncio.create_task(exchange())
        except asyncio.CancelledError:
            assert guard is not None
            return guard.reason, loop.clock.now_ns() - START_NS
        return None, None

    return run(main)


def test_the_first_reason_wins_and_cancels_once() -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.cancel(ClientGone("left"))
        guard.cancel(Draining("too late"))
        await asyncio.sleep(1)

    reason, at_ns = guarded(work)
    assert (type(reason), at_ns) == (ClientGone, 0)


@pytest.mark.parametrize("arm", [Guard.first_byte, Guard.total], ids=["first_byte", "total"])
def test_a_limit_fires_at_its_nanosecond_and_names_its_setting(arm: Callable[[Guard, float], None]) -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        arm(guard, 2.5)
        await asyncio.sleep(100)

    reason, at_ns = guarded(work)
    assert (type(reason), at_ns) == (EngineTimeout, 2_500_000_000)
    assert f"timeouts.{arm.__name__}_s" in str(reason)
    assert "2.5 s" in str(reason)


@pytest.mark.parametrize("arm", [Guard.first_byte, Guard.total, Guard.idle])
def test_no_limit_never_fires(arm: Callable[[Guard, float], None]) -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        arm(guard, 0)
        await asyncio.sleep(1e6)

    assert guarded(work) == (None, None)


def test_a_head_in_time_meets_the_first_byte_limit_and_no_other() -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.first_byte(2)
        guard.total(5)
        await asyncio.sleep(1)
        guard.head()
        guard.head()
        await asyncio.sleep(100)

    reason, at_ns = guarded(work)
    assert (type(reason), at_ns) == (EngineTimeout, 5 * S)


def test_every_read_moves_the_idle_limit() -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.idle(2)
        for at_s in (1.5, 3.4, 5.399999999):
            await loop.until(START_NS + round(at_s * S), ENGINE)
            guard.heard_ns = loop.clock.now_ns()
        await asyncio.sleep(100)

    reason, at_ns = guarded(work)
    assert isinstance(reason, EngineStalled)
    assert "timeouts.idle_s" in str(reason)
    assert at_ns == pytest.approx(7_399_999_999, abs=2_000)


def test_a_read_on_the_limits_own_nanosecond_counts() -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.idle(2)
        await loop.until(START_NS + 2 * S, ENGINE)
        guard.heard_ns = loop.clock.now_ns()
        await asyncio.sleep(1)

    assert guarded(work) == (None, None)


@pytest.mark.parametrize(
    ("first_s", "idle_s", "ends_s", "reason"),
    [(10, 2, 10, EngineTimeout), (3, 5, 6, EngineStalled), (0, 2, 3, EngineStalled), (10, 0, None, type(None))],
)
def test_between_head_and_first_byte_the_longer_limit_holds(
    first_s: float, idle_s: float, ends_s: float | None, reason: type[object]
) -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.first_byte(first_s)
        await loop.until(START_NS + S, ENGINE)
        guard.head()
        guard.idle(idle_s)
        guard.headed()
        await asyncio.sleep(100)

    found, at_ns = guarded(work)
    assert isinstance(found, reason)
    assert at_ns == (None if ends_s is None else pytest.approx(ends_s * S, abs=2_000))
    if reason is EngineTimeout:
        assert "timeouts.first_byte_s" in str(found)


def test_after_the_first_byte_silence_is_measured_as_ever() -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.first_byte(10)
        guard.head()
        guard.idle(2)
        guard.headed()
        await loop.until(START_NS + 7 * S, ENGINE)
        guard.heard_ns = loop.clock.now_ns()
        await asyncio.sleep(100)

    reason, at_ns = guarded(work)
    assert isinstance(reason, EngineStalled)
    assert at_ns == pytest.approx(9 * S, abs=2_000)


def test_silence_while_the_client_is_sent_to_is_the_clients() -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.idle(2)
        guard.sending = True
        await asyncio.sleep(100)

    reason, at_ns = guarded(work)
    assert (type(reason), at_ns) == (ClientGone, 2 * S)


def test_a_body_that_does_not_go_on_is_the_clients_and_each_piece_moves_the_limit() -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.body(2)
        await loop.until(START_NS + S, ENGINE)
        guard.heard()
        await asyncio.sleep(100)

    reason, at_ns = guarded(work)
    assert isinstance(reason, BodyTimeout)
    assert "timeouts.body_s" in str(reason)
    assert at_ns == pytest.approx(3 * S, abs=2_000)


def test_a_body_that_has_arrived_is_waited_for_no_more() -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.body(2)
        guard.arrived()
        await asyncio.sleep(100)

    assert guarded(work)[0] is None


def test_after_close_nothing_cancels_any_more() -> None:
    async def work(loop: VirtualLoop, guard: Guard) -> None:
        guard.first_byte(1)
        guard.total(1)
        guard.idle(1)
        guard.close()
        guard.cancel(Draining("too late"))
        await asyncio.sleep(100)
        assert guard.reason is not None

    assert guarded(work) == (None, None)


def test_close_keeps_the_reason_that_there_was() -> None:
    async def main(loop: VirtualLoop) -> ProxyError | None:
        guard = Guard(loop.clock.now_ns)
        guard.reason = gone = ClientGone("left")
        guard.close()
        assert guard.reason is gone
        return guard.reason

    assert isinstance(run(main), ClientGone)
