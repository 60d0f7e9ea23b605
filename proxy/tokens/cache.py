"""Shapes of pieces that were measured before, by keyed hash. No text is kept.

The key is drawn anew by each process, so that nobody can prepare two texts that share a place.
"""

from collections import OrderedDict
from hashlib import blake2b

from proxy.tokens.shapes import Shape

ENTRY_BYTES = 1_050
"""What one entry takes at most: digest, shape, its numbers, and its place in the table (measured 370 for short pieces,
whose numbers Python shares, to 1,042)."""


class Cache:
    """Shape by digest, least recently used goes first.

    State: the table.
    """

    __slots__ = ("_capacity", "_key", "_table")

    def __init__(self, limit_bytes: int, key: bytes) -> None:
        self._capacity = max(1, limit_bytes // ENTRY_BYTES)
        self._key = key
        self._table: OrderedDict[bytes, Shape] = OrderedDict()

    def __len__(self) -> int:
        return len(self._table)

    def digest(self, data: bytes) -> bytes:
        """The name of this piece in this process."""
        return blake2b(data, digest_size=16, key=self._key).digest()

    def get(self, digest: bytes) -> Shape | None:
        """The shape, or None where it is not known; it counts as used now."""
        shape = self._table.get(digest)
        if shape is not None:
            self._table.move_to_end(digest)
        return shape

    def put(self, digest: bytes, shape: Shape) -> None:
        """Keep this shape; the least recently used one makes room."""
        self._table[digest] = shape
        if len(self._table) > self._capacity:
            self._table.popitem(last=False)
