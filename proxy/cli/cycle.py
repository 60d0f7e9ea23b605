"""One request and its response on a client's connection: uvicorn's cycle, with framing of its own.

HTTP/1.1 clients get chunks or a length; HTTP/1.0 clients a length, or a body that ends with the connection (RFC 9112
6.3). Header names go out as they came in. A response that breaks off is broken so that the client can tell.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from proxy.headers import stated_length

LINGER_S = 2.0
"""Seconds for what is still under way when we close: bytes that we drop, so that no reset eats our answer
(RFC 9112 9.6), and bytes that a slow client has not taken."""

_RESET = struct.pack("ii", 1, 0)
# SO_LINGER with zero seconds: closed by RST.


class Cycle(RequestResponseCycle):
    """One request and its response.

    Mutable state beside uvicorn's: `_left`, bytes that are still due (None: the framing does not say), whether the
    response has no body by its nature, `_held`, the head and what followed it in the same turn of the loop: they go
    out as one write, for each write is a system call; and whom to tell when the client leaves.
    """

    _left: int | None = None
    _bodiless = False
    _held = b""
    _tell: Callable[[], None] | None = None

    async def send(self, message: Any) -> None:
        """ASGI's `send`: waits while the client reads slowly, drops what a client that left would get."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._head(message["status"], message.get("headers", ()))
        else:
            self._body(message.get("body", b""), message.get("more_body", False))

    def when_gone(self, tell: Callable[[], None]) -> None:
        """Calls `tell` when the client leaves before the response is complete; the request's body must have been read.

        In the loop's next turn where it has left already.
        """
        self._tell = tell
        if self.disconnected:
            asyncio.get_running_loop().call_soon(tell)
        else:
            self.flow.resume_reading()  # a socket that is not read does not tell of a client's leaving

    def room(self) -> Callable[[bytes], None] | None:
        """What writes a piece of the body at once; None while `send` would wait for the client, or drop it."""
        return None if self.flow.write_paused or self.disconnected else self._piece

    def _piece(self, data: bytes) -> None:
        self._body(data, True)

    def extensions(self) -> dict[str, Any]:
        """What the application may ask of the connection."""
        return {"phasegate.gone": self.when_gone, "phasegate.abort": self.abort, "phasegate.room": self.room}

    async def run_asgi(self, app: Any) -> None:
        """Runs the application. Of one whose client left the collector would have to free what it had."""
        try:
            await super().run_asgi(app)
        finally:
            if self.disconnected:
                self.forget()

    def forget(self) -> None:
        """The response is over: scope and cycle no longer know each other, so that both are freed at once."""
        self._tell = None
        for name in self.extensions():
            self.scope["extensions"].pop(name, None)

    def gone(self) -> None:
        """The connection is lost. Who has all that the length states has not left, though we have still to say that it
        is over: he may well go at once."""
        self.disconnected = not self.response_complete
        self.message_event.set()
        whole = self._left == 0 and not self._held
        if self.disconnected and not whole and self._tell is not None:
            self._tell()

    def abort(self) -> None:
        """Breaks the response off; nothing more is sent."""
        self.disconnected = True
        self._flush()
        if self.response_started and not self.chunked_encoding and self._left is None:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.close()
        asyncio.get_running_loop().call_later(LINGER_S, self.transport.abort)

    def _head(self, status: int, headers: Any) -> None:
        """Status line and headers, names as they came, with the framing that this client understands."""
        if self.response_started:
            raise RuntimeError("the response has begun already")
        if self.more_body:
            self.keep_alive = False  # what follows on this connection may be the rest of a body that nobody reads
        self._bodiless = self.scope["method"] == "HEAD" or status in (204, 304)
        lines = [STATUS_LINE.get(status) or b"HTTP/1.1 %d \r\n" % status]
        for name, value in headers:
            low = name.lower()
            if low == b"content-length":
                self._left = stated_length(value)
                if status == 204:
                    continue  # RFC 9110 8.6
            elif low == b"connection":
                self.keep_alive = False
                continue
            lines.append(b"%b: %b\r\n" % (name, value))
        self._frame(lines)
        head = b"".join((*lines, b"\r\n"))
        if head.count(b"\n") != len(lines) + 1 or head.count(b"\r") != len(lines) + 1:
            raise RuntimeError("a header holds a line end")
        self.response_started = True
        self.waiting_for_100_continue = False
        self._held = head
        asyncio.get_running_loop().call_soon(self._flush)

    def _frame(self, lines: list[bytes]) -> None:
        if self._bodiless:
            self._left = 0
        elif self._left is None and self.scope["http_version"] == "1.0":
            self.keep_alive = False  # RFC 9112 6.3: the connection's end ends the body
        elif self._left is None:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")

    def _body(self, data: bytes, more: bool) -> None:
        if not self.response_started or self.response_complete:
            raise RuntimeError("a body without a head, or after its end")
        if self.chunked_encoding and data:
            self._write(b"%x\r\n%b\r\n" % (len(data), data))
        elif data and not self._bodiless:
            self._count(len(data))
            self._write(data)
        if not more:
            self._end()

    def _write(self, data: bytes) -> None:
        if self._held:
            self._held += data
        else:
            self.transport.write(data)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self.transport.is_closing():
            self.transport.write(held)

    def _count(self, size: int) -> None:
        if self._left is not None:
            self._left -= size
            if self._left < 0:
                raise RuntimeError("the body is longer than its content-length")

    def _end(self) -> None:
        if self._left:
            raise RuntimeError("the body is shorter than its content-length")
        if self.chunked_encoding:
            self._write(b"0\r\n\r\n")
        self._flush()
        self.response_complete = True
        self._tell = None
        self.message_event.set()
        self.on_response()
