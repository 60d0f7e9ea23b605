"""HTTP/1.1 messages cut out of a byte stream: a second, small implementation for both ends of a test's sockets.

Strict where it matters to a test (a body ends by its framing or not at all), lax elsewhere.
"""

from collections.abc import Callable, Generator
from typing import NamedTuple

Headers = list[tuple[str, str]]


class Head(NamedTuple):
    """Start line and headers of one message; names in lower case, in order."""

    start: tuple[str, str, str]
    headers: Headers

    @property
    def status(self) -> int:
        """Of an answer."""
        return int(self.start[1])

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


class Body(NamedTuple):
    """Bytes of a body, as they came, without transfer framing."""

    data: bytes


class End(NamedTuple):
    """The message ended in due form."""


Event = Head | Body | End
Length = int | None
"""Bytes of a body to come; None: chunked; -1: until the connection closes."""


def request_length(head: Head) -> Length:
    """How long a request's body is (RFC 9112 6.3)."""
    if head.values("transfer-encoding"):
        return None
    return int((head.values("content-length") or ["0"])[0])


def answer_length(head: Head, method: str) -> Length:
    """How long an answer's body is (RFC 9112 6.3)."""
    if method == "HEAD" or head.status < 200 or head.status in (204, 304):
        return 0
    if head.values("transfer-encoding"):
        return None
    return int((head.values("content-length") or ["-1"])[0])


class Messages:
    """Cuts messages out of bytes. `length` says how each head's body is framed."""

    def __init__(self, length: Callable[[Head], Length]) -> None:
        # All state: bytes not yet used, and the step that waits for more of them.
        self._length = length
        self._held = bytearray()
        self._closed = False
        self._inside = False
        self._steps = self._parse()
        self._out: list[Event] = []
        next(self._steps)

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete."""
        self._held += data
        return self._run()

    def close(self) -> list[Event]:
        """The connection has ended: a body that lasts until then is whole, any other is not."""
        self._closed = True
        return self._run()

    @property
    def clean(self) -> bool:
        """Nothing is begun: the stream stands between two messages."""
        return not self._held and not self._inside

    def _run(self) -> list[Event]:
        next(self._steps)
        out, self._out = self._out, []
        return out

    def _parse(self) -> Generator[None, None, None]:
        while True:
            self._inside = False
            block = yield from self._block(b"\r\n\r\n")
            self._inside = True
            head = _head(block)
            self._out.append(head)
            length = self._length(head)
            yield from self._chunks() if length is None else self._counted(length)
            self._out.append(End())

    def _block(self, mark: bytes) -> Generator[None, None, bytes]:
        while (at := self._held.find(mark)) < 0:
            yield
        block = bytes(self._held[:at])
        del self._held[: at + len(mark)]
        return block

    def _counted(self, length: int) -> Generator[None, None, None]:
        while length:
            data = bytes(self._held if length < 0 else self._held[:length])
            del self._held[: len(data)]
            length -= len(data) if length > 0 else 0
            if data:
                self._out.append(Body(data))
            if length < 0 and self._closed:
                return
            if length:
                yield

    def _chunks(self) -> Generator[None, None, None]:
        while True:
            line = yield from self._block(b"\r\n")
            size = int(line.split(b";")[0], 16)
            if size == 0:
                break
            yield from self._counted(size)
            yield from self._block(b"\r\n")
        while (yield from self._block(b"\r\n")):  # trailers
            pass


def _head(block: bytes) -> Head:
    first, *lines = block.decode("latin-1").split("\r\n")
    start = ([*first.split(" ", 2), "", ""])[:3]
    pairs = (line.partition(":") for line in lines)
    return Head((start[0], start[1], start[2]), [(name.strip().lower(), value.strip()) for name, _, value in pairs])


def encode_chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; empty data gives the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def encode_head(start: str, headers: Headers) -> bytes:
    """Start line and headers, as they go over the wire."""
    lines = [start, *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
