"""A listening address, without uvicorn's server around it: signals and draining are the caller's."""

import asyncio
from typing import Any

from uvicorn.config import Config

from proxy.cli.frontdoor import FrontDoor, Gate

KEEP_ALIVE_S = 75
"""Seconds a connection may idle: nginx's default, longer than client pools keep theirs, so that they close first."""
BACKLOG = 2048
"""Connections that wait to be accepted: uvicorn's default."""


class Listener:
    """One listening address: start, stop accepting, abort, in this order.

    `start` raises OSError where the address cannot be bound.
    """

    def __init__(self, app: Any, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._config = Config(
            app,
            http=FrontDoor,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._gate = Gate()
        self._server: asyncio.Server | None = None

    @property
    def malformed(self) -> int:
        """Requests that were answered here because they are no good HTTP."""
        return self._gate.malformed

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens, as bound."""
        return [sock.getsockname()[:2] for sock in self._server.sockets] if self._server is not None else []

    async def start(self) -> None:
        """Binds and accepts."""
        loop = asyncio.get_running_loop()
        self._config.load()
        self._server = await loop.create_server(
            lambda: FrontDoor(self._config, self._gate, {}, loop), self._host, self._port, backlog=BACKLOG
        )

    def stop_accepting(self) -> None:
        """Takes no new connection and no new request; what runs goes on."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._gate.connections):
            connection.shutdown()

    def abort(self) -> None:
        """Breaks every connection off."""
        for connection in tuple(self._gate.connections):
            connection.transport.abort()
