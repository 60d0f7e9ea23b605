"""Texts to shapes, at a bounded cost to everybody else on the loop.

Small new texts are measured at once: a hand-over costs more than they do. What is larger goes off the loop, a span at
a time, so that prompts of several clients take turns and a client that leaves takes its work with it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

from proxy.tokens.cache import Cache
from proxy.tokens.pieces import spans
from proxy.tokens.shapes import NOTHING, Encoder, Shape, measure, total

AT_ONCE = 4_096
"""New characters of one prompt that are measured on the loop: 0.3 ms of English, 1.5 ms at worst (seen with Thai)."""

BREATH = 4
"""Spans looked up between two breaths of the loop: about 0.1 ms of hashing, 1 ms where all texts are tiny."""

Work = Callable[[], list[Shape]]
Run = Callable[[Work], Awaitable[list[Shape]]]
"""How work leaves the loop."""


def off_loop(executor: Executor) -> Run:
    """Run in this executor. One thread is right: counting then takes one core at most, and spans take turns."""

    async def run(work: Work) -> list[Shape]:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return run


class New(NamedTuple):
    """A piece that the cache does not know."""

    digest: bytes
    text: str
    data: bytes
    """Its UTF-8."""


class Meter:
    """Measures texts, each piece of them once while the cache holds it.

    State: the cache.
    """

    __slots__ = ("_cache", "_encoder", "_run", "vocabulary")

    def __init__(self, vocabulary: str, encoder: Encoder, cache: Cache, run: Run) -> None:
        """`vocabulary` names the encoder: what was learnt with one is worth nothing with another."""
        self.vocabulary = vocabulary
        self._encoder = encoder
        self._cache = cache
        self._run = run

    async def measure(self, texts: Iterable[str]) -> Shape:
        """The shape of all texts together. Never raises for what a text holds."""
        whole, fresh = NOTHING, 0
        for n, span in enumerate(spans(texts), 1):
            known, new = self._look(span)
            fresh += sum(len(piece.text) for piece in new)
            if new and fresh > AT_ONCE:
                measured = await self._run(partial(self._measure, new))
            else:
                measured = self._measure(new)
            for piece, shape in zip(new, measured, strict=True):
                self._cache.put(piece.digest, shape)
            whole = total((whole, *known, *measured))
            if n % BREATH == 0:
                await asyncio.sleep(0)
        return whole

    def _look(self, span: list[str]) -> tuple[list[Shape], list[New]]:
        """What the cache knows of these pieces, and what it does not."""
        known, new = [], []
        for text in span:
            data = text.encode("utf-8", "surrogatepass")
            digest = self._cache.digest(data)
            shape = self._cache.get(digest)
            if shape is not None:
                known.append(shape)
            else:
                new.append(New(digest, text, data))
        return known, new

    def _measure(self, new: list[New]) -> list[Shape]:
        return [measure(self._encoder, piece.text, piece.data) for piece in new]
