"""The guard of an exchange: what ends it from outside.

A limit that fires, a client that leaves, a drain: each cancels the exchange's task with a reason, and the first reason
wins. The exchange catches the cancellation and asks for the reason, so that every await is covered by one rule.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter

from proxy.errors import BodyTimeout, ClientGone, EngineStalled, EngineTimeout, ProxyError

SLACK_S = 1e-6
"""Rounding between the loop's clock (a float) and ours (integers); a limit fires this much early at most."""

NO_ANSWER = "no answer from the engine within {:g} s (timeouts.first_byte_s)"
NOTHING_YET = "nothing of an answer from the engine within {:g} s (timeouts.first_byte_s)"
NOT_COMPLETE = "the answer was not complete within {:g} s (timeouts.total_s)"


class Guard:
    """Cancels one task, at most once, with a reason.

    One timer serves all limits: it looks at the earliest of them, and no later one moves it.
    """

    # State: the task, the reason once there is one, the timer and the nanosecond at which it looks, the limits in force
    # (0: none), when the other side was last heard (after a head without a body byte, a moment to come), whether the
    # head is awaited, and whether it is the client that is waited for: to read, or to go on with its body.
    __slots__ = (
        "_awaited", "_first_s", "_first_until_ns", "_idle_s", "_looks_ns", "_loop", "_receiving", "_task",
        "_timer", "_total_s", "_total_until_ns", "heard_ns", "now_ns", "reason", "sending",
    )  # fmt: skip

    def __init__(self, now_ns: Callable[[], int]) -> None:
        task = asyncio.current_task()
        assert task is not None, "an exchange runs in a task"
        self._task = task
        self._loop = task.get_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._idle_s = self._first_s = self._total_s = 0.0
        self._looks_ns = self._first_until_ns = self._total_until_ns = 0
        self.now_ns = now_ns
        self.heard_ns = 0
        self.sending = self._awaited = self._receiving = False
        self.reason: ProxyError | None = None

    def cancel(self, reason: ProxyError) -> None:
        """End the exchange with `reason`, unless another came first."""
        if self.reason is None:
            self.reason = reason
            self._task.cancel()

    def body(self, seconds: float) -> None:
        """The client sends its body: silence for `seconds` ends the exchange; 0: no limit. Each read is `heard`."""
        self._receiving = True
        self._listen_for(seconds)

    def heard(self) -> None:
        """Something has come."""
        self.heard_ns = self.now_ns()

    def arrived(self) -> None:
        """The body is here."""
        self._receiving, self._idle_s = False, 0.0

    def first_byte(self, seconds: float) -> None:
        """The answer's head must be here within `seconds`, and may take all of them to its first byte; 0: no limit."""
        self._first_s, self._awaited = seconds, seconds > 0
        self._first_until_ns = self._look_in(seconds)

    def total(self, seconds: float) -> None:
        """The answer must be over within `seconds`; 0: no limit."""
        self._total_s, self._total_until_ns = seconds, self._look_in(seconds)

    def head(self) -> None:
        """The head is here: the first-byte limit is met."""
        self._awaited = False

    def idle(self, seconds: float) -> None:
        """From now on, silence for `seconds` ends the exchange; 0: no limit. Each read sets `heard_ns`.

        A client that reads nothing for as long is gone: it would hold the engine for ever.
        """
        self._listen_for(seconds)

    def headed(self) -> None:
        """The head has been passed on, and nothing of the body is here. vLLM's leaves before its queue: silence is no
        more than that of an engine whose head comes with its first token, as long as the first-byte limit allows."""
        self.heard_ns = max(self.heard_ns, self._first_until_ns - round(self._idle_s * 1e9))

    def close(self) -> None:
        """The exchange is ending by itself: nothing can cancel it any more."""
        self._stop()
        if self.reason is None:
            self.reason = _OVER

    def _listen_for(self, seconds: float) -> None:
        self._idle_s = seconds
        self.heard_ns = self._look_in(seconds) - round(seconds * 1e9)

    def _look_in(self, seconds: float) -> int:
        """The nanosecond that is `seconds` away; where that is a limit, the timer looks by then."""
        until_ns = self.now_ns() + round(seconds * 1e9)
        if seconds and (self._timer is None or until_ns < self._looks_ns):
            self._stop()
            self._looks_ns = until_ns
            self._timer = self._loop.call_later(seconds, self._look)
        return until_ns

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """A limit may be passed: the earliest is looked at, and looked for again where it is not."""
        self._timer = None
        if not (limits := list(self._limits())):
            return
        until_ns, error = min(limits, key=itemgetter(0))
        left_s = (until_ns - self.now_ns()) / 1e9
        if left_s > SLACK_S:
            self._look_in(
                min(left_s, self._idle_s or left_s)
            )  # silence may count from a moment to come: a read ends that
        else:
            self.cancel(error())

    def _limits(self) -> Iterator[tuple[int, Callable[[], ProxyError]]]:
        """The limits in force, each with its nanosecond and what passing it means."""
        if self._idle_s:
            yield self.heard_ns + round(self._idle_s * 1e9), self._silent
        if self._awaited:
            yield self._first_until_ns, partial(_late, NO_ANSWER, self._first_s)
        if self._total_s:
            yield self._total_until_ns, partial(_late, NOT_COMPLETE, self._total_s)

    def _silent(self) -> ProxyError:
        if self._receiving:
            return BodyTimeout(f"the body did not go on within {self._idle_s:g} s (timeouts.body_s)")
        if self.sending:
            return ClientGone(f"the client read nothing for {self._idle_s:g} s (timeouts.idle_s)")
        if self._first_s and self.heard_ns == self._first_until_ns - round(self._idle_s * 1e9):
            return _late(NOTHING_YET, self._first_s)
        return EngineStalled(f"the engine was silent for {self._idle_s:g} s (timeouts.idle_s)")


def _late(words: str, seconds: float) -> ProxyError:
    return EngineTimeout(words.format(seconds))


_OVER = ProxyError("over")
