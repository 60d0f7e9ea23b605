"""The side that called us: one ASGI connection, as an exchange uses it.

Bytes are handed on as they come. The listener may put four things into `scope["extensions"]`: `phasegate.target`, the
request target's exact bytes, `phasegate.abort`, which breaks the response off so that the client can tell,
`phasegate.gone`, which is told whom to call when the client leaves, and `phasegate.room`, which gives what writes at
once, or nothing while the client must be waited for.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from proxy.errors import BodyTooLarge, ClientGone
from proxy.headers import stated_length

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Writer = Callable[[bytes], None]


class Client:
    """One request's client: reads its body, writes its response, knows when it has left."""

    # State: whether the client has left, and how much of the response is out (`status`, `ended`).
    __slots__ = (
        "_fields", "_offered", "_receive", "_scope", "_send", "ended", "gone", "headers", "method", "path", "room",
        "status", "target",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.method: str = scope["method"]
        self.headers: Headers = scope["headers"]
        self._fields = dict(reversed(self.headers))  # the first of a name stays
        self._offered: dict[str, Any] = scope.get("extensions") or {}
        self.path: str = scope["path"]
        self.target: bytes = _target(scope, self._offered.get("phasegate.target"))
        self.room: Callable[[], Writer | None] = self.extension("phasegate.room") or _no_room
        """What writes a piece of the body at once; None where `send` may wait: always, if the server does not tell."""
        self.gone = False
        self.status: int | None = None
        self.ended = False

    def header(self, name: bytes) -> bytes | None:
        """The first header line of this name (lower case)."""
        return self._fields.get(name)

    @property
    def has_body(self) -> bool:
        """The head announces a body (RFC 9112, 6.3)."""
        return b"content-length" in self._fields or b"transfer-encoding" in self._fields

    @property
    def upgrade(self) -> str | None:
        """The protocol that the client wants to go on with; h2c may be ignored (RFC 9110, 7.8), and is."""
        if b"upgrade" not in self._fields:
            return None
        wanted = self._fields[b"upgrade"].decode("latin-1").strip()
        return wanted if wanted.lower() not in ("", "h2c") else None

    @property
    def preflight(self) -> bool:
        """A browser asks leave for a request to come (Fetch, 4.8)."""
        return self.method == "OPTIONS" and self.header(b"access-control-request-method") is not None

    @property
    def address(self) -> str | None:
        """Where it calls from."""
        peer = self._scope.get("client")
        return peer[0] if peer else None

    async def body(self, limit: int, heard: Callable[[], None] = lambda: None) -> bytes:
        """The whole request body; `heard` is called at each piece. Raises BodyTooLarge before reading more than `limit`
        bytes, ClientGone."""
        announced = stated_length(self.header(b"content-length") or b"0")
        if announced > limit:
            raise BodyTooLarge(f"the body has {announced} bytes, over the limit of {limit} (body_limit_bytes)")
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            part, more = await self._piece()
            size += len(part)
            if size > limit:
                raise BodyTooLarge(f"the body has more than {limit} bytes (body_limit_bytes)")
            parts.append(part)
            heard()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def stream(self) -> AsyncIterator[bytes]:
        """The request body, piece by piece. Raises ClientGone."""
        more = True
        while more:
            part, more = await self._piece()
            if part:
                yield part

    async def _piece(self) -> tuple[bytes, bool]:
        """The next piece of the body, which may be empty, and whether more follows. Raises ClientGone."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone = True
            raise ClientGone("the client left while sending its body")
        return message.get("body") or b"", bool(message.get("more_body"))

    async def left(self) -> None:
        """Returns when the client has left. The body must have been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True

    def start(self, status: int, headers: Headers) -> Awaitable[None]:
        """Send status and headers."""
        self.status = status
        return self._send({"type": "http.response.start", "status": status, "headers": headers})

    def send(self, data: bytes) -> Awaitable[None]:
        """Send a piece of the response's body; waits while the client reads slowly."""
        return self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """End the response in due form."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        self.ended = True

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole response of our own."""
        self.status = status
        self.ended = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def abort(self) -> None:
        """Break the response off: the client must be able to tell that it is not whole."""
        abort = self.extension("phasegate.abort")
        if abort is not None:
            abort()

    def extension(self, name: str) -> Callable[..., Any] | None:
        """What the listener offers under this name."""
        offered: Callable[..., Any] | None = self._offered.get(name)
        return offered


class Watch:
    """Looks out for the client's leaving while the exchange does something else.

    Where the listener calls us (`phasegate.gone`) nothing runs meanwhile; else a task waits for ASGI's word.
    """

    # State: whom to tell (None: nobody any more), and the task.
    __slots__ = ("_client", "_leave", "_task")

    def __init__(self, client: Client, leave: Callable[[], None]) -> None:
        self._client = client
        self._leave: Callable[[], None] | None = leave
        self._task: asyncio.Task[None] | None = None
        when_gone = client.extension("phasegate.gone")
        if when_gone is not None:
            when_gone(self._gone)
        else:
            self._task = asyncio.ensure_future(self._look())

    def close(self) -> None:
        """Look no longer."""
        self._leave = None
        if self._task is not None:
            self._task.cancel()

    async def _look(self) -> None:
        await self._client.left()
        self._gone()

    def _gone(self) -> None:
        self._client.gone = True
        if self._leave is not None:
            self._leave()


def _no_room() -> None:
    """A server that does not say when the client must be waited for."""


def _target(scope: Scope, exact: Any) -> bytes:
    if exact is not None:
        return bytes(exact)
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    return path + b"?" + query if query else path
