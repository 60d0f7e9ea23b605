"""Miss-ratio curves in one pass: how many tokens caches of every size would have given.

An LRU cache of a given size holds exactly the keys that were used most recently. So the stack distance of a key (how
many other keys were used since) says for all sizes at once whether it would have been there: one pass answers "what
would twice the KV memory buy". A Fenwick tree over the times of last use counts them exactly in O(log n).

Above a size keys are sampled by their hash (SHARDS, Waldspurger et al., FAST'15): a key is followed when its hash falls
into a fixed share of the space, and distances are scaled up by that share.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

INFINITE = 1 << 60
"""The distance of a key never seen, and the size of a cache without a limit."""

EXACT = 65_536
"""Keys up to which a curve is exact: a million tokens, about 15 MB."""

STEPS = 8
"""Buckets an octave of sizes."""


class Stack:
    """Keys in the order of their last use, with exact distances.

    >>> stack = Stack()
    >>> stack.touch([1, 2, 3])
    >>> stack.distance(3), stack.distance(1), stack.distance(9) == INFINITE
    (0, 2, True)
    """

    # State: time of last use per key, a Fenwick tree that counts the live times, the next free time.

    def __init__(self, room: int = 1 << 16) -> None:
        self._last: dict[int, int] = {}
        self._tree = [0] * (room + 1)
        self._now = 0

    def __len__(self) -> int:
        return len(self._last)

    def __contains__(self, key: int) -> bool:
        return key in self._last

    def __iter__(self) -> Iterator[int]:
        """Keys from the least to the most recently used."""
        return iter(self._last)

    def distance(self, key: int) -> int:
        """Keys used after this one was; `INFINITE` for a key that was never used."""
        at = self._last.get(key)
        if at is None:
            return INFINITE
        return len(self._last) - self._count(at)

    def touch(self, keys: Iterable[int]) -> None:
        """Use keys, one after the other: the last one is then the most recent."""
        tree, last = self._tree, self._last
        for key in keys:
            if self._now + 1 >= len(tree):
                self._compact()
                tree, last = self._tree, self._last
            old = last.pop(key, None)
            if old is not None:
                self._add(old, -1)
            self._now += 1
            last[key] = self._now
            self._add(self._now, 1)

    def forget(self, limit: int) -> None:
        """Drop the oldest keys until at most `limit` are left."""
        excess = len(self._last) - limit
        if excess > 0:
            for key in list(self._last)[:excess]:
                self._add(self._last.pop(key), -1)

    def _count(self, at: int) -> int:
        tree, total = self._tree, 0
        while at:
            total += tree[at]
            at &= at - 1
        return total

    def _add(self, at: int, step: int) -> None:
        tree, size = self._tree, len(self._tree)
        while at < size:
            tree[at] += step
            at += at & -at

    def _compact(self) -> None:
        """Number the live keys anew from 1, in a tree with room for as many uses again."""
        self._now = len(self._last)
        self._last = {key: at for at, key in enumerate(self._last, 1)}
        room = max(2 * self._now, len(self._tree) - 1)
        self._tree = [0] + [1 if at <= self._now else 0 for at in range(1, room + 1)]
        for at in range(1, room + 1):
            parent = at + (at & -at)
            if parent <= room:
                self._tree[parent] += self._tree[at]


def reach(stack: Stack, keys: Sequence[int], usable: int) -> list[int]:
    """For each leading block that was ever used: the size of the smallest cache that would give it, less one.

    A block counts only when all before it are there too, so the figures never fall.
    """
    found, most = [], 0
    for key in keys[:usable]:
        most = max(most, stack.distance(key))
        if most >= INFINITE:
            break
        found.append(most)
    return found


def reuse(reached: Sequence[int], size: int) -> int:
    """Leading blocks that a cache of this size (in blocks) gives."""
    return bisect_left(reached, size)


class Curve:
    """The hits of caches of every size, over all requests seen, in bounded memory.

    Exact until `EXACT` keys are known; then every second key is dropped, again and again, and what is left stands for
    the rest.
    """

    # State: the stack of the keys followed, one in how many is followed, blocks and hits by bucket of size.

    def __init__(self, exact: int = EXACT) -> None:
        self._exact = exact
        self._stack = Stack()
        self._every = 1
        self._blocks = 0.0
        self._hits: Counter[int] = Counter()

    @property
    def every(self) -> int:
        """One key in so many is followed; 1: the figures are exact, to the width of a bucket."""
        return self._every

    def add(self, keys: Sequence[int], usable: int, held: Iterable[int]) -> None:
        """Count a request: the blocks it looks up, how many it can use, and the blocks kept after it."""
        every = self._every
        followed = [key for key in keys if key % every == 0]
        asked = sum(1 for key in keys[:usable] if key % every == 0)
        self._blocks += len(keys)
        for distance in reach(self._stack, followed, asked):
            self._hits[_bucket(distance * every)] += every
        self._stack.touch(reversed([key for key in held if key % every == 0]))
        if len(self._stack) > self._exact:
            self._thin()

    def rate(self, size: int) -> float:
        """The share of full blocks that a cache of this many blocks would have given."""
        hits = sum(count for bucket, count in self._hits.items() if bucket <= _bucket(size - 1))
        return min(1.0, hits / self._blocks) if self._blocks else 0.0

    def points(self, sizes: Iterable[int]) -> list[tuple[int, float]]:
        """The curve at these sizes, in blocks."""
        return [(size, self.rate(size)) for size in sizes]

    def _thin(self) -> None:
        self._every *= 2
        kept = [key for key in self._stack if key % self._every == 0]
        self._stack = Stack()
        self._stack.touch(kept)


def _bucket(size: int) -> int:
    """Sizes in steps of an eighth of an octave at least: exact below 16."""
    if size < 2 * STEPS:
        return max(size, 0)
    shift = size.bit_length() - STEPS.bit_length()
    return (size >> shift) + STEPS * shift
