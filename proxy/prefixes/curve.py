"""Miss-ratio curves in one pass: how many tokens caches of every size would have given.

An LRU cache of a given size holds exactly the keys that were used most recently. So the stack distance of a key (how
many other keys were used since) says for all sizes at once whether it would have been there: one pass answers "what
would twice the KV memory buy". A Fenwick tree over the times of last use counts them exactly in O(log n).

Above a size keys are sampled by their hash (SHARDS, Waldspurger et al., FAST'15): a key is followed when its hash falls
into a fixed share of the space, and distances are scaled up by that share.
"""

from collections.abc import Iterable, Sequence

INFINITE = 1 << 60
"""The distance of a key never seen, and the size of a cache without a limit."""


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


def reuse(stack: Stack, keys: Sequence[int], usable: int, sizes: Sequence[int]) -> list[int]:
    """Leading blocks that caches of these sizes (in blocks) would give, before the request itself is counted."""
    found = [usable] * len(sizes)
    open_ = set(range(len(sizes)))
    for k in range(usable):
        distance = stack.distance(keys[k])
        for which in [w for w in open_ if distance >= sizes[w]]:
            found[which] = k
            open_.discard(which)
        if not open_:
            break
    return found
