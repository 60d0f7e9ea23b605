"""A free port on the loopback, and engines there that a test scripts byte by byte: one coroutine a connection."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

Play = Callable[["Peer"], Awaitable[None]]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Peer:
    """The engine's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.reader = reader
        self.writer = writer
        self.number = number
        """Connections that came before this one."""

    async def head(self) -> bytes:
        """The next request's head."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self, length: int) -> bytes:
        """The next request's head and `length` bytes of body."""
        return await self.head() + await self.reader.readexactly(length)

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def gone(self) -> None:
        """Returns when the proxy has closed this connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    async def hang_up(self) -> None:
        """Returns when this side is closed, and the loop has had a turn to tell the proxy's."""
        self.writer.close()
        await self.writer.wait_closed()
        await asyncio.sleep(0)

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def engine(play: Play, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """An engine's port. A connection is closed when its play is over; a play's own failure fails the test."""
    tasks: list[asyncio.Task[None]] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())  # type: ignore[arg-type]
        try:
            await play(Peer(reader, writer, len(tasks) - 1))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the proxy hung up: what the test asks is on its side
        finally:
            writer.close()

    server = await asyncio.start_server(connected, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(end, AssertionError):
                raise end
