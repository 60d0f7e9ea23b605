"""A scripted client: sends its request in timed pieces, leaves when told to, and keeps what it got, with times."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote

from tests.support.clock import CLIENT, LEAVE, VirtualLoop
from tests.support.http1 import Body, End, Head, Messages, answer_length, encode_chunk, encode_head

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Pieces = tuple[tuple[int, bytes], ...]
"""(nanoseconds since the start, bytes); in order of time."""

DEADLINE_S = 20.0
"""How long a client on a socket waits for its answers."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Times are nanoseconds since the client began to send."""

    method: str = "POST"
    target: str = "/v1/chat/completions"
    """As on the wire: query included, already encoded."""
    headers: tuple[tuple[str, str], ...] = ()
    """Names in lower case, host and framing included."""
    pieces: Pieces = ()
    """The body."""
    leaves_ns: int | None = None
    """When the client closes its connection; None: it stays."""

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.pieces)


@dataclass(slots=True)
class Answer:
    """What the client has seen of one answer."""

    began_ns: int
    """When the client began to send."""
    arrived_ns: int
    """When its last byte was handed over."""
    status: int | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    head_ns: int | None = None
    chunks: list[tuple[int, bytes]] = field(default_factory=list)
    end: Literal["complete", "aborted"] | None = None
    """None: no head came, or the client itself left."""
    left_ns: int | None = None
    raised: BaseException | None = None
    """What the app raised, if it did."""

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.chunks)


def simple_request(body: bytes = b"", target: str = "/v1/chat/completions", **more: Any) -> Request:
    """A JSON request that goes at once: POST with a body, GET without one."""
    framing = (("content-type", "application/json"), ("content-length", str(len(body)))) if body else ()
    headers = (("host", "proxy.test"), *framing, *more.pop("headers", ()))
    pieces = ((0, body),) if body else ()
    return Request("POST" if body else "GET", target, headers, pieces, **more)


class ScriptedClient:
    """Drives an ASGI app directly, as a server would, in virtual time.

    `send_ns`: how long every `send` takes, for a client that reads slowly.
    """

    def __init__(self, loop: VirtualLoop, app: App, *, send_ns: int = 0) -> None:
        self._loop = loop
        self._app = app
        self._send_ns = send_ns

    async def ask(self, request: Request) -> Answer:
        """Play one request to its end: the app has returned."""
        exchange = _AsgiExchange(self._loop, request, self._send_ns)
        try:
            await self._app(
                scope_of(request, exchange.abort, exchange.when_gone, exchange.room), exchange.receive, exchange.send
            )
        except Exception as error:  # an app that raises breaks the connection off; the test may ask why
            exchange.answer.raised = error
        return exchange.close()


class _AsgiExchange:
    """The server's half of one exchange."""

    def __init__(self, loop: VirtualLoop, request: Request, send_ns: int) -> None:
        # All state: pieces still to hand over, whether the connection is over, whom to tell of that, and what was seen.
        self._loop = loop
        self._request = request
        self._send_ns = send_ns
        began = loop.clock.now_ns()
        self._left = [(began + at, data) for at, data in request.pieces]
        self._over = asyncio.Event()
        self._tell: Callable[[], None] | None = None
        self.answer = Answer(began, self._left[-1][0] if self._left else began)
        self._leaving = None
        if request.leaves_ns is not None:
            self._leaving = loop.at(began + request.leaves_ns, LEAVE, self._leave)

    def _leave(self) -> None:
        if not self._over.is_set():
            self.answer.left_ns = self._loop.clock.now_ns()
            self._over.set()
            if self._tell is not None:
                self._tell()

    def when_gone(self, tell: Callable[[], None]) -> None:
        """The app wants to be told when the client leaves."""
        self._tell = tell
        if self.answer.left_ns is not None:
            self._loop.call_soon(tell)

    async def receive(self) -> MutableMapping[str, Any]:
        if (self._left or not self._request.pieces) and (message := await self._piece()) is not None:
            return message
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _piece(self) -> MutableMapping[str, Any] | None:
        """The next piece of the body; None once the connection is over."""
        if not self._request.pieces:
            self._request = _begun(self._request)
            return {"type": "http.request", "body": b"", "more_body": False}
        due = asyncio.ensure_future(self._loop.until(self._left[0][0], CLIENT))
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({due, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            due.cancel()
            over.cancel()
        if self._over.is_set():
            return None
        _, data = self._left.pop(0)
        return {"type": "http.request", "body": data, "more_body": bool(self._left)}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._send_ns:
            await self._loop.until(self._loop.clock.now_ns() + self._send_ns, CLIENT)
        if self._over.is_set():
            return  # nobody is there any more; a server drops it, too
        now = self._loop.clock.now_ns()
        if message["type"] == "http.response.start":
            self.answer.status = message["status"]
            self.answer.headers = [(n.decode("latin-1").lower(), v.decode("latin-1")) for n, v in message["headers"]]
            self.answer.head_ns = now
        elif message["type"] == "http.response.body":
            self._body(now, message)

    def room(self) -> Callable[[bytes], None] | None:
        """What writes at once, for a client that reads as fast as bytes come."""
        return None if self._send_ns or self._over.is_set() else self._write

    def _write(self, data: bytes) -> None:
        if self._request.method != "HEAD":
            self.answer.chunks.append((self._loop.clock.now_ns(), data))

    def _body(self, now: int, message: MutableMapping[str, Any]) -> None:
        if data := message.get("body", b""):
            self._write(bytes(data))
        if not message.get("more_body", False):
            self.answer.end = "complete"
            self._over.set()

    def abort(self) -> None:
        """The app breaks the connection off."""
        self._over.set()

    def close(self) -> Answer:
        """The app has returned: without the end of the body it broke the connection off."""
        if self._leaving is not None:
            self._leaving.cancel()
        self._over.set()
        if self.answer.end is None and self.answer.head_ns is not None and self.answer.left_ns is None:
            self.answer.end = "aborted"
        return self.answer


def _begun(request: Request) -> Request:
    """A request without a body, after its one empty message: it has pieces, and none is left."""
    return Request(request.method, request.target, request.headers, ((0, b""),), request.leaves_ns)


def scope_of(
    request: Request,
    abort: Callable[[], None] = lambda: None,
    when_gone: Callable[[Callable[[], None]], None] = lambda tell: None,
    room: Callable[[], Callable[[bytes], None] | None] = lambda: None,
) -> Scope:
    """The ASGI scope that the product's own server makes of a request.

    `abort` breaks the connection off; `when_gone` takes what is to be called when the client leaves,
    `room` gives what writes at once, while the client need not be waited for.
    """
    path, _, query = request.target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8800),
        "state": {},
        "extensions": {
            "phasegate.target": request.target.encode("latin-1"),
            "phasegate.abort": abort,
            "phasegate.gone": when_gone,
            "phasegate.room": room,
        },
    }


class SocketClient:
    """Speaks HTTP/1.1 over a TCP connection of its own, in real time."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    async def ask(self, request: Request) -> Answer:
        """Play one request to its end."""
        head = encode_head(f"{request.method} {request.target} HTTP/1.1", list(request.headers))
        chunked = ("transfer-encoding", "chunked") in request.headers
        pieces = [(at, encode_chunk(data) if chunked else data) for at, data in request.pieces]
        if chunked:
            pieces.append((pieces[-1][0] if pieces else 0, encode_chunk(b"")))
        first = (0, head + (pieces.pop(0)[1] if pieces and pieces[0][0] == 0 else b""))
        raw = tuple((at, data, False) for at, data in (first, *pieces))
        answers = await self.speak(raw, (request.method,), request.leaves_ns)
        return answers[-1]

    async def speak(
        self, raw: tuple[tuple[int, bytes, bool], ...], methods: tuple[str, ...], leaves_ns: int | None = None
    ) -> list[Answer]:
        """Send bytes at their times; (ns, bytes, wait for 100 at most until then). One answer for each method."""
        reader, writer = await asyncio.open_connection(*self._address, limit=1 << 20)
        talk = _Talk(methods)
        sending = asyncio.ensure_future(talk.write(writer, raw))
        reading = asyncio.ensure_future(talk.read(reader))
        try:
            patience_s = DEADLINE_S if leaves_ns is None else leaves_ns / 1e9
            await asyncio.wait({reading}, timeout=patience_s)
            if not reading.done() and leaves_ns is not None:
                talk.leave()
        finally:
            for task in (sending, reading):
                task.cancel()
            await asyncio.gather(sending, reading, return_exceptions=True)
            writer.close()
        return talk.answers


class _Talk:
    """What goes on over one connection."""

    def __init__(self, methods: tuple[str, ...]) -> None:
        # All state: the answers so far (the last may be open), interim answers seen, methods not yet answered.
        self.began_ns = time.monotonic_ns()
        self.answers = [Answer(self.began_ns, self.began_ns)]
        self._methods = list(methods)
        self._continue = asyncio.Event()
        self._interim = False
        self._messages = Messages(lambda head: answer_length(head, self._methods[0] if self._methods else "GET"))

    async def write(self, writer: asyncio.StreamWriter, raw: tuple[tuple[int, bytes, bool], ...]) -> None:
        for at_ns, data, on_continue in raw:
            wait_s = (self.began_ns + at_ns - time.monotonic_ns()) / 1e9
            if on_continue:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._continue.wait(), max(0.0, wait_s))
            else:
                await asyncio.sleep(max(0.0, wait_s))
            writer.write(data)
            await writer.drain()
            self.answers[-1].arrived_ns = time.monotonic_ns()

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Read until every request is answered, or the connection ends."""
        while self._methods:
            try:
                data = await reader.read(1 << 16)
            except ConnectionError:
                break  # a reset is no end, whatever the framing
            events = self._messages.feed(data) if data else self._messages.close()
            for event in events:
                self._saw(event)
            if not data:
                break
        last = self.answers[-1]
        if last.end is None and last.head_ns is not None:
            last.end = "aborted"

    def _saw(self, event: Head | Body | End) -> None:
        now, answer = time.monotonic_ns(), self.answers[-1]
        if isinstance(event, Head):
            if event.status < 200 and event.status != 101:
                self._interim = True
                self._continue.set()
                return
            self._interim = False
            answer.status, answer.headers, answer.head_ns = event.status, event.headers, now
        elif self._interim:
            return
        elif isinstance(event, Body):
            answer.chunks.append((now, event.data))
        else:
            answer.end = "complete"
            self._methods = self._methods[1:]
            if self._methods:
                self.answers.append(Answer(self.began_ns, answer.arrived_ns))

    def leave(self) -> None:
        self.answers[-1].left_ns = time.monotonic_ns()
