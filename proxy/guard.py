"""The guard of an exchange: what ends it from outside.

A limit that fires, a client that leaves, a drain: each cancels the exchange's task with a reason, and the first reason
wins. The exchange catches the cancellation and asks for the reason, so that every await is covered by one rule.
"""

import asyncio
from collections.abc import Callable

from proxy.errors import BodyTimeout, ClientGone, EngineStalled, EngineTimeout, ProxyError

SLACK_S = 1e-6
"""Rounding between the loop's clock (a float) and ours (integers); a limit fires this much early at most."""


class Guard:
    """Cancels one task, at most once, with a reason."""

    # State: the task, the reason once there is one, timers that are armed, when the other side was last heard (after a
    # head without a body byte, a moment to come), until when a first byte may take, and whether it is the client that
    # is waited for: to read, or to go on with its body.
    __slots__ = (
        "_first_s", "_first_until_ns", "_idle_s", "_loop", "_receiving", "_task", "_timers", "heard_ns", "now_ns",
        "reason", "sending",
    )  # fmt: skip

    def __init__(self, now_ns: Callable[[], int]) -> None:
        task = asyncio.current_task()
        assert task is not None, "an exchange runs in a task"
        self._task = task
        self._loop = task.get_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._idle_s = self._first_s = 0.0
        self._first_until_ns = 0
        self.now_ns = now_ns
        self.heard_ns = 0
        self.sending = False
        self._receiving = False
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
        self._receiving = False
        self._disarm("idle")

    def first_byte(self, seconds: float) -> None:
        """The answer's head must be here within `seconds`, and may take all of them to its first byte; 0: no limit."""
        self._first_s, self._first_until_ns = seconds, self.now_ns() + round(seconds * 1e9)
        self._arm("first_byte", seconds, "no answer from the engine within {:g} s (timeouts.first_byte_s)")

    def total(self, seconds: float) -> None:
        """The answer must be over within `seconds`; 0: no limit."""
        self._arm("total", seconds, "the answer was not complete within {:g} s (timeouts.total_s)")

    def head(self) -> None:
        """The head is here: the first-byte limit is met."""
        self._disarm("first_byte")

    def idle(self, seconds: float) -> None:
        """From now on, silence for `seconds` ends the exchange; 0: no limit. Each read sets `heard_ns`.

        A client that reads nothing for as long is gone: it would hold the engine for ever.
        """
        self._listen_for(seconds)

    def headed(self) -> None:
        """The head has been passed on, and nothing of the body is here. vLLM's leaves before its queue: silence is no
        more than that of an engine whose head comes with its first token, as long as the first-byte limit allows."""
        self.heard_ns = max(self.heard_ns, self._first_until_ns - round(self._idle_s * 1e9))

    def _listen_for(self, seconds: float) -> None:
        self._idle_s = seconds
        self.heard_ns = self.now_ns()
        if seconds:
            self._timers["idle"] = self._loop.call_later(seconds, self._listen)

    def close(self) -> None:
        """The exchange is ending by itself: nothing can cancel it any more."""
        for name in tuple(self._timers):
            self._disarm(name)
        if self.reason is None:
            self.reason = _OVER

    def _arm(self, name: str, seconds: float, words: str) -> None:
        if seconds:
            self._timers[name] = self._loop.call_later(seconds, self._late, words, seconds)

    def _late(self, words: str, seconds: float) -> None:
        self.cancel(EngineTimeout(words.format(seconds)))

    def _disarm(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _listen(self) -> None:
        """The idle timer is not moved at each read, which would cost more than the read: it looks when it fires."""
        left_s = self._idle_s - (self.now_ns() - self.heard_ns) / 1e9
        if left_s > SLACK_S:
            self._timers["idle"] = self._loop.call_later(min(left_s, self._idle_s), self._listen)
        elif self._receiving:
            self.cancel(BodyTimeout(f"the body did not go on within {self._idle_s:g} s (timeouts.body_s)"))
        elif self.sending:
            self.cancel(ClientGone(f"the client read nothing for {self._idle_s:g} s (timeouts.idle_s)"))
        elif self._first_until_ns and self.heard_ns == self._first_until_ns - round(self._idle_s * 1e9):
            self._late("nothing of an answer from the engine within {:g} s (timeouts.first_byte_s)", self._first_s)
        else:
            self.cancel(EngineStalled(f"the engine was silent for {self._idle_s:g} s (timeouts.idle_s)"))


_OVER = ProxyError("over")
