"""An answer's bytes on their way to the client: stamped, sent, and then observed.

They leave as they came, and a parser's fault can spoil only a number. A small read of a client that keeps up passes
within the step of the loop that read it (`take`); what somebody must be waited for, or takes long, goes in turns.
"""

import asyncio
from collections.abc import Awaitable, Callable

from proxy.client import Client, Headers
from proxy.errors import ProxyError
from proxy.guard import Guard
from proxy.relay import Answer
from proxy.rooms import Passage
from proxy.timeline import Recorder

AT_ONCE = 2 * 1024
"""Bytes of a read that passes at once: some of the usual events, and of the smallest no more than a turn may take."""

EDITED = 16 * 1024
"""Bytes that are edited at a time: of the smallest events they are 2 ms of work."""

BLOCKED_NS = 1_000_000
"""A `send` that could wait for the client, and takes longer, has: our own work in it takes tens of microseconds."""

TURNS = 1_000
"""Turns of the loop that one read may take to be looked at, a second or two in which its own answer waits: 10 MB of
usual events. What inflates to more is not read to its end."""


class Passing:
    """One answer on its way. `first_token` is told when the first token has been seen, with the stamp of its read."""

    # State: whether the first token was told.
    __slots__ = ("_at_once", "_client", "_first_token", "_guard", "_now", "_recorder", "_strip", "_tap", "_told")

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        guard: Guard,
        now_ns: Callable[[], int],
        passage: Passage,
        first_token: Callable[[int], None],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._guard = guard
        self._now = now_ns
        self._tap = passage.tap
        self._strip = passage.filter
        self._at_once = min(AT_ONCE, passage.tap.bite)
        self._first_token = first_token
        self._told = False

    async def head(self, status: int, headers: Headers) -> None:
        """Sends the head."""
        await self._sent(self._client.start(status, headers), self._now())
        self._guard.headed()

    async def body(self, answer: Answer) -> None:
        """Sends the body, to its end in due form. Raises what breaks it off."""
        answer.hand_to(self.take)
        try:
            async for chunk in answer:
                if not self.take(chunk):
                    await self._in_turns(chunk)
        except (ProxyError, asyncio.CancelledError):
            await self._let_go()
            raise
        t = self._now()
        self._recorder.body_end(t)
        await self._let_go()
        await self._sent(self._client.end(), self._now())
        self._tap.close(t)
        await self._look_on()

    def take(self, chunk: bytes) -> bool:
        """Passes a read on within this step of the loop. Not, where the client must be waited for, or much is to be
        done first: then nothing was done."""
        if len(chunk) > self._at_once or self._tap.behind or (write := self._client.room()) is None:
            return False
        t = self._guard.heard_ns = self._now()
        self._recorder.read(t, len(chunk))
        data = chunk if self._strip is None else self._strip.feed(chunk)
        if data:
            write(data)
        self._tap.feed(t, chunk)
        self._look_for_first(t)
        return True

    async def _in_turns(self, chunk: bytes) -> None:
        """Passes a read on, with turns for others in between."""
        t = self._guard.heard_ns = self._now()
        self._recorder.read(t, len(chunk))
        step = EDITED if self._strip is not None else len(chunk) or 1
        for at in range(0, len(chunk), step):
            if at:
                await asyncio.sleep(0)
            piece = chunk[at : at + step]
            data = piece if self._strip is None else self._strip.feed(piece)
            if data and not self._client.gone:
                await self._sent(self._client.send(data), self._now() if at else t)
        self._tap.feed(t, chunk)
        await self._look_on()
        self._look_for_first(t)

    async def _let_go(self) -> None:
        """What was held back is the engine's too, whole or not. A client that does not read gets nothing more, and is
        not waited for when the guard has ended the exchange: no limit is left."""
        client, guard = self._client, self._guard
        if self._strip is None or guard.sending or client.gone or (guard.reason is not None and client.room() is None):
            return
        if data := self._strip.close():
            await self._sent(client.send(data), self._now())

    def _look_for_first(self, t: int) -> None:
        if not self._told and self._recorder.first_token_ns is not None:
            self._told = True
            self._first_token(t)

    async def _look_on(self) -> None:
        """More came at once than a turn of the loop has time for: the others have theirs between."""
        tap, turns = self._tap, 0
        while tap.behind and turns < TURNS:
            await asyncio.sleep(0)
            tap.go_on()
            self._guard.heard()
            turns += 1
        if tap.behind:
            tap.leave()

    async def _sent(self, sending: Awaitable[None], t: int) -> None:
        """Something has been sent since `t`: what that took, the client took, if it was waited for at all. Else another
        process had the processor."""
        waits = self._client.room() is None
        self._guard.sending = True
        await sending
        self._guard.sending = False
        now = self._guard.heard_ns = self._now()
        if waits and now - t >= BLOCKED_NS:
            self._recorder.blocked(now - t)
