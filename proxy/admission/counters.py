"""The counters of limits, by what they are kept apart by: bounded in number, and gone when they are idle.

Clients invent names of models. A model that finds no room shares one counter with all others that find none: a crowd of
names makes limits tighter for new names, and pushes out no counter that is in use.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

COUNTERS = 1_024
"""Counters of one sort at most, save those of tenants and engines themselves, which the configuration bounds."""

LOOKS = 8
"""Counters that one admission looks at, whether they are idle: more than it makes."""

Key = tuple[str, ...]
"""Limit, rule, and the rest of its subject."""

C = TypeVar("C")


class Counters(Generic[C]):
    """Counters of one sort.

    State: all of them, those first that are to be looked at next.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, C] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, own: Key, shared: Key) -> C | None:
        """The counter that holds for a subject, as far as there is one; `shared` is the one for want of room."""
        found = self._kept.get(own)
        return self._kept.get(shared) if found is None and self.full else found

    def keep(self, own: Key, shared: Key, make: Callable[[], C]) -> C:
        """The counter that holds for a subject; one that is missing is made."""
        found = self.find(own, shared)
        if found is None:
            found = self._kept[shared if self.full else own] = make()
        return found

    @property
    def full(self) -> bool:
        """Whether there is no room for another model."""
        return len(self._kept) >= COUNTERS

    def sweep(self, idle: Callable[[C], bool]) -> None:
        """Throws away what is idle among the next few."""
        for _ in range(min(LOOKS, len(self._kept))):
            key, counter = self._kept.popitem(last=False)
            if not idle(counter):
                self._kept[key] = counter

    def items(self) -> Iterable[tuple[Key, C]]:
        """All of them, with their keys."""
        return self._kept.items()

    def some(self, count: int) -> Iterator[tuple[Key, C]]:
        """So many of them at most: the ones that were looked at last."""
        return islice(reversed(self._kept.items()), count)
