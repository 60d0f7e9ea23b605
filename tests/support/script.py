"""What a scripted engine does with one request. Times are nanoseconds since the engine has the whole request."""

import json
from dataclasses import dataclass, field
from typing import Literal

Ending = Literal["complete", "close", "reset", "stall", "refuse", "unroutable"]
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Bytes of the body that arrive together."""

    at_ns: int
    data: bytes
    when_usage_asked: bool = False
    """Sent only if the request asks for usage in its stream."""


@dataclass(frozen=True, slots=True)
class Script:
    """One answer, from head to ending."""

    status: int = 200
    headers: Headers = ()
    reads: tuple[Read, ...] = ()
    ending: Ending = "complete"
    """`complete`: due form. `close`: the connection closes without the end of the body. `reset`: a read error.
    `stall`: silence; without reads not even a head. `refuse`: the connection is refused. `unroutable`: it is neither
    refused nor made (virtual time only)."""
    head_ns: int | None = None
    """When the head leaves; None: with the first read, at once if there is none."""
    end_ns: int | None = None
    """When the ending happens; None: with the last read."""

    @property
    def head_at_ns(self) -> int | None:
        """When the head leaves; None: never."""
        if self.ending == "stall" and not self.reads and self.head_ns is None:
            return None
        first = self.reads[0].at_ns if self.reads else 0
        return first if self.head_ns is None else self.head_ns

    @property
    def end_at_ns(self) -> int | None:
        """When the ending happens; None: never."""
        if self.ending == "stall":
            return None
        last = self.reads[-1].at_ns if self.reads else (self.head_at_ns or 0)
        return last if self.end_ns is None else self.end_ns

    @property
    def breaks_before_head(self) -> bool:
        """The ending happens before the head would leave: it never does."""
        return self.end_at_ns is not None and self.end_at_ns < (self.head_at_ns or 0)

    @property
    def content_length(self) -> int | None:
        """What the headers promise; None: the body is chunked, as it is where they say so (RFC 9112 6.3)."""
        if any(name == "transfer-encoding" for name, _ in self.headers):
            return None
        return next((int(value) for name, value in self.headers if name == "content-length"), None)

    def bodyless(self, method: str) -> bool:
        """HEAD, 204 and 304 have no body, whatever their headers say (RFC 9110 6.4.1)."""
        return method == "HEAD" or self.status in (204, 304)


@dataclass(slots=True)
class Call:
    """One request that reached an engine, and what became of it."""

    engine: str
    """host:port of the engine."""
    method: str
    target: str
    """As on the wire."""
    headers: list[tuple[str, str]]
    """Names in lower case."""
    body: bytes
    """Without transfer framing."""
    at_ns: int
    """When the whole request was there."""
    sent: list[tuple[int, bytes]] = field(default_factory=list)
    """Body bytes that left, with their times."""
    closed_ns: int | None = None
    """When our side closed the call; None: it has not."""

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def asks_usage(self) -> bool:
        """Does the request that came here ask for usage in the stream?"""
        try:
            return json.loads(self.body)["stream_options"]["include_usage"] is True
        except (ValueError, LookupError, TypeError):
            return False

    @property
    def body_sent(self) -> bytes:
        return b"".join(data for _, data in self.sent)


OK = Script(
    headers=(("content-type", "application/json"),),
    reads=(
        Read(
            10_000_000,
            b'{"id":"c1","object":"chat.completion","model":"m1","choices":[{"index":0,"message":{"role":"assistant",'
            b'"content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1,'
            b'"total_tokens":3}}',
        ),
    ),
)
"""The answer for tests that do not care: a short chat completion after 10 ms."""

NOT_FOUND = Script(status=404, headers=(("content-type", "application/json"),), reads=(Read(0, b"{}"),))
"""What an engine says to look-ups that it does not know."""
