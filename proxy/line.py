"""One connection to an engine: aiohttp's connection protocol, with what a relay must know of it.

aiohttp's parser and flow control are used as they are, one layer below its session. What is added: whether a byte was
heard (else a call may be made again), that nothing is buffered on the way out (so that a write is a fact), that no
reader is left waiting, and that a head is parsed alone: of a read that turns to garbage aiohttp would drop the good
part, the head, and with it the way to what followed.
"""

import asyncio
import re
from collections.abc import Sequence

from aiohttp import ClientError, StreamReader
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError, RawResponseMessage

HEAD_LIMIT = 256 * 1024
"""Bytes of an answer's head that are waited for, and of one header line; generous, for what an engine says is passed
on, not judged."""
HEAD_END = re.compile(rb"\n\r?\n")
LENGTH = re.compile(rb"^(content-length|transfer-encoding):[ \t]*([^\r\n]*?)[ \t]*\r?\n", re.IGNORECASE | re.MULTILINE)


class Line(ResponseHandler):
    """One connection to an engine.

    State beside aiohttp's: `heard` (a byte of the current answer has come), `owed` (its head has not), and the
    beginning of a head that is not whole.
    """

    heard = False
    owed = False
    _begun = b""

    def expect(self) -> None:
        """A request goes out: the next head is its answer's."""
        self.heard, self.owed, self._begun = False, True, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """No write buffer of our own: "not paused" then means that the operating system has every byte."""
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Bytes of the engine. After what comes behind a whole answer nothing is asked on this line again."""
        if self.owed and not self._begun:
            data = data.lstrip(b"\r\n")  # empty lines end what came before, if anything: they begin no answer
        self.heard = self.heard or bool(data)
        if self.owed and not (data := self._past_head(data)):
            return
        if data and not self.owed and self._payload is not None and self._payload.is_eof():
            self.force_close()
        super().data_received(data)

    def _past_head(self, data: bytes) -> bytes:
        """Parses the heads that are whole; what is not for them. A head that is not whole is kept, within a limit."""
        data, self._begun = self._begun + data, b""
        while self.owed and (end := HEAD_END.search(data)):
            super().data_received(one_length(data[: end.end()]))
            data = data[end.end() :]
        if self.owed and data.startswith(b"HTTP/") and len(data) <= HEAD_LIMIT:
            data, self._begun = b"", data
        return data

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """A head is whole; an interim one (1xx) is not what is owed."""
        self.owed = data[0].code < 200
        super().feed_data(data, size)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Reads on, if reading was paused: aiohttp asks after every chunk, and would parse nothing each time."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def usable(self) -> bool:
        """Open, and nothing stands unread in it."""
        return self.is_connected() and not self.should_close and not self._begins()

    def _begins(self) -> bool:
        """The parser holds the beginning of one more head, that nobody asked for; only an end makes it say so."""
        try:
            return self._parser is not None and self._parser.feed_eof() is not None
        except HttpProcessingError:
            return True

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


def one_length(head: bytes) -> bytes:
    """The head with its body's length stated once, where that is clear: chunks go before a number (RFC 9112, 6.3), and
    a number may be repeated (RFC 9110, 8.6). What contradicts itself is left for the parser to refuse."""
    stated = LENGTH.findall(head)
    if len(stated) < 2 and not (stated and b"," in stated[0][1]):
        return head
    codings = [value.lower() for name, value in stated if name.lower() == b"transfer-encoding"]
    if codings and codings[-1].endswith(b"chunked"):
        return LENGTH.sub(lambda line: line[0] if line[1].lower() == b"transfer-encoding" else b"", head)
    numbers = {part.strip() for _, value in stated for part in value.split(b",")}
    if codings or len(numbers) > 1:
        return head
    once = iter((b"%b: %b\r\n" % (stated[0][0], *numbers),))
    return LENGTH.sub(lambda line: next(once, b""), head)
