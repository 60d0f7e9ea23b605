"""A scripted engine: one script a request, in virtual time as an httpx transport, or in real time on a socket.

Both ask `choose(call)` for the script, once the head is known (the body may still be empty: only the socket engine and
the transport know it later), and keep every request that reached them in `calls`.
"""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable

import httpx

from tests.support.clock import ENGINE, VirtualLoop
from tests.support.http1 import Body, End, Head, Messages, encode_chunk, encode_head, request_length
from tests.support.script import Call, Script

Choose = Callable[[Call], Script]


class ScriptedEngine(httpx.AsyncBaseTransport):
    """Plays scripts in virtual time. Several engines may stand behind one transport; `Call.engine` tells them apart."""

    def __init__(self, loop: VirtualLoop, choose: Choose) -> None:
        self.loop = loop
        self.calls: list[Call] = []
        self._choose = choose

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = _call(request, self._now())
        if isinstance(request.stream, httpx.ByteStream):  # it is whole, and may be read again: a script may turn on it
            call.body = b"".join(request.stream)
        script = self._choose(call)
        await self._connected(request, script)
        call.body = b"".join([part async for part in _stream(request)])
        call.at_ns = self._now()
        self.calls.append(call)
        request.extensions.get("sent", lambda: None)()
        try:
            await self._head(call, script)
        except BaseException:  # whatever ends the wait for the head, ends the call
            call.closed_ns = self._now()
            raise
        return httpx.Response(
            script.status,
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in _wire_headers(call, script)],
            stream=_ScriptedBody(self.loop, call, script),
            extensions={"http_version": b"HTTP/1.1"},
        )

    async def _connected(self, request: httpx.Request, script: Script) -> None:
        """Return when there is a connection; raise if there will be none."""
        if script.ending == "refuse":
            raise httpx.ConnectError("connection refused", request=request)
        if script.ending == "unroutable":
            await asyncio.sleep(request.extensions["timeout"]["connect"])
            raise httpx.ConnectTimeout("no connection in time", request=request)

    async def _head(self, call: Call, script: Script) -> None:
        """Return when the head has left; raise if it never does."""
        if script.head_at_ns is None:
            await self.loop.create_future()
        if script.breaks_before_head:
            await self.loop.until(call.at_ns + (script.end_at_ns or 0), ENGINE)
            raise _broken(script)
        await self.loop.until(call.at_ns + (script.head_at_ns or 0), ENGINE)

    def _now(self) -> int:
        return self.loop.clock.now_ns()


class _ScriptedBody(httpx.AsyncByteStream):
    """The body of one answer, read by read."""

    def __init__(self, loop: VirtualLoop, call: Call, script: Script) -> None:
        self._loop = loop
        self._call = call
        self._script = script

    async def __aiter__(self) -> AsyncIterator[bytes]:
        call, script = self._call, self._script
        if script.bodyless(call.method):
            return
        left = script.content_length
        for read in script.reads:
            if read.when_usage_asked and not call.asks_usage:
                continue
            await self._loop.until(call.at_ns + read.at_ns, ENGINE)
            data = read.data if left is None else read.data[:left]
            left = None if left is None else left - len(data)
            if data:
                call.sent.append((call.at_ns + read.at_ns, data))
                yield data
        if left != 0:
            await self._ending(left)

    async def _ending(self, left: int | None) -> None:
        """The end of a body that its length has not ended already."""
        if self._script.end_at_ns is None:
            await self._loop.create_future()
        await self._loop.until(self._call.at_ns + (self._script.end_at_ns or 0), ENGINE)
        if left or self._script.ending != "complete":
            raise _broken(self._script)

    async def aclose(self) -> None:
        if self._call.closed_ns is None:
            self._call.closed_ns = self._loop.clock.now_ns()


def _broken(script: Script) -> httpx.TransportError:
    if script.ending == "reset":
        return httpx.ReadError("connection reset by peer")
    return httpx.RemoteProtocolError("peer closed connection without sending complete message body")


def _call(request: httpx.Request, at_ns: int) -> Call:
    target = request.extensions.get("target", request.url.raw_path)
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in request.headers.raw]
    return Call(request.url.netloc.decode(), request.method, target.decode("latin-1"), headers, b"", at_ns)


async def _stream(request: httpx.Request) -> AsyncIterator[bytes]:
    if isinstance(request.stream, httpx.AsyncByteStream):
        async for part in request.stream:
            yield part


def _wire_headers(call: Call, script: Script) -> list[tuple[str, str]]:
    """The script's headers, and chunked framing where they say nothing of a length."""
    chunked = script.content_length is None and not script.bodyless(call.method)
    said = any(name == "transfer-encoding" for name, _ in script.headers)
    return [*script.headers, ("transfer-encoding", "chunked")] if chunked and not said else list(script.headers)


class SocketEngine:
    """Plays scripts in real time on a TCP port.

    `called`: the host by which clients know it, where that is not the address it listens on. `idle_close_s`: a
    connection that waits longer than this for its next request is closed.
    """

    def __init__(
        self, choose: Choose, *, host: str = "127.0.0.1", called: str | None = None, idle_close_s: float | None = None
    ) -> None:
        # All state: the listener, its port once known, open connections, and the requests that came.
        self.calls: list[Call] = []
        self.port = 0
        self._choose = choose
        self._host = host
        self._called = called or (f"[{host}]" if ":" in host else host)
        self._idle_close_s = idle_close_s
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; again on the same port after `stop`."""
        self._server = await asyncio.start_server(self._connected, self._host, self.port, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse connections, and close those that are open. Stopped already, it stays so."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        connection = _Connection(self, reader, writer)
        try:
            await connection.serve()
        except (ConnectionError, asyncio.CancelledError, TimeoutError):
            pass  # the other side has gone, or the test is over
        finally:
            self._open.discard(task)
            writer.close()

    def choose(self, call: Call) -> Script:
        self.calls.append(call)
        return self._choose(call)

    @property
    def name(self) -> str:
        """host:port, as clients know it."""
        return f"{self._called}:{self.port}"

    @property
    def idle_close_s(self) -> float | None:
        return self._idle_close_s


class _Connection:
    """One connection: requests in, scripts out, one after the other."""

    def __init__(self, engine: SocketEngine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._reader = reader
        self._writer = writer
        self._messages = Messages(request_length)
        self._events: list[Head | Body | End] = []

    async def serve(self) -> None:
        while (call := await self._next_call()) is not None:
            script = self._engine.choose(call)
            playing = asyncio.ensure_future(self._play(call, script))
            watching = asyncio.ensure_future(self._watch(call))
            try:
                await asyncio.wait({playing, watching}, return_when=asyncio.FIRST_COMPLETED)
                if not playing.done() or not playing.result():
                    return
            finally:
                for task in (playing, watching):
                    task.cancel()
                await asyncio.gather(playing, watching, return_exceptions=True)

    async def _next_call(self) -> Call | None:
        """The next request, whole; None when the connection ends or was idle for too long."""
        head, body = None, bytearray()
        while True:
            for event in self._take():
                if isinstance(event, Head):
                    head = event
                elif isinstance(event, Body):
                    body += event.data
                elif head is not None:
                    method, target, _ = head.start
                    at_ns = time.monotonic_ns()
                    return Call(self._engine.name, method, target, head.headers, bytes(body), at_ns)
            idle_s = self._engine.idle_close_s if self._messages.clean else None
            data = await asyncio.wait_for(self._reader.read(1 << 16), idle_s)
            if not data:
                return None
            self._events += self._messages.feed(data)

    def _take(self) -> list[Head | Body | End]:
        """Events up to the end of one message; what follows stays for the next."""
        cut = next((at + 1 for at, event in enumerate(self._events) if isinstance(event, End)), len(self._events))
        taken, self._events = self._events[:cut], self._events[cut:]
        return taken

    async def _watch(self, call: Call) -> None:
        """Return when the other side closes."""
        with contextlib.suppress(ConnectionError):
            while data := await self._reader.read(1 << 16):
                self._events += self._messages.feed(data)
        call.closed_ns = time.monotonic_ns()

    async def _play(self, call: Call, script: Script) -> bool:
        """Send the answer; True if the connection can serve another request."""
        if script.breaks_before_head:
            await _until(call, script.end_at_ns)
            return await self._end(call, script, chunked=False)
        await _until(call, script.head_at_ns)
        self._writer.write(encode_head(f"HTTP/1.1 {script.status} X", _wire_headers(call, script)))
        chunked = script.content_length is None
        for read in () if script.bodyless(call.method) else script.reads:
            if read.when_usage_asked and not call.asks_usage:
                continue
            await _until(call, read.at_ns)
            call.sent.append((time.monotonic_ns(), read.data))
            self._writer.write(encode_chunk(read.data) if chunked else read.data)
            await self._writer.drain()
        await _until(call, script.end_at_ns)
        return await self._end(call, script, chunked)

    async def _end(self, call: Call, script: Script, chunked: bool) -> bool:
        if script.ending == "complete":
            if chunked and not script.bodyless(call.method):
                self._writer.write(encode_chunk(b""))
            await self._writer.drain()
            return call.header("connection") != "close"
        if script.ending == "reset":
            linger = struct.pack("ii", 1, 0)  # closing with linger 0 sends RST in place of FIN
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._writer.transport.abort()
        return False


async def _until(call: Call, at_ns: int | None) -> None:
    if at_ns is None:
        await asyncio.get_running_loop().create_future()
        return
    await asyncio.sleep(max(0.0, (call.at_ns + at_ns - time.monotonic_ns()) / 1e9))
