"""Blocks of an event stream: what stands between two blank lines, and what it says."""

import re
from collections.abc import Iterator

from proxy.events import Frame

_BLANK = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
"""Two line ends in a row. The second may be a lone CR: an LF that follows later opens the next block, harmlessly."""
_LOOK_BACK = 3
"""Bytes that may belong to a blank line that is not complete yet: CR LF CR."""
LINES = 2_000
"""Lines of an event; of more it is over the limit, whatever its size: engines write one, and each takes 0.2 us."""


class Blocks:
    """Cuts an event stream after each blank line; the blocks joined are the bytes as they came."""

    # State: the bytes since the last blank line, and whether this stream has ever used CR.
    __slots__ = ("_carriage", "_open")

    def __init__(self) -> None:
        self._open = bytearray()
        self._carriage = False

    def __len__(self) -> int:
        """Bytes held back."""
        return len(self._open)

    def feed(self, data: bytes) -> list[bytes]:
        """The blocks that these bytes complete."""
        seen = max(0, len(self._open) - _LOOK_BACK)
        self._open += data
        self._carriage = self._carriage or b"\r" in data
        blocks, start = [], 0
        for end in self._ends(seen):
            blocks.append(bytes(self._open[start:end]))
            start = end
        del self._open[:start]
        return blocks

    def lead(self) -> bytes:
        """Line ends at the beginning of the open block, which lets go of them: they are no part of what it will say. An
        LF may be the second half of a blank line's CRLF, and who waits for it must not wait for the next block."""
        if not self._open or self._open[0] not in b"\r\n":
            return b""
        size = len(self._open) - len(self._open.lstrip(b"\r\n"))
        lead = bytes(self._open[:size])
        del self._open[:size]
        return lead

    def close(self) -> bytes:
        """What is left after the last blank line."""
        rest = bytes(self._open)
        self._open.clear()
        return rest

    def _ends(self, start: int) -> Iterator[int]:
        if self._carriage:
            yield from (found.end() for found in _BLANK.finditer(self._open, start))
            return
        at = self._open.find(b"\n\n", start)
        while at >= 0:
            yield at + 2
            at = self._open.find(b"\n\n", at + 2)


def parse_block(block: bytes) -> Frame | None:
    """The frame of one block of lines; None where it has no data field, or more than `LINES` lines."""
    if b"data" not in block or lines(block) > LINES:
        return None
    data: list[bytes] = []
    name = b""
    for line in block.splitlines():
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return Frame(b"\n".join(data), name) if data else None


def lines(block: bytes) -> int:
    """At least as many lines as the block has; of a short one none: it has few."""
    return block.count(b"\n") + block.count(b"\r") if len(block) > LINES else 0
