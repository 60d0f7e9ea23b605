"""The data process' pulse: once a second, with how late its loop was."""

import asyncio
import gc
import mmap
import sys

import pytest

from proxy.messages import Message, Pulse
from proxy.pulse import LOOK_NS, LOOKS, beat, memory_bytes
from tests.support.clock import START_NS, VirtualLoop, run

S = 1_000_000_000


def test_a_pulse_a_second_with_every_lateness_in_it() -> None:
    async def main(loop: VirtualLoop) -> list[tuple[int, Pulse]]:
        heard: list[tuple[int, Pulse]] = []

        def send(message: Message) -> None:
            assert isinstance(message, Pulse)
            heard.append((loop.clock.now_ns() - START_NS, message))

        beating = asyncio.create_task(beat(loop.clock, lambda: Pulse(at_s=5.0, in_flight=3), send))
        await asyncio.sleep(0.02)
        loop.clock.advance(80_000_000)  # the loop stands still for 80 ms
        await asyncio.sleep(2.5)
        beating.cancel()
        return heard

    (first_ns, first), (second_ns, second) = run(main)
    assert first_ns == S + 50_000_000
    assert second_ns - first_ns == LOOKS * LOOK_NS == S
    assert first.lag_ns == (50_000_000, *[0] * (LOOKS - 1))
    assert second == Pulse(at_s=5.0, in_flight=3, lag_ns=(0,) * LOOKS)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells cheaply")
def test_memory_is_that_of_this_process() -> None:
    gc.collect()  # of what earlier tests left, nothing goes meanwhile
    before = memory_bytes()
    with mmap.mmap(-1, 64 << 20) as held:  # from the system itself: an allocator may have as much lying about
        held.write(b"x" * len(held))
        after = memory_bytes()
        size = len(held)
    assert before is not None
    assert after is not None
    assert after - before > size // 2


def test_memory_is_unknown_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    assert memory_bytes() is None
