"""Texts to shapes, at a bounded cost to everybody else on the loop.

Small new texts are measured at once: a hand-over costs more than they do. What is larger goes off the loop, a span at
a time, so that prompts of several clients take turns and a client that leaves takes its work with it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from typing import Protocol, TypeVar

from proxy.tokens.cache import Cache
from proxy.tokens.pieces import spans
from proxy.tokens.shapes import Encoder, Ruler, Shape, total

AT_ONCE = 4_096
"""New characters of one prompt that are measured on the loop: 0.3 ms of English, 1.5 ms at worst (seen with Thai)."""

BREATH = 4
"""Spans looked up between two breaths of the loop: about 0.1 ms of hashing, 1 ms where all texts are tiny."""

T = TypeVar("T")


class Run(Protocol):
    """How work leaves the loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """What the work gives, or raises."""
        ...


def off_loop(executor: Executor) -> Run:
    """Run in this executor. One thread is right: counting then takes one core at most, and spans take turns."""

    async def run(work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return run


class Meter:
    """Measures texts, each piece of them once while the cache holds it.

    State: the cache.
    """

    __slots__ = ("_cache", "_ruler", "run", "vocabulary")

    def __init__(self, vocabulary: str, encoder: Encoder, cache: Cache, run: Run) -> None:
        """`vocabulary` names the encoder: what was learnt with one is worth nothing with another."""
        self.vocabulary = vocabulary
        self._ruler = Ruler(encoder)
        self._cache = cache
        self.run = run

    async def measure(self, texts: Iterable[str]) -> Shape:
        """The shape of all texts together; of none at all the empty one. Never raises for what a text holds."""
        sums: list[Shape] = []
        fresh = 0
        for n, span in enumerate(spans(texts), 1):
            shapes, new = self._look(span)
            if new:
                fresh += sum(map(len, new))
                shapes += await self._measured(new, fresh > AT_ONCE)
            sums.append(total(shapes))
            if n % BREATH == 0:
                await asyncio.sleep(0)
        return total(sums)

    def _look(self, span: list[str]) -> tuple[list[Shape], list[str]]:
        """What the cache knows of these pieces, and those that it does not."""
        known, new = [], []
        for text in span:
            shape = self._cache.get(text)
            if shape is not None:
                known.append(shape)
            else:
                new.append(text)
        return known, new

    async def _measured(self, new: list[str], large: bool) -> list[Shape]:
        work = partial(self._measure, new)
        measured = await self.run(work) if large else work()
        for text, shape in zip(new, measured, strict=True):
            self._cache.put(text, shape)
        return measured

    def _measure(self, new: list[str]) -> list[Shape]:
        return [self._ruler.measure(text, text.encode("utf-8", "surrogatepass")) for text in new]
