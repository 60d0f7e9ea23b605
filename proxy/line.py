"""One connection to an engine: aiohttp's connection protocol, with what a relay must know of it.

aiohttp's parser and flow control are used as they are, one layer below its session. What is added: whether a byte was
heard (else a call may be made again), that nothing is buffered on the way out (so that a write is a fact), and that no
reader is left waiting.
"""

import asyncio
from collections.abc import Sequence

from aiohttp import ClientError
from aiohttp.client_proto import ResponseHandler


class Line(ResponseHandler):
    """One connection to an engine. `heard`: a byte of the current answer has come."""

    heard = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """No write buffer of our own: "not paused" then means that the operating system has every byte."""
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Bytes of the engine."""
        self.heard = True
        super().data_received(data)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Reads on, if reading was paused: aiohttp asks after every chunk, and would parse nothing each time."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def usable(self) -> bool:
        """Open, and nothing stands unread in it."""
        return self.is_connected() and not self.should_close

    def write(self, parts: Sequence[bytes]) -> None:
        """Writes all parts; `writing_paused` where not all could go at once."""
        if self.transport is None:
            raise ConnectionResetError("the engine hung up")
        self.transport.writelines(parts)

    async def drained(self) -> None:
        """Returns when the operating system has every byte; ConnectionError when the engine hung up."""
        await self._drain_helper()

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        """Whoever reads from this line gets `exc`: also the reader of a body, whom aiohttp leaves waiting when the
        framing turns to garbage."""
        super().set_exception(exc)
        if self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(exc)

    def hang_up(self) -> None:
        """Closes at once: what was not sent is not sent, and a reader wakes."""
        self.set_exception(ClientError("closed by us"))
        self.abort()
