import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from proxy.tokens.cache import Cache
from proxy.tokens.meter import AT_ONCE, Meter, off_loop
from proxy.tokens.pieces import PIECE
from proxy.tokens.shapes import Shape

T = TypeVar("T")


async def inline(work: Callable[[], T]) -> T:
    await asyncio.sleep(0)
    return work()


class Watched:
    """A vocabulary of characters that remembers what it was given, and by which thread."""

    n_vocab = 0x110000

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.threads: set[str] = set()

    def encode_ordinary(self, text: str) -> list[int]:
        self.seen.append(text)
        self.threads.add(threading.current_thread().name)
        return list(map(ord, text))


def words(n: int) -> str:
    return " ".join(f"word{i}" for i in range(n))


def test_a_text_is_measured_once_however_often_it_comes() -> None:
    watched = Watched()
    meter = Meter("chars", watched, Cache(1 << 20), inline)

    async def chat() -> list[Shape]:
        return [await meter.measure(["system prompt", f"turn {n}"]) for n in range(3)]

    assert [shape.tokens for shape in asyncio.run(chat())] == [19, 19, 19]
    assert watched.seen == ["system prompt", "turn 0", "turn 1", "turn 2"]


def test_a_document_that_grows_costs_its_new_end_only() -> None:
    watched = Watched()
    meter = Meter("chars", watched, Cache(1 << 20), inline)
    asyncio.run(meter.measure([words(30_000)]))
    watched.seen.clear()
    asyncio.run(meter.measure([words(30_000) + " and more"]))
    assert sum(map(len, watched.seen)) <= PIECE


def test_large_new_texts_leave_the_loop_and_small_ones_do_not() -> None:
    watched = Watched()
    with ThreadPoolExecutor(1, "counting") as executor:
        meter = Meter("chars", watched, Cache(1 << 20), off_loop(executor))
        asyncio.run(meter.measure(["small"]))
        assert watched.threads == {threading.main_thread().name}
        watched.threads.clear()
        asyncio.run(meter.measure([words(AT_ONCE)]))
        assert watched.threads == {"counting_0"}


@pytest.mark.parametrize("times", [1, 2], ids=["new", "known"])
def test_the_loop_breathes_while_much_is_looked_up(times: int) -> None:
    meter = Meter("chars", Watched(), Cache(1 << 24), inline)
    breaths = 0

    async def breathe() -> None:
        nonlocal breaths
        while True:
            breaths += 1
            await asyncio.sleep(0)

    async def run() -> None:
        nonlocal breaths
        for _ in range(times):
            breaths = 0
            beside = asyncio.create_task(breathe())
            await meter.measure([words(40 * PIECE)])
            beside.cancel()

    asyncio.run(run())
    assert breaths >= 5


def test_lone_surrogates_and_nothing_at_all_are_measured() -> None:
    meter = Meter("chars", Watched(), Cache(1 << 20), inline)
    assert asyncio.run(meter.measure(["\ud800x"])).tokens == 2
    assert asyncio.run(meter.measure([])) == asyncio.run(meter.measure([""])) == Shape()
