"""One connection to an engine, and the answers that come over it: httptools' parser on asyncio's protocol.

What a relay must know is kept here: whether a byte was heard (else a call may be made again), what came before a break,
that nothing is buffered on the way out (so that a write is a fact), and whether the connection can be used again. The
body is handed over read by read, as it came.
"""

import asyncio
import select
from collections.abc import Callable, Sequence

import httptools

from proxy.head import HEAD_END, Garbled, Head, plain
from proxy.headers import Pair

HEAD_LIMIT = 256 * 1024
"""Bytes of an answer's head that are waited for; generous, for what an engine says is passed on, not judged."""
INTERIM_LIMIT = 100
"""Interim answers (1xx) of one read that are passed over; Go's client took five in all for ten years."""
READ_BUFFER = 128 * 1024
"""Bytes that the client did not take at which reading from the engine pauses."""
LENIENT = {
    "lenient_headers": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_spaces_after_chunk_size": True,
}
"""What engines may do that RFC 9112 does not allow and no reader is misled by: aiohttp's client bears the same."""
CODING = b"transfer-encoding"
CODINGS: tuple[list[bytes], ...] = ([], [b"chunked"], [b"identity"])
"""Transfer codings that are undone here; another one (RFC 9112 7.2) would reach the client with its name gone."""
Taker = Callable[[bytes], bool]
"""Is offered bytes of a body, and says whether it took them."""
BODILESS = frozenset((204, 304))
"""Statuses whose answers have no body, whatever length is stated (RFC 9112 6.3)."""


class Line(asyncio.Protocol):
    """One connection to an engine.

    State: the transport, once and while there is one; of the answer that is due or coming its parser, how it began
    (`_begun`, a head that is not whole), its head, the pieces of its body that nobody took yet with their size, what
    ends it (`_bodiless`, `_until_close`), how many bytes came since that are none of its body (`_barren`), that it is
    over, or what broke it; who waits for news of it, or for the operating system to take what is written; who is
    offered its bytes while a reader waits; what tells of bytes that nobody read. `heard`: a byte of it has come.
    `_asked`: something was asked here; `_spent`: nothing is again.
    """

    __slots__ = (
        "_asked", "_barren", "_begun", "_bodiless", "_broken", "_drain", "_head", "_headers", "_loop",
        "_over", "_owed", "_parser", "_paused", "_pieces", "_size", "_spent", "_taker", "_transport", "_unread",
        "_until_close", "_waiter", "heard", "writing_paused",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._drain: asyncio.Future[None] | None = None
        self._broken: BaseException | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._taker: Taker | None = None
        self._asked = self._paused = self._spent = self.writing_paused = False
        self._unread = select.poll()
        self._parser: httptools.HttpResponseParser | None = None
        self._head: Head | None = None
        self._headers: list[Pair] = []
        self._begun = b""
        self._bodiless = self._until_close = self._over = self.heard = False
        self._owed = True
        self._barren = 0

    # --- what the caller does ---

    def expect(self, *, bodiless: bool) -> None:
        """A request goes out: the next head is its answer's, which has no body where `bodiless` (HEAD).

        What a fresh connection said before (503: too many are here) is the answer: nobody else has asked.
        """
        early, self._asked = self.heard and not self._asked, True
        if early:
            self._spent, self._bodiless = True, self._bodiless or bodiless
            if bodiless and self._head is not None:
                self._over, self._pieces = True, []
            return
        self._head, self._headers, self._begun = None, [], b""
        self._owed, self._bodiless = True, bodiless
        self._until_close = self._over = self.heard = False
        self._barren = 0

    def write(self, parts: Sequence[bytes]) -> None:
        """Writes all parts; `writing_paused` where not all could go at once. Never an empty one: asyncio (3.12 on)
        would try to send it for ever, in each turn of the loop, and not close before."""
        if self._transport is None:
            raise ConnectionResetError("the engine hung up")
        if filled := [part for part in parts if part]:
            self._transport.writelines(filled)

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
        if self._paused and not self._pieces and self._transport is not None:
            self._paused = False  # not before: what a client does not take costs one read
            self._transport.resume_reading()
        while not self._pieces:
            if self._over:
                self._taker = None  # it knows its exchange
                return b""
            if self._broken is not None:
                raise self._broken
            await self._news()
        return self._taken()

    def hand_to(self, taker: Taker) -> None:
        """Offers `taker` what comes of this answer's body while a reader waits, in that very turn of the loop. What it
        takes is not read."""
        self._taker = taker

    def usable(self) -> bool:
        """Open, and nothing has come that nobody asked for."""
        return not (self._spent or self._transport is None or self._transport.is_closing())

    def quiet(self) -> bool:
        """Usable, and nothing stands unread in it."""
        return self.usable() and not self._unread.poll(0)

    def fail(self, error: BaseException) -> None:
        """Whoever reads from this line gets `error`, after what came before it."""
        self._spent = True
        self._broken = self._broken or error
        self._wake()

    def hang_up(self) -> None:
        """Closes at once: what was not sent is not sent, and a reader wakes."""
        self.fail(closed := ConnectionAbortedError("closed by us"))
        # What was raised knows its callers, and through them this line: memory would wait for the collector.
        self._broken, self._pieces, self._taker = closed, [], None
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Closes a line that is idle."""
        self._spent = True
        if self._transport is not None:
            self._transport.close()

    # --- what the connection does ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """No write buffer of our own: "not paused" then means that the operating system has every byte. Over TLS the
        limit itself pauses, also with nothing to write: 0 would be passed at every other read or write."""
        self._transport = transport
        transport.set_write_buffer_limits(high=0 if transport.get_extra_info("sslcontext") is None else 1)
        self._unread.register(transport.get_extra_info("socket"), select.POLLIN)

    def eof_received(self) -> None:
        """The engine says no more. It may still listen, or not: what is not written yet holds up nothing."""
        self._ended(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, and with it the parser, which knows this line."""
        self._transport = self._parser = None
        self._ended(exc)
        self.resume_writing()

    def _ended(self, exc: Exception | None) -> None:
        """The end of a body that nothing else delimits, if it is no reset; of anything else a break."""
        if self._until_close and exc is None and self._broken is None:
            self._over = True
        self.fail(exc if isinstance(exc, OSError) else ConnectionResetError("the engine hung up"))

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
        if self._pieces and self._taker is not None and self._waiter is not None and not self._waiter.done():
            self._offer(self._taker)
        if self._size > READ_BUFFER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        if self._pieces or self._over:
            self._wake()

    def _offer(self, taker: Taker) -> None:
        chunk = self._taken()
        try:
            if not taker(chunk):
                self._pieces, self._size = [chunk], len(chunk)
        except Exception as bug:  # we are called by the connection: it is for the reader
            self._over = False  # its bytes are lost: no reader may take this for the end
            self.fail(bug)

    def _taken(self) -> bytes:
        """The pieces that nobody took yet, which are taken now."""
        pieces, self._pieces, self._size = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _past_heads(self, data: bytes) -> bytes:
        """Parses the heads that are whole; what is not for them. A head that is not whole is kept, within a limit."""
        self.heard = self.heard or bool(data)
        heads, seen = 0, max(len(self._begun) - 2, 0)
        data, self._begun = self._begun + data, b""
        while self._owed and (end := HEAD_END.search(data, seen)):
            heads += 1
            self._take(data[: end.end()])
            if self._owed and heads == INTERIM_LIMIT:
                self._break(Garbled("interim answers without an end"))
            data, seen = data[end.end() :], 0
            data = data.lstrip(b"\r\n") if self._owed else data
        if self._owed and len(data) <= HEAD_LIMIT and data[:5] == b"HTTP/"[: len(data)]:
            self._begun, data = data, b""
        elif self._owed:
            self._break(Garbled(f"the answer does not begin as HTTP does, or its head is over {HEAD_LIMIT} bytes"))
        self._wake()
        return data

    def _take(self, head: bytes) -> None:
        """Parses a head, each anew: an interim one that states a length has no body all the same."""
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(**LENIENT)
        try:
            self._parse(plain(head))
        except Garbled as error:
            self._break(error)

    def _parse(self, data: bytes) -> None:
        assert self._parser is not None, "a head comes first"
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
        await self._waiter

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
        if status == 101 or codings not in CODINGS or status < 100:
            self._break(Garbled("an answer that nobody asked for: an upgrade, a transfer coding, no status"))
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
