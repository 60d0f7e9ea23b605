"""The admin listener's socket and its door: uvicorn's protocol, with a bound on all that a client may take its time
over.

One request has so many bytes and so many seconds, from its first byte (or the connection's beginning) to the answer's
last. There are so many connections; one more pushes out the one whose last request began longest ago, so that whoever
squats them all locks nobody out, least of all a health check.
"""

import asyncio
import socket
from typing import Any

import structlog
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

REQUEST_S = 15.0
"""Seconds for a request and its answer: Prometheus waits 10 by default."""
REQUEST_BYTES = 64 * 1024
"""Of head and body; no path here reads a body."""
KEEP_ALIVE_S = 5
"""Seconds that a connection may idle: uvicorn's default."""
CONNECTIONS = 64
"""At once: a scraper, probes, some people; the answers that they have not taken yet are some megabytes each."""

log = structlog.get_logger("phasegate.office")


def listen(host: str, port: int) -> socket.socket | None:
    """The admin listener's socket; None, and an error in the log, where the address cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        log.error("admin_not_listening", address=f"{host}:{port}", error=error.strerror or str(error))
        return None


async def answer(admin: ASGIApp, listener: socket.socket) -> None:
    """Answers on this socket, for ever. A task of its own; when it is cancelled every connection is cut."""
    config = Config(
        admin,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    config.load()
    gate, loop = Gate(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Door(config, gate, {}, loop), sock=listener, backlog=CONNECTIONS)
    try:
        await asyncio.Event().wait()
    finally:
        server.close()
        for door in tuple(gate.doors):
            door.transport.abort()


class Gate(ServerState):
    """What the connections share: themselves, in the order in which their last requests began."""

    def __init__(self) -> None:
        super().__init__()
        self.doors: dict[Door, None] = {}

    def begins(self, door: "Door") -> None:
        """A request of this connection, maybe its first: the connection that is first in order makes room."""
        self.leave(door)
        self.doors[door] = None
        if len(self.doors) > CONNECTIONS:
            oldest = next(iter(self.doors))
            self.leave(oldest)
            oldest.transport.abort()

    def leave(self, door: "Door") -> None:
        """One less."""
        self.doors.pop(door, None)


class Door(HttpToolsProtocol):
    """One connection. Mutable state beside uvicorn's: bytes of the request so far, and when it must be over."""

    server_state: Gate
    _late: asyncio.TimerHandle | None = None
    _size = 0

    def connection_made(self, transport: Any) -> None:
        """A client connects: its request is due."""
        super().connection_made(transport)
        self._due()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left, or was cut."""
        self._over()
        self.server_state.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        if not self._size and self._out:
            self._over()  # a new request has time of its own
        self._size += len(data)
        if self._size > REQUEST_BYTES:
            self.transport.abort()
            return
        self._due()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Answered, if not read yet; the next request may have come already."""
        self._size = 0
        if self._out:
            self._over()
        super().on_response_complete()
        if not self.cycle.response_complete:
            self._due()

    @property
    def _out(self) -> bool:
        """No answer is due, and the client has read the last one, or its socket has."""
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.get_write_buffer_size()

    def _due(self) -> None:
        if self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(REQUEST_S, self._expire)
            self.server_state.begins(self)

    def _expire(self) -> None:
        self._late = None
        if self._size or self.cycle is None or not self._out:
            self.transport.abort()

    def _over(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
