"""Compressed answers, inflated to be observed: piece by piece, and no more than was agreed."""

import zlib
from collections.abc import Callable, Iterator

_PIECE = 64 * 1024
"""Bytes inflated at a time, so that a small chunk cannot ask for a large buffer."""


class Bomb(Exception):
    """The answer inflates to more than we are willing to look at."""


UNSOUND = (Bomb, zlib.error)
"""What inflating raises over bytes that are not what they should be."""


class Inflater:
    """Inflates a copy piece by piece, at most `limit` bytes in all; members that follow one another are one body."""

    # State: the decompressor of the member that is open (None before its first byte), and the bytes given so far.
    __slots__ = ("_given", "_limit", "_member", "_start")

    def __init__(self, start: Callable[[bytes], "zlib._Decompress"], limit: int) -> None:
        self._start = start
        self._member: zlib._Decompress | None = None
        self._limit = limit
        self._given = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What this piece inflates to; zlib.error where it is not what its header says."""
        full = False
        while data or full:
            member = self._member or self._start(data)
            piece = member.decompress(data, _PIECE)
            self._given += len(piece)
            if self._given > self._limit:
                raise Bomb
            yield piece
            self._member = None if member.eof else member
            data = member.unused_data if member.eof else member.unconsumed_tail
            # All input taken, yet the output was cut off: more of it waits inside.
            full = len(piece) == _PIECE and not member.eof


def _gzip(_: bytes) -> "zlib._Decompress":
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _deflate(data: bytes) -> "zlib._Decompress":
    # RFC 9110 8.4.1.2 means zlib, some servers send raw deflate: a zlib header has 8 in its low nibble.
    wrapped = data[0] & 0x0F == 8
    return zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)


_STARTS = {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate}
_PLAIN = ("", "identity")


def inflater(encoding: str, limit: int) -> tuple[Inflater | None, str | None]:
    """Who inflates a copy in this content encoding (None: it is plain), or why nobody does."""
    if encoding in _PLAIN:
        return None, None
    if encoding in _STARTS:
        return Inflater(_STARTS[encoding], limit), None
    return None, f"content encoding {encoding[:20]} is not read"
