"""Shapes of pieces that were measured before, by keyed hash. No text is kept.

The hash is the interpreter's own (SipHash), whose key is drawn anew by each process, so that nobody can prepare two
texts that share a place.
"""

from collections import OrderedDict

from proxy.tokens.shapes import Shape

ENTRY_BYTES = 1_250
"""What one entry takes at most: hash, shape, its numbers, and its place in the table (measured 400 for short pieces,
whose numbers Python shares, to 1,209)."""


class Cache:
    """Shape by text, least recently used goes first.

    State: the table, by the hash of the text.
    """

    __slots__ = ("_capacity", "_table")

    def __init__(self, limit_bytes: int) -> None:
        self._capacity = max(1, limit_bytes // ENTRY_BYTES)
        self._table: OrderedDict[int, Shape] = OrderedDict()

    def __len__(self) -> int:
        return len(self._table)

    def get(self, text: str) -> Shape | None:
        """The shape, or None where it is not known; it counts as used now."""
        name = hash(text)
        shape = self._table.get(name)
        if shape is not None:
            self._table.move_to_end(name)
        return shape

    def put(self, text: str, shape: Shape) -> None:
        """Keep this shape; the least recently used one makes room."""
        self._table[hash(text)] = shape
        if len(self._table) > self._capacity:
            self._table.popitem(last=False)
