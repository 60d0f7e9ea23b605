import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from proxy.sim.cost import Cost
from proxy.sim.drive import Drive, Heard
from proxy.sim.jobs import Job, Step, Token, Truth
from proxy.sim.machine import Limits, Machine
from proxy.sim.shelf import Shelf
from proxy.sim.slots import Runner
from tests.sim.asgi import HurriedClock
from tests.support.clock import run

FLAT = Cost(weights_s=0.01, token_s=0.0001)


def job(id: str, output: int = 3) -> Job:
    return Job(id, (1, 2, 3), (7,) * output)


def played(heard: Coroutine[Any, Any, list[Heard]]) -> list[Heard]:
    """What was heard, in virtual time."""
    return run(lambda loop: heard)


async def hear(drive: Drive, *jobs: Job, stop_after: int | None = None) -> list[Heard]:
    """What `jobs` hear while the drive runs, up to their truths or a number of items."""
    running = asyncio.create_task(drive.run())
    heard: list[Heard] = []
    with drive.hearing(jobs) as queue:
        while sum(isinstance(item, Truth) for item in heard) < len(jobs) and len(heard) != stop_after:
            heard.append(await asyncio.wait_for(queue.get(), 5))
    await asyncio.sleep(0.02)  # the drive hears that nobody listens any more
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return heard


def test_tokens_come_in_order_and_then_the_truth() -> None:
    heard = played(hear(Drive(Machine(Limits(), FLAT), HurriedClock()), job("a")))
    assert [item.index for item in heard if isinstance(item, Token)] == [0, 1, 2]
    assert isinstance(heard[-1], Truth)


def test_several_jobs_are_heard_in_one_queue() -> None:
    heard = played(hear(Drive(Machine(Limits(), FLAT), HurriedClock()), job("a"), job("b")))
    assert {item.id for item in heard if isinstance(item, Truth)} == {"a", "b"}


def test_jobs_that_have_not_ended_are_aborted_when_nobody_listens() -> None:
    seen: list[Step] = []
    drive = Drive(Machine(Limits(), FLAT), HurriedClock(), seen.append)
    played(hear(drive, job("a", 5_000), stop_after=1))
    assert [truth.aborted for step in seen for truth in step.ended] == [True]


def test_a_late_look_at_the_clock_never_moves_the_schedule() -> None:
    def truth(stride_ns: int) -> Truth:
        drive = Drive(Machine(Limits(), FLAT), HurriedClock(stride_ns))
        found = played(hear(drive, job("a")))[-1]
        assert isinstance(found, Truth)
        return found

    for stride in (1_000_000, 500_000_000):
        assert (truth(stride).prefill_ns, truth(stride).decode_ns) == (10_000_000, 20_000_000)


def test_a_refused_job_leaves_nothing_behind() -> None:
    drive = Drive(Machine(Limits(window=4), FLAT), HurriedClock())
    with pytest.raises(ValueError, match="more than 4"), drive.hearing([job("a", 1), job("b", 9)]):
        pytest.fail("it was taken")


def test_a_swap_between_models_happens_while_nobody_steps() -> None:
    shelf = Shelf(lambda model: Runner(1, FLAT), lambda model: 50_000_000)
    jobs = [Job("a", (1,), (7,) * 9, model="one"), Job("b", (1,), (7,), model="two")]
    heard = played(hear(Drive(shelf, HurriedClock(5_000_000)), *jobs))
    truths = {item.id: item for item in heard if isinstance(item, Truth)}
    assert truths["b"].queued_ns == (truths["a"].last_token_ns or 0) + 50_000_000
