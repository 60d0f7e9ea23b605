"""Bodies of requests, read and edited: at once where they are small, off the loop where they could hold it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from proxy.wire.request import COMPRESSED

LONG_BODY = 64 * 1024
"""Bytes of a body that is read on the loop: 0.2 ms of the usual JSON, where a hand-over costs 0.1 ms and, on a busy
loop, up to the interpreter's switch interval each way (`interpreter.SWITCH_S`). A thread takes from the loop what
Python does with the values; decoding itself is one call, which holds the interpreter there too."""

MANY_VALUES = 2_000
"""Commas in a body that is read on the loop: about as many values, and reading a tiny message takes 3 to 5 us."""

T = TypeVar("T")


class Reading:
    """Work on bodies. One thread of its own: large bodies wait for one another, and for no long prompt's count."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="phasegate-read")

    async def work(self, body: bytes, work: Callable[[], T]) -> T:
        """What `work` on this body gives, or raises."""
        if not heavy(body):
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


def heavy(body: bytes) -> bool:
    """Reading this may take more than some milliseconds: it is long, of very many values, or compressed."""
    if len(body) > LONG_BODY or body.startswith(COMPRESSED):
        return True
    return len(body) > 2 * MANY_VALUES and body.count(b",") > MANY_VALUES
