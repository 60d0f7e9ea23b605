"""A client's connection in memory: what the server's protocol writes is kept, what it does to the transport noted."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from uvicorn.config import Config

from proxy.cli.frontdoor import FrontDoor, Gate


class PipeSocket:
    """What a protocol asks of a socket."""

    def __init__(self) -> None:
        self.options: list[tuple[int, int, bytes]] = []

    def getpeername(self) -> tuple[str, int]:
        return ("127.0.0.1", 50000)

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 8800)

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        self.options.append((level, option, value))


class Pipe(asyncio.Transport):
    """One side of a connection. `events` tells what happened to it, in order: pause, resume, eof, close, abort."""

    def __init__(self, protocol: asyncio.Protocol, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.written = bytearray()
        self.writes = 0
        self.events: list[str] = []
        self.socket = PipeSocket()
        self._protocol = protocol
        self._loop = loop
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._closing, "written after the close"
        self.written += data
        self.writes += 1

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for data in list_of_data:
            self.write(data)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._end("close")

    def abort(self) -> None:
        self._end("abort")

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.events.append("eof")

    def pause_reading(self) -> None:
        self.events.append("pause")

    def resume_reading(self) -> None:
        self.events.append("resume")

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.socket if name == "socket" else default

    def _end(self, how: str) -> None:
        if not self._closing:
            self._closing = True
            self.events.append(how)
            self._loop.call_soon(self._protocol.connection_lost, None)


class Deaf(asyncio.Transport):
    """A connection to an engine that takes whatever it is told."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Where bytes would wait: nobody looks."""
        return 0 if name == "socket" else default

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Visit:
    """One client's connection to an application behind the front door."""

    def __init__(
        self, app: Any, loop: asyncio.AbstractEventLoop, pipe: Callable[[FrontDoor, Any], Pipe] = Pipe
    ) -> None:
        config = Config(app, http=FrontDoor, ws="none", lifespan="off", interface="asgi3", log_config=None,
                        access_log=False, proxy_headers=False, timeout_keep_alive=75)  # fmt: skip
        config.load()
        self.gate = Gate()
        self.door = FrontDoor(config, self.gate, {}, loop)
        self.pipe = pipe(self.door, loop)
        self.door.connection_made(self.pipe)

    async def send(self, *parts: bytes) -> bytes:
        """Sends each part as one read, and lets the application work after each; what came back since the last call."""
        for part in parts or (b"",):
            if part and not self.pipe.is_closing():
                self.door.data_received(part)
            await turns()
        out = bytes(self.pipe.written)
        self.pipe.written.clear()
        return out

    async def leave(self) -> None:
        self.pipe.close()
        await turns()


async def turns(count: int = 12) -> None:
    """Lets everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)
