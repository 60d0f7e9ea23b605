"""Edits an answer on its way to the client: event by event, or whole. What no edit concerns passes as it came."""

from collections.abc import Sequence
from typing import Protocol

from proxy.wire.blocks import Blocks

HELD_LIMIT = 1024 * 1024
"""Bytes held back at most. Usage events are under 2 KB; the longest answers are log-probabilities and, with the ids of
131,072 tokens, 900 KB. An edit of this much takes some 2 ms."""


class Edit(Protocol):
    """One change of an answer. It may have state: one for each answer."""

    @property
    def marks(self) -> tuple[bytes, ...]:
        """Bytes of which one stands in every event that it could change."""
        ...

    def event(self, block: bytes) -> bytes | None:
        """The event as the client gets it; None: not at all."""
        ...

    def body(self, text: bytes) -> bytes:
        """The same of an answer that is no stream."""
        ...


class Ending(Protocol):
    """What is said at the end of a stream."""

    @property
    def marks(self) -> tuple[bytes, ...]:
        """Bytes of which one stands in every terminal event."""
        ...

    def ends(self, block: bytes) -> bool:
        """This is the terminal event."""
        ...

    def over(self) -> bool:
        """The body ended in due form."""
        ...

    def words(self, blocks: Sequence[bytes]) -> bytes:
        """Whole lines to send before the end, after a look at the last events of this read."""
        ...


class Events:
    """An event stream that is not compressed.

    Holds back at most one incomplete event, and no more than `limit` bytes of it: a longer one is passed on, and
    nothing is changed any more. Comments inside an event that is taken out stay.
    """

    # State: the open block, whether the last block was taken out and ended in CR, so that its LF may follow, whether
    # neither is so (`_plain`), whether the limit was hit, and what is still to be said at the end.
    __slots__ = ("_blocks", "_edits", "_ending", "_limit", "_marks", "_orphan", "_plain", "_stopped")

    def __init__(self, edits: Sequence[Edit], ending: Ending | None = None, limit: int = HELD_LIMIT) -> None:
        self._edits = edits
        self._ending = ending
        self._marks: tuple[bytes, ...] = ending.marks if ending is not None else ()
        for edit in edits:
            self._marks += edit.marks
        self._blocks = Blocks()
        self._limit = limit
        self._orphan = False
        self._plain = True
        self._stopped = False

    def feed(self, data: bytes) -> bytes:
        """What may be sent on by now."""
        if self._stopped:
            return data
        if self._plain and data[-2:] == b"\n\n" and b"\r" not in data:
            # The usual read: whole events, none of which an edit concerns, or just one.
            if not _any(self._marks, data):
                return data
            if data.find(b"\n") == len(data) - 2 <= self._limit:
                return self._passed((data,), 0)
        blocks = self._blocks.feed(data)
        passed = b"".join([self._passed(blocks, at) for at in range(len(blocks))])
        if lead := self._blocks.lead():
            passed += lead.removeprefix(b"\n") if self._orphan else lead
            self._orphan = False
        if len(self._blocks) > self._limit:
            self._stopped = True
            passed += self._blocks.close()
        self._plain = not len(self._blocks) and not self._orphan
        return passed

    def close(self) -> bytes:
        """What was held back, at the end of the body in whatever form."""
        rest = self._blocks.close()
        due = self._ending is not None and not self._stopped and self._ending.over()
        return self._told(self._kept(rest), [rest]) if due else self._kept(rest)

    def _passed(self, blocks: Sequence[bytes], at: int) -> bytes:
        block = blocks[at]
        kept = self._kept(block)
        if self._ending is None or not self._ending.ends(block):
            return kept
        return self._told(kept, blocks[: at + 1])

    def _told(self, kept: bytes, blocks: Sequence[bytes]) -> bytes:
        """What is said at the end, once, and then this."""
        ending, self._ending = self._ending, None
        words = ending.words(blocks) if ending is not None else b""
        # A line end in front belongs to the event before: its CRLF was cut between two reads.
        return b"\n" + words + kept[1:] if kept.startswith(b"\n") else words + kept

    def _kept(self, block: bytes) -> bytes:
        if self._orphan:
            block = block.removeprefix(b"\n")
        self._orphan = False
        for edit in self._edits:
            if _any(edit.marks, block):
                edited = edit.event(block)
                if edited is None:
                    self._orphan = block.endswith(b"\r")
                    return _comments(block)
                block = edited
        return block


def _any(marks: Sequence[bytes], data: bytes) -> bool:
    return any(map(data.__contains__, marks))  # half of what a generator takes


def _comments(block: bytes) -> bytes:
    """What stays of an event that is taken out: its comments, and line ends in front, which are no part of it."""
    before = block[: len(block) - len(block.lstrip(b"\r\n"))]
    return before + b"".join([line for line in block.splitlines(keepends=True) if line.startswith(b":")])


class Whole:
    """An answer that is no stream, and not compressed. It is held until it is whole; one over `limit` bytes passes as
    it came."""

    # State: the pieces held back and their size; a size over the limit: nothing is held any more.
    __slots__ = ("_edits", "_limit", "_pieces", "_size")

    def __init__(self, edits: Sequence[Edit], limit: int = HELD_LIMIT) -> None:
        self._edits = edits
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> bytes:
        """What may be sent on by now."""
        self._pieces.append(data)
        self._size += len(data)
        return self._taken() if self._size > self._limit else b""

    def close(self) -> bytes:
        """The answer as the client gets it; one that broke off as it came."""
        text = self._taken()
        for edit in self._edits:
            text = edit.body(text)
        return text

    def _taken(self) -> bytes:
        text = b"".join(self._pieces)
        self._pieces.clear()
        return text
