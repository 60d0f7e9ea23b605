"""The wire to the engines: httpx's transport interface over lines of our own (`line`).

At this layer there is no cookie jar, no header of its own, no URL to quote, no redirect, no environment proxy, no
request that is repeated behind our back, and it costs a fraction of a client's session.

What stands in `request.extensions`: `target` (httpx's: the raw request target), `timeout` (httpx's: `connect`,
seconds), `sent` (ours: called when a request in memory is about to be handed to the operating system, and when one that
it did not take at once has been handed over whole). In `response.extensions`: `hand_to` (ours: takes who is offered the
body's bytes as soon as they come, a `line.Taker`).
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from urllib.parse import urlsplit

import aiohappyeyeballs
import httpx

from proxy.config import Upstream
from proxy.head import Garbled, Head
from proxy.headers import stated_length
from proxy.idle import Idle
from proxy.line import Line
from proxy.messages import EngineAddress

HAPPY_EYEBALLS_S = 0.25
"""RFC 8305 5: the connection attempt delay."""
STALE_S = 0.03
"""A reused line that the engine had closed is found dead in a round trip; so much later our loop may be. One that dies
later took the request with it, which may be what killed the engine: it is not said again."""
TCP_INFO, RTT_AT = getattr(socket, "TCP_INFO", None), 68
"""Linux' `struct tcp_info` (include/uapi/linux/tcp.h), and where in it `tcpi_rtt` stands: 32 bits, microseconds."""
PORTS = {"http": 80, "https": 443}
CONNECTING: Mapping[type[Exception], type[httpx.TransportError]] = {
    TimeoutError: httpx.ConnectTimeout,
    OSError: httpx.ConnectError,  # refused, unknown host, TLS: all of them are OSErrors
    UnicodeError: httpx.ConnectError,  # a host name that is none
}
SPEAKING: Mapping[type[Exception], type[httpx.TransportError]] = {
    Garbled: httpx.RemoteProtocolError,
    OSError: httpx.ReadError,
}


class Call(httpx.AsyncByteStream):
    """One request on one line, and the body of its answer: a chunk for each read from the socket.

    Mutable state: `_upload` (the rest of the request, where the operating system did not take it at once), `_early`
    (the answer began before all of that was out: what does the engine take it for?), `_open` (the line is still ours).
    """

    def __init__(self, line: Line, give_back: Callable[[Line], None]) -> None:
        self._line = line
        self._give_back = give_back
        self._upload: asyncio.Task[None] | None = None
        self._early = False
        self._open = True

    async def begin(self, request: httpx.Request) -> Head:
        """Sends the request and returns the answer's head; interim answers (1xx) are swallowed."""
        self._line.expect(bodiless=request.method == "HEAD")
        with suppress(OSError):  # an engine that hung up may have answered: reading tells
            self._send(request)
        head = await self._line.head()
        self._early = self._upload is not None and not self._upload.done()
        return head

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next read's bytes; httpx.ReadError where the framing breaks off, after all bytes before the break."""
        if not self._open:
            raise StopAsyncIteration
        try:
            chunk = await self._line.read()
        except tuple(SPEAKING) as error:
            raise _translated(SPEAKING, error) from error
        if not chunk:
            self._end()
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Ends the call: an unfinished one closes its connection at once. No task is left."""
        if self._open:
            self._open = False
            self._line.hang_up()
        if self._upload is not None and not self._upload.done():
            self._upload.cancel()
            await asyncio.wait((self._upload,))

    def _end(self) -> None:
        """The body is whole. The line goes back, if the request had gone out whole before."""
        if not self._early:
            self._open = False
            self._give_back(self._line)

    def _send(self, request: httpx.Request) -> None:
        """Writes what can be written now; a task does the rest."""
        stream, line = request.stream, self._line
        whole = isinstance(stream, httpx.SyncByteStream)
        if whole:
            # Before the call: it can hand the processor to the engine, whose clock would then start before ours (4 ms
            # seen on a busy machine), and its durations would not fit in what is left.
            _mark_sent(request)
        line.write((_head(request), *stream) if isinstance(stream, httpx.SyncByteStream) else (_head(request),))
        if whole and not line.writing_paused:
            return
        self._upload = asyncio.create_task(_rest(line, request))
        self._upload.add_done_callback(self._sent)

    def _sent(self, upload: asyncio.Task[None]) -> None:
        """A body that could not be had ends the call; an engine that hung up may have answered: reading tells."""
        if not upload.cancelled() and (error := upload.exception()) and not isinstance(error, OSError):
            self._line.fail(error)


def trust(engines: Iterable[Upstream | EngineAddress]) -> dict[str, str]:
    """CA files by authority, of engines that have one of their own."""
    return {urlsplit(engine.url).netloc: engine.ca_file for engine in engines if engine.ca_file}


class Wire(httpx.AsyncBaseTransport):
    """Connections to engines: opened when needed, kept for a while (`idle`), as many as there are calls.

    `trust`: CA files by authority (`gpu1:8443`) for engines with a certificate of their own; others are checked
    against the system's. Raises OSError for a file that cannot be read. Mutable state: the idle lines of each origin.

    The declared retry: a reused line that is found dead, before any byte of the answer came, is replaced once, by a
    fresh one. `sent` is then called again. A body that streams could not be sent again: it goes out on a fresh line at
    once.
    """

    def __init__(self, trust: Mapping[str, str] | None = None) -> None:
        self._trust = {
            httpx.URL(f"https://{authority}").netloc: ssl.create_default_context(cafile=file)
            for authority, file in (trust or {}).items()
        }
        self._idle: dict[tuple[str, str, int | None], Idle] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One attempt at the engine, save the declared retry; raises httpx's transport errors."""
        url = request.url
        origin = (url.scheme, url.host, url.port)
        idle = self._idle.get(origin) or self._idle.setdefault(origin, Idle())
        line = idle.take() if isinstance(request.stream, httpx.SyncByteStream) else None
        if line is not None:
            loop = asyncio.get_running_loop()
            too_late = loop.time() + STALE_S + 2 * idle.trip_s
            try:
                return await _spoken(line, idle, request)
            except httpx.ReadError:
                if line.heard or loop.time() > too_late:
                    raise
        try:
            line = await self._connected(request, idle)
        except tuple(CONNECTING) as error:
            raise _translated(CONNECTING, error) from error
        return await _spoken(line, idle, request)

    async def aclose(self) -> None:
        """Closes the idle lines; calls in progress belong to their callers."""
        for idle in self._idle.values():
            idle.close()

    async def _connected(self, request: httpx.Request, idle: Idle) -> Line:
        """A fresh line: all addresses of the host are tried (RFC 8305), so `localhost` may mean either family."""
        url, loop = request.url, asyncio.get_running_loop()
        host = url.raw_host.decode("ascii")
        context = self._context(url)
        async with asyncio.timeout(request.extensions.get("timeout", {}).get("connect")):
            places = await loop.getaddrinfo(host, url.port or PORTS[url.scheme], type=socket.SOCK_STREAM)
            sock = await aiohappyeyeballs.start_connection(
                places, happy_eyeballs_delay=HAPPY_EYEBALLS_S, interleave=1, loop=loop
            )
            idle.trip_s = trip_s(sock)
            _, line = await loop.create_connection(
                partial(Line, loop), sock=sock, ssl=context, server_hostname=host if context else None
            )
        return line

    def _context(self, url: httpx.URL) -> ssl.SSLContext | None:
        if url.scheme != "https":
            return None
        return self._trust.get(url.netloc) or self._public

    @cached_property
    def _public(self) -> ssl.SSLContext:
        return ssl.create_default_context()


def trip_s(sock: socket.socket) -> float:
    """The round trip as the system measured it when this connection was made, however late our loop was; 0 where it
    does not tell."""
    if TCP_INFO is None:
        return 0.0
    rtt_us: int = struct.unpack_from("=I", sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, RTT_AT + 4), RTT_AT)[0]
    return rtt_us / 1e6


async def _spoken(line: Line, idle: Idle, request: httpx.Request) -> httpx.Response:
    """The answer's head on this line, its body still to be read. Whatever goes wrong, nothing is left open."""
    call = Call(line, idle.park)
    try:
        head = await call.begin(request)
    except tuple(SPEAKING) as error:
        await call.aclose()
        raise _translated(SPEAKING, error) from error
    except BaseException:
        await call.aclose()
        raise
    return httpx.Response(head.status, headers=head.headers, stream=call, extensions={"hand_to": line.hand_to})


def _head(request: httpx.Request) -> bytes:
    """The request's head, every byte as it was given. Raises httpx.LocalProtocolError for bytes that would break it."""
    target = request.extensions.get("target", request.url.raw_path)
    pairs = request.headers.raw
    lines = [b"%b %b HTTP/1.1\r\n" % (request.method.encode("ascii"), target)]
    lines += [b"%b: %b\r\n" % pair for pair in pairs]
    head = b"".join((*lines, b"\r\n"))
    ends = len(pairs) + 2
    if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head or b" " in target:
        raise httpx.LocalProtocolError("a header or the target holds a line end")
    return head


async def _rest(line: Line, request: httpx.Request) -> None:
    """Writes what is left of the request: of bytes what the system did not take, of a stream all."""
    stream = request.stream
    if isinstance(stream, httpx.AsyncByteStream) and not isinstance(stream, httpx.SyncByteStream):
        await _uploaded(line, stream, request.headers.get("content-length"))
    await line.drained()
    _mark_sent(request)


async def _uploaded(line: Line, stream: httpx.AsyncByteStream, length: str | None) -> None:
    """Streams the body: chunked, or exactly as long as `content-length` says."""
    left = None if length is None else stated_length(length.encode("latin-1"))
    async for chunk in stream:
        if left is None and chunk:
            line.write((b"%x\r\n" % len(chunk), chunk, b"\r\n"))
        elif left is not None:
            left -= len(chunk)
            line.write((chunk,))
        if left is not None and left < 0:
            raise httpx.LocalProtocolError("the body is longer than its content-length")
        await line.drained()
    if left is None:
        line.write((b"0\r\n\r\n",))
    elif left:
        raise httpx.LocalProtocolError("the body is shorter than its content-length")


def _mark_sent(request: httpx.Request) -> None:
    request.extensions.get("sent", _nobody)()


def _nobody() -> None:
    """Nobody asked when the request was sent."""


def _translated(table: Mapping[type[Exception], type[httpx.TransportError]], error: Exception) -> httpx.TransportError:
    return next(ours for theirs, ours in table.items() if isinstance(error, theirs))(str(error))
