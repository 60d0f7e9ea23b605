"""The demo's clients: streaming chats over plain sockets, with a stamp for every token that arrives.

They read the stream as bytes and look for tokens only: a client library costs ten times as much per token, and the
demo shares its cores with what it measures.
"""

import asyncio
import json
import re
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise

from proxy.clock import Clock

TOKEN = re.compile(rb'"content":"[^"]')
"""A delta with text; the role chunk's is empty."""


class Unanswered(Exception):
    """A request got no answer worth measuring."""


@dataclass(frozen=True, slots=True)
class Call:
    """One chat request to make."""

    id: str
    role: str
    """`stream`, `long` or `short`: what it is in the act."""
    prompt: str
    output: int
    """Tokens to answer."""
    system: str = ""


@dataclass(slots=True)
class Heard:
    """What a client saw of one call. State: the moments of its tokens so far, on one clock, in nanoseconds."""

    call: Call
    wanted_ns: int
    stamps: list[int] = field(default_factory=list)
    status: str = ""
    """The status line."""
    done: bool = False
    """The end of the stream was seen."""

    @property
    def ttft_s(self) -> float | None:
        """From wanting to send to the first token."""
        return (self.stamps[0] - self.wanted_ns) / 1e9 if self.stamps else None

    def gaps(self, start_ns: int, end_ns: int) -> list[float]:
        """Seconds between tokens, for gaps that end within the interval. They sum to the time between two tokens."""
        return [(b - a) / 1e9 for a, b in pairwise(self.stamps) if start_ns <= b < end_ns]


class Audience:
    """Makes calls to one address. State: everything heard so far."""

    def __init__(self, port: int, model: str, clock: Clock) -> None:
        self._port, self._model, self.clock = port, model, clock
        self.heard: list[Heard] = []

    async def call(self, call: Call, gate: AbstractAsyncContextManager[None] | None = None) -> Heard:
        """Make one call and hear it out; raises Unanswered. A gate is held until the first token."""
        heard = Heard(call, self.clock.now_ns())
        self.heard.append(heard)
        async with AsyncExitStack() as stack:
            async with gate or nullcontext():
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                stack.callback(writer.close)
                writer.write(self._request(call))
                await self._read(reader, heard, first=True)
            await self._read(reader, heard, first=False)
        if not heard.done:
            raise Unanswered(f"{call.id}: {heard.status}, and no end")
        return heard

    async def _read(self, reader: asyncio.StreamReader, heard: Heard, first: bool) -> None:
        """Stamp what comes, up to the first token or to the end."""
        while data := await reader.read(65_536):
            heard.stamps += [self.clock.now_ns()] * len(TOKEN.findall(data))
            heard.status = heard.status or data.partition(b"\r\n")[0].decode("latin-1")
            heard.done = heard.done or b"[DONE]" in data
            if first and heard.stamps:
                return

    def _request(self, call: Call) -> bytes:
        system = [{"role": "system", "content": call.system}] if call.system else []
        messages = [*system, {"role": "user", "content": call.prompt}]
        said = {"model": self._model, "messages": messages, "max_tokens": call.output, "stream": True}
        body = json.dumps(said).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\nx-request-id: {call.id}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        return head.encode() + body
