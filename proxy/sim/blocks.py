"""Paged KV memory with a prefix cache, by vLLM's rules.

* A full block is known by the chain of everything before it. It can be found as soon as it is scheduled.
* Free blocks wait in a queue and are reused from its head. A freed block with contents goes to the end, the last of a
  sequence first; one without goes to the head. Contents are forgotten only when the block is handed out again.
* A hit takes a free block out of the queue.
* Block 0 is a placeholder and is never handed out.
"""

from collections import OrderedDict
from collections.abc import Sequence

Chain = int
"""Name of a full block and of all that is before it."""


def chain(parent: Chain, tokens: tuple[int, ...], salt: str) -> Chain:
    """Name of the block that holds `tokens` after `parent` (0 for the first, the only one that is salted)."""
    return hash((parent, tuple(salt.encode()), tokens))


class Blocks:
    """The pool. State: references per block, the free queue, and both ways between contents and blocks."""

    def __init__(self, count: int) -> None:
        self._references = [0] * count
        self._free: OrderedDict[int, None] = OrderedDict((block, None) for block in range(1, count))
        self._named: dict[Chain, dict[int, None]] = {}
        self._names: dict[int, Chain] = {}

    def __repr__(self) -> str:
        return f"<Blocks {len(self._free)} free of {self.usable}, {len(self._names)} with contents>"

    @property
    def usable(self) -> int:
        """Blocks that can be handed out."""
        return len(self._references) - 1

    @property
    def free(self) -> int:
        """Blocks that nobody holds; their contents may still be found."""
        return len(self._free)

    def find(self, chains: Sequence[Chain]) -> list[int]:
        """Blocks of the longest run of `chains`, from the first, that is cached."""
        found = []
        for name in chains:
            holders = self._named.get(name)
            if not holders:
                break
            found.append(next(iter(holders)))
        return found

    def idle(self, blocks: Sequence[int]) -> int:
        """How many of `blocks` nobody holds: taking them costs free blocks."""
        return sum(not self._references[block] for block in blocks)

    def hold(self, blocks: Sequence[int]) -> None:
        """One more reference to each of these cached blocks."""
        for block in blocks:
            if not self._references[block]:
                del self._free[block]
            self._references[block] += 1

    def take(self, count: int) -> list[int]:
        """Hand out free blocks from the head of the queue, their contents forgotten; raises KeyError when short."""
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._forget(block)
            self._references[block] = 1
        return taken

    def name(self, block: int, name: Chain) -> None:
        """The block is full: from now on it can be found."""
        self._names[block] = name
        self._named.setdefault(name, {})[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """Give back one sequence's blocks, in the order of the sequence."""
        for block in blocks:
            self._references[block] -= 1
        idle = [block for block in reversed(blocks) if not self._references[block]]
        for block in idle:
            self._free[block] = None
        for block in reversed([block for block in idle if block not in self._names]):
            self._free.move_to_end(block, last=False)

    def _forget(self, block: int) -> None:
        name = self._names.pop(block, None)
        if name is None:
            return
        holders = self._named[name]
        del holders[block]
        if not holders:
            del self._named[name]
