"""Waiting for what happens in other processes, never for ever."""

import asyncio
from collections.abc import Awaitable, Callable

START_S = 20.0
"""For a Python process to start on a busy machine."""
TEST_S = 60.0
"""For all of one test."""


async def until(true: Callable[[], bool]) -> None:
    """Until it holds; TimeoutError where it does not in START_S."""
    async with asyncio.timeout(START_S):
        while not true():  # noqa: ASYNC110  # no event comes from another process
            await asyncio.sleep(0.01)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Runs one asynchronous test within TEST_S."""

    async def bounded() -> None:
        async with asyncio.timeout(TEST_S):
            await test()

    asyncio.run(bounded())
