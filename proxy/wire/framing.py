"""Cuts a body into frames, as byte machines: fed in any pieces, they give the same frames.

SSE as in the HTML standard (9.2.6): a line ends at LF, CR or CRLF, an event at a blank line; `data` lines are joined
with LF; comments and other fields are skipped; a byte order mark counts only at the very start. U+2028 is no line end.
Two differences are deliberate: an event that is still open when the body ends in due form counts as complete, for
clients read it so; and only events with a data field are frames.

The work is linear in the bytes, one byte at a time included. An event over the limit stops the observing, never the
relaying: from then on a machine says nothing and `overflowed` is true.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from proxy.events import Frame, Framing
from proxy.wire.abridging import Ends
from proxy.wire.blocks import LINES, Blocks, lines, parse_block
from proxy.wire.decoding import LONG, crowded

_LF, _CR, _BRACE = b"\n\r{"
_BOM = b"\xef\xbb\xbf"
_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?(?:data|event|id|retry)?:")
"""How an event stream begins."""
_BEGINS, _BLANKS = 64, 64
"""Lines that begin as an object, from the last on, of which one must stand behind the end of another; bytes of blank
lines between the two."""
BITE = 2 * 1024
"""Bytes of a stream that are cut at a time: they may be a thousand frames."""
WHOLE_BITE = 64 * 1024
"""Bytes of a body that is no stream: they are kept, and that is all."""
WHOLE_LIMIT = 1024 * 1024
"""Bytes of a body that is read as a whole, in one go of some milliseconds: an answer that repeats a prompt of 131,072
token ids. What is longer is embeddings and log-probabilities, and its figures stand at its ends."""


class Sse:
    """Server-sent events."""

    bite = BITE

    # State: the open block, whether a block has come yet, whether the next byte begins a block, and whether observing
    # has stopped.
    __slots__ = ("_blocks", "_limit", "_started", "_usual", "overflowed")

    def __init__(self, limit: int) -> None:
        self._blocks = Blocks()
        self._limit = limit
        self._started = False
        self._usual = True
        self.overflowed = False

    def feed(self, data: bytes) -> list[Frame]:
        """The events that these bytes complete."""
        # The usual read is one event of one data line: its first LF is the last byte but one.
        if (
            self._usual
            and data.find(_LF) == len(data) - 2 >= 6
            and data[-1] == _LF
            and data[:6] == b"data: "
            and _CR not in data
            and len(data) <= self._limit
        ):
            self._started = True
            return [tuple.__new__(Frame, (data[6:-2], b""))]
        return self._feed(data)

    def lines(self, reads: Sequence[bytes]) -> bytes:
        """The data of these reads, a line each, where each read is one usual event that begins and ends as an object,
        and none is so long that it may be crowded; else none.

        So no JSON value spans two lines: in none does an object begin right behind the end of another.
        """
        whole, number = b"".join(reads), len(reads)
        if not (self._usual and self._started) or len(whole) > min(self._limit, LONG) or _CR in whole:
            return b""
        # All line ends stand at the end of a read: there is none in the data.
        if whole.count(b"\n") != 2 * number or [read[-3:] for read in reads].count(b"}\n\n") != number:
            return b""
        if whole[:7] != b"data: {" or whole.count(b"\n\ndata: {") != number - 1:
            return b""
        return whole[6:-2].replace(b"\n\ndata: ", b"\n")

    def close(self) -> Iterable[list[Frame]]:
        """The event that was still open."""
        return () if self.overflowed else (self._frames([self._blocks.close()]),)

    def _feed(self, data: bytes) -> list[Frame]:
        if self.overflowed:
            return []
        frames = self._frames(self._blocks.feed(data))
        if len(self._blocks) > self._limit:
            self._stop()
        self._usual = self._started and not len(self._blocks) and not self.overflowed
        return frames

    def _frames(self, blocks: list[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for block in blocks:
            if len(block) > self._limit or lines(block) > LINES:
                self._stop()
                break
            if not self._started:
                self._started, block = True, block.removeprefix(_BOM)
            frame = parse_block(block)
            if frame is not None:
                frames.append(frame)
        return frames

    def _stop(self) -> None:
        self.overflowed = True
        self._blocks.close()


class Ndjson:
    """One JSON text a line; empty lines are no frames."""

    bite = BITE

    # State: the open line, and whether observing has stopped.
    __slots__ = ("_limit", "_open", "overflowed")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = bytearray()
        self.overflowed = False

    def feed(self, data: bytes) -> list[Frame]:
        """The lines that these bytes complete."""
        # The usual read is one line that begins as an object.
        if data.find(_LF) == len(data) - 1 > 1 and data[0] == _BRACE and self._usual(data):
            return [tuple.__new__(Frame, (data[:-1], b""))]
        if self.overflowed:
            return []
        head, end, rest = data.rpartition(b"\n")
        if not end:
            return self._hold(rest, [])
        lines = (bytes(self._open) + head).split(b"\n")
        self._open.clear()
        return self._hold(rest, lines)

    def lines(self, reads: Sequence[bytes]) -> bytes:
        """These reads, where each is one usual line, of the same kind; else none."""
        whole, number = b"".join(reads), len(reads)
        if self._open or self.overflowed or len(whole) > min(self._limit, LONG):
            return b""
        if whole.count(b"\n") != number or [read[-2:] for read in reads].count(b"}\n") != number:
            return b""
        return whole if whole[:1] == b"{" and whole.count(b"\n{") == number - 1 else b""

    def close(self) -> Iterable[list[Frame]]:
        """The line that was still open."""
        lines = [bytes(self._open)]
        self._open.clear()
        return (self._frames(lines),)

    def _usual(self, data: bytes) -> bool:
        return not self._open and data[-2] != _CR and len(data) <= self._limit and not self.overflowed

    def _hold(self, rest: bytes, lines: list[bytes]) -> list[Frame]:
        frames = self._frames(lines)
        self._open += rest
        if self.overflowed or len(self._open) > self._limit:
            self.overflowed = True
            self._open.clear()
        return frames

    def _frames(self, lines: list[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for line in lines:
            if len(line) > self._limit:
                self.overflowed = True
                break
            if line and not line.isspace():
                frames.append(Frame(line.removesuffix(b"\r")))
        return frames


class Whole:
    """A body that is no stream: one frame, when it is here in full; of one over the limit, or of too many objects, what
    stands at its ends.

    A stream that is called something else is cut all the same, at its end: its figures count, its times are not known.
    """

    bite = WHOLE_BITE

    # State: the pieces so far, their size and the room for them, the ends of a body over that, and whether nothing of
    # it was read.
    __slots__ = ("_ends", "_limit", "_pieces", "_room", "_size", "overflowed")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._room = min(limit, WHOLE_LIMIT)
        self._pieces: list[bytes] = []
        self._size = 0
        self._ends: Ends | None = None
        self.overflowed = False

    def feed(self, data: bytes) -> list[Frame]:
        """Nothing yet."""
        self._size += len(data)
        if self._room < self._size <= self._limit and _disguised(b"".join(self._pieces), self._limit):
            self._room = self._limit
        if self._size <= self._room:
            self._pieces.append(data)
            return []
        ends = self._ends = self._ends or Ends()
        for piece in (*self._pieces, data):
            ends.feed(piece)
        self._pieces.clear()
        return []

    def close(self) -> Iterable[list[Frame]]:
        """The body, unless it is empty."""
        body: bytes | None = b"".join(self._pieces) if self._ends is None else self._ends.abridged()
        self._pieces.clear()
        if body and (machine := _disguised(body, self._limit)):
            return _cut(machine, body)
        if body and crowded(body):
            ends = Ends()
            ends.feed(body)
            body = ends.abridged()
        self.overflowed = body is None
        return ([Frame(body)],) if body else ()


def _disguised(body: bytes, limit: int) -> Sse | Ndjson | None:
    """The machine for a stream that is not called one. No JSON text begins as an event does, or has a line end between
    two objects."""
    if _EVENTS.match(body):
        return Sse(limit)
    return Ndjson(limit) if _several(body) else None


def _several(body: bytes) -> bool:
    at = len(body)
    for _ in range(_BEGINS):
        at = body.rfind(b"\n{", 0, at)
        if at < 0 or body[max(0, at - _BLANKS) : at].rstrip(b"\r\n").endswith(b"}"):
            return at > 0
    return False


def _cut(machine: Sse | Ndjson, body: bytes) -> Iterator[list[Frame]]:
    for at in range(0, len(body), BITE):
        yield machine.feed(body[at : at + BITE])
    yield from machine.close()


FRAMINGS: dict[str, type[Sse] | type[Ndjson]] = {
    "text/event-stream": Sse,
    "application/x-ndjson": Ndjson,
    "application/ndjson": Ndjson,
    "application/jsonl": Ndjson,
    "application/jsonlines": Ndjson,
    "application/x-jsonlines": Ndjson,
    "application/stream+json": Ndjson,
}
"""Media types of streams; any other body is whole."""


def media_type(content_type: str) -> str:
    """A content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def streams(content_type: str) -> bool:
    """An answer of this content type is a stream of events."""
    return media_type(content_type) in FRAMINGS


def says_json(content_type: str) -> bool:
    """An answer of this content type is one JSON text."""
    return media_type(content_type).endswith(("/json", "+json"))


def framing_for(content_type: str, limit: int) -> Framing:
    """The machine for a body of this content type; `limit` is the longest frame in bytes."""
    return FRAMINGS.get(media_type(content_type), Whole)(limit)
