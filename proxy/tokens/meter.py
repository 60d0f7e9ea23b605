"""Texts to shapes, at a bounded cost to everybody else on the loop.

Small new texts are measured at once: a hand-over costs more than they do. What is larger goes off the loop, a piece at
a time, so that prompts of several clients take turns and a client that leaves takes its work with it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor

from proxy.tokens.cache import Cache
from proxy.tokens.pieces import pieces
from proxy.tokens.shapes import NOTHING, Encoder, Shape, measure, total

AT_ONCE = 4_096
"""New characters of one prompt that are measured on the loop: about 0.3 ms of English, 2.5 ms at worst (one letter
repeated)."""

BREATH = 65_536
"""Characters looked up between two breaths of the loop: about 0.3 ms of cutting and hashing."""

Run = Callable[[Callable[[], Shape]], Awaitable[Shape]]
"""How work leaves the loop."""


def off_loop(executor: Executor) -> Run:
    """Run in this executor. One thread is right: counting then takes one core at most, and pieces take turns."""

    async def run(work: Callable[[], Shape]) -> Shape:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return run


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

    async def measure(self, texts: Sequence[str]) -> Shape:
        """The shape of all texts together. Never raises for what a text holds."""
        if not texts:
            return NOTHING
        shapes = []
        looked_up = fresh = 0
        for piece in (piece for text in texts for piece in pieces(text)):
            data = piece.encode("utf-8", "surrogatepass")
            digest = self._cache.digest(data)
            shape = self._cache.get(digest)
            if shape is None:
                fresh += len(piece)
                shape = await self._new(piece, data, fresh <= AT_ONCE)
                self._cache.put(digest, shape)
            shapes.append(shape)
            looked_up += len(piece)
            if looked_up >= BREATH:
                looked_up = 0
                await asyncio.sleep(0)
        return total(shapes)

    async def _new(self, piece: str, data: bytes, at_once: bool) -> Shape:
        if at_once:
            return measure(self._encoder, piece, data)
        return await self._run(lambda: measure(self._encoder, piece, data))
