"""One connection to an engine, and the answers that come over it: httptools' parser on asyncio's protocol.

What a relay must know is kept here: whether a byte was heard (else a call may be made again), what came before a break,
that nothing is buffered on the way out (so that a write is a fact), and whether the connection can be used again. The
body is handed over read by read, as it came.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

import httptools

from proxy.headers import Pair

HEAD_LIMIT = 256 * 1024
"""Bytes of an answer's head that are waited for; generous, for what an engine says is passed on, not judged."""
HEADERS_LIMIT = 1000
READ_BUFFER = 128 * 1024
"""Bytes that the client did not take at which reading from the engine pauses."""
HEAD_END = re.compile(rb"\n\r?\n")
LENGTH = re.compile(rb"^(content-length|transfer-encoding):[ \t]*([^\r\n]*?)[ \t]*\r?\n", re.IGNORECASE | re.MULTILINE)
LENIENT = {
    "lenient_headers": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_spaces_after_chunk_size": True,
}
"""What engines may do that RFC 9112 does not allow and no reader is misled by: aiohttp's client bears the same."""
CODING = b"transfer-encoding"
CODINGS: tuple[list[bytes], ...] = ([], [b"chunked"], [b"identity"])
"""Transfer codings that are undone here; another one (RFC 9112 7.2) would reach the client with its name gone."""
BODILESS = frozenset((204, 304))
"""Statuses whose answers have no body, whatever length is stated (RFC 9112 6.3)."""


class Garbled(Exception):
    """What the engine says is not HTTP, or not what was asked for."""


class Head(NamedTuple):
    """The head of an answer."""

    status: int
    headers: list[Pair]
    """As they came: order, duplicates, case; without the blanks around values."""


class Line(asyncio.Protocol):
    """One connection to an engine.

    State: the transport, once and while there is one; of the answer that is due or coming its parser, how it began
    (`_begun`, a head that is not whole), its head, the pieces of its body that nobody took yet with their size, what
    ends it (`_bodiless`, `_until_close`), how many bytes came since that are none of its body (`_barren`), that it is
    over, or what broke it; who waits for news of it, or for the operating system to take what is written. `heard`: a
    byte of it has come. `_spent`: nothing is asked here again.
    """

    __slots__ = (
        "_barren", "_begun", "_bodiless", "_broken", "_drain", "_head", "_headers", "_loop", "_over", "_owed",
        "_parser", "_paused", "_pieces", "_size", "_spent", "_transport", "_until_close", "_waiter", "heard",
        "writing_paused",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._drain: asyncio.Future[None] | None = None
        self._broken: BaseException | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._paused = self._spent = self.writing_paused = False
        self._parser: httptools.HttpResponseParser | None = None
        self._head: Head | None = None
        self._headers: list[Pair] = []
        self._begun = b""
        self._owed = self._bodiless = self._until_close = self._over = self.heard = False
        self._barren = 0

    # --- what the caller does ---

    def expect(self, *, bodiless: bool) -> None:
        """A request goes out: the next head is its answer's, which has no body where `bodiless` (HEAD)."""
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(**LENIENT)
        self._head, self._headers, self._begun = None, [], b""
        self._owed, self._bodiless = True, bodiless
        self._until_close = self._over = self.heard = False
        self._barren = 0

    def write(self, parts: Sequence[bytes]) -> None:
        """Writes all parts; `writing_paused` where not all could go at once."""
        if self._transport is None:
            raise ConnectionResetError("the engine hung up")
        self._transport.writelines(parts)

    async def drained(self) -> None:
        """Returns when the operating system has every byte; ConnectionError when the engine hung up."""
        while self.writing_paused and self._transport is not None:
            self._drain = self._loop.create_future()
            await self._drain
        if self._transport is None:
            raise ConnectionResetError("the engine hung up")

    async def head(self) -> Head:
        """The answer's head; interim answers (1xx) are passed over."""
        while self._head is None:
            if self._broken is not None:
                raise self._broken
            await self._news()
        return self._head

    async def read(self) -> bytes:
        """The body's bytes that came since the last time, as soon as there are any; none: the body is whole.

        Where it breaks off what came before the break is handed over first, then the error raised.
        """
        while not self._pieces:
            if self._over:
                return b""
            if self._broken is not None:
                raise self._broken
            await self._news()
        pieces = self._pieces
        self._pieces, self._size = [], 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def usable(self) -> bool:
        """Open, and nothing stands unread in it."""
        return not self._spent and self._transport is not None and not self._transport.is_closing()

    def fail(self, error: BaseException) -> None:
        """Whoever reads from this line gets `error`, after what came before it."""
        self._spent = True
        self._broken = self._broken or error
        self._wake()

    def hang_up(self) -> None:
        """Closes at once: what was not sent is not sent, and a reader wakes."""
        self.fail(ConnectionAbortedError("closed by us"))
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Closes a line that is idle."""
        self._spent = True
        if self._transport is not None:
            self._transport.close()

    # --- what the connection does ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """No write buffer of our own: "not paused" then means that the operating system has every byte."""
        self._transport = transport
        transport.set_write_buffer_limits(high=0)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of a body that nothing else delimits, if it is no reset; of anything else a break."""
        self._transport = None
        if self._until_close and exc is None and self._broken is None:
            self._over = True
        self.fail(exc if isinstance(exc, OSError) else ConnectionResetError("the engine hung up"))
        self.resume_writing()

    def pause_writing(self) -> None:
        """The operating system takes no more for now."""
        self.writing_paused = True

    def resume_writing(self) -> None:
        """The operating system has every byte, or nobody will take any."""
        self.writing_paused = False
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Bytes of the engine. After what comes behind a whole answer nothing is asked on this line again."""
        if self._owed:
            data = self._past_heads(data if self._begun else data.lstrip(b"\r\n"))  # empty lines end what came before
        if not data:
            return
        if self._over or self._head is None:
            self._spent = True
            return
        size = self._size
        self._parse(data)
        self._barren = self._barren + len(data) if self._size == size else 0
        if self._barren > HEAD_LIMIT:
            self._break(Garbled("trailers or chunk extensions without an end"))
        if self._size > READ_BUFFER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def _past_heads(self, data: bytes) -> bytes:
        """Parses the heads that are whole; what is not for them. A head that is not whole is kept, within a limit."""
        self.heard = self.heard or bool(data)
        data, self._begun = self._begun + data, b""
        while self._owed and (end := HEAD_END.search(data)):
            self._parse(one_length(data[: end.end()]))
            data = data[end.end() :]
        if self._owed and len(data) <= HEAD_LIMIT and data[:5] == b"HTTP/"[: len(data)]:
            self._begun, data = data, b""
        elif self._owed:
            self._break(Garbled(f"the answer does not begin as HTTP does, or its head is over {HEAD_LIMIT} bytes"))
        self._wake()
        return data

    def _parse(self, data: bytes) -> None:
        assert self._parser is not None, "nothing is parsed before something is asked"
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._spent = True
            if not self._over:
                self._break(Garbled(str(error)))

    def _break(self, error: Garbled) -> None:
        self._owed = False
        self.fail(error)
        if self._transport is not None:
            self._transport.close()

    async def _news(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- what the parser finds ---

    def on_message_begin(self) -> None:
        """An answer begins; behind a whole one nobody asked for it."""
        self._spent = self._spent or self._over

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header line, whole; or a trailer's, which ends here as its chunks do."""
        if self._owed:
            self._headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """A head is whole; an interim one (1xx) is not what is owed."""
        assert self._parser is not None
        status, headers = self._parser.get_status_code(), self._headers
        self._headers = []
        if not self._owed or (100 <= status < 200 and status != 101):
            return
        self._owed = False
        names = [name.lower() for name, _ in headers]
        codings = [value.lower() for name, (_, value) in zip(names, headers, strict=True) if name == CODING]
        if status == 101 or codings not in CODINGS or len(headers) > HEADERS_LIMIT:
            self._break(Garbled("an answer that nobody asked for: an upgrade, a transfer coding, or a huge head"))
            return
        self._head = Head(status, headers)
        self._spent = self._spent or not self._parser.should_keep_alive()
        self._bodiless = self._bodiless or status in BODILESS
        stated = b"chunked" in codings or b"content-length" in names
        self._until_close = not (self._bodiless or stated)
        self._over = self._bodiless

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._head is not None and not self._over:
            self._pieces.append(body)
            self._size += len(body)

    def on_message_complete(self) -> None:
        """The answer is whole, or an interim one."""
        self._over = self._head is not None


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
