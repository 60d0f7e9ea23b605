"""Strike an ASGI app at its first, second, third ... await: whatever happens there, its promises must hold.

    for at, answer in at_every_await(lambda strike: play(strike.over(app))):
        assert ...            # one record, no permit held, ...

`play` is called anew for each await, with a fresh product; the last run is the one that the strike did not reach.
A strike without an error is a cancellation as asyncio makes it; one with an error throws it in at the await.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Generator, Iterator
from functools import partial
from typing import Any, TypeVar

from tests.support.client import App, Receive, Scope, Send

T = TypeVar("T")

MOST = 10_000
"""Awaits of one exchange; more is a loop that never ends."""


class Blow(BaseException):
    """Something that is no Exception and nobody expects."""


class Strike:
    """One blow, at one await of one call of an app."""

    def __init__(self, at: int, error: type[BaseException] | None = None) -> None:
        # All state: whether the await was reached, and what the app made of the blow.
        self.at = at
        self.error = error
        self.landed = False
        self.raised: BaseException | None = None
        """What came out of the app; CancelledError where it let itself be cancelled."""

    def over(self, app: App) -> App:
        """The same app; its call runs in a task of its own and is struck there."""

        async def struck(scope: Scope, receive: Receive, send: Send) -> None:
            call = app(scope, receive, send)
            assert isinstance(call, Coroutine)
            task = asyncio.ensure_future(_driven(call, self))
            await asyncio.wait({task})
            self.raised = asyncio.CancelledError() if task.cancelled() else task.exception()

        return struck


def at_every_await(play: Callable[[Strike], T], error: type[BaseException] | None = None) -> Iterator[tuple[int, T]]:
    """(number of the await, what `play` gave) for every await there is, and once more without a blow."""
    for at in itertools.count(1):
        strike = Strike(at, error)
        yield at, play(strike)
        if not strike.landed:
            return
        assert at < MOST, "an exchange without an end"


async def _driven(call: Coroutine[Any, Any, None], strike: Strike) -> None:
    await _Driver(call, strike)


class _Driver:
    """Runs a coroutine await by await, as a task does, and strikes at the right one."""

    def __init__(self, call: Coroutine[Any, Any, None], strike: Strike) -> None:
        self._call = call
        self._strike = strike

    def __await__(self) -> Generator[Any, None, None]:
        step: Callable[[], Any] = partial(self._call.send, None)
        for awaits in itertools.count(1):
            try:
                waiting = step()
            except StopIteration:
                return
            blow = self._blow(waiting) if awaits == self._strike.at else None
            if blow is not None:
                step = partial(self._call.throw, blow)
                continue
            step = partial(self._call.send, None)
            try:
                yield waiting
            except BaseException as error:  # a cancellation, which is the coroutine's to handle
                step = partial(self._call.throw, error)

    def _blow(self, waiting: Any) -> BaseException | None:
        """Ask for a cancellation, or give what is to be thrown."""
        self._strike.landed = True
        if self._strike.error is None:
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
            return None
        if waiting is not None:
            waiting._asyncio_future_blocking = False  # nobody waits for it any more
        return self._strike.error()
