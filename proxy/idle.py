"""The lines of one origin that wait for work, each for a while."""

import asyncio

from proxy.line import Line

IDLE_S = 4.0
"""How long an unused connection is kept, seconds: under the 5 s after which uvicorn (vLLM, SGLang) and llama.cpp close
theirs, so that a request rarely meets a connection that is just being closed."""


class Idle:
    """Lines that can be used again. One timer looks after all of them: one for each would cost more than the parking.

    State: the lines with the loop's time at which each is closed, the oldest first, and the timer while there are any.
    `trip_s`: the round trip of the latest connection.
    """

    __slots__ = ("_due", "_timer", "trip_s")

    def __init__(self) -> None:
        self._due: dict[Line, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.trip_s = 0.0

    def take(self) -> Line | None:
        """The line that was used last: the least likely to be closed by the engine meanwhile. None: there is none."""
        while self._due:
            line, _ = self._due.popitem()
            if line.quiet():
                return line
            line.close()
        return None

    def park(self, line: Line) -> None:
        """Keeps a line for `IDLE_S`, if it can be used again."""
        if not line.usable():
            line.close()
            return
        loop = asyncio.get_running_loop()
        self._due[line] = loop.time() + IDLE_S
        if self._timer is None:
            self._timer = loop.call_later(IDLE_S, self._look)

    def close(self) -> None:
        """Closes them all."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while (line := self.take()) is not None:
            line.close()

    def _look(self) -> None:
        """Closes what is due; comes back when the next one is."""
        self._timer, loop = None, asyncio.get_running_loop()
        for line in [line for line, due in self._due.items() if due <= loop.time()]:
            del self._due[line]
            line.close()
        if self._due:
            self._timer = loop.call_at(next(iter(self._due.values())), self._look)
