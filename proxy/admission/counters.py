"""The counters of limits, by what they are kept apart by: bounded in number, and gone when they are idle.

Clients invent names of models, and where a header names tenants, those too. What finds no room shares one counter with
all others that find none: a crowd of names makes limits tighter for new names, and pushes out no counter in use.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

COUNTERS = 1_024
"""Counters of one sort from which on models that come share theirs."""

TENANTS = 16_384
"""Counters of one sort from which on tenants that come share theirs too: more than a house has people with keys."""

LOOKS = 8
"""Counters that one admission looks at, whether they are idle: more than it makes."""

Key = tuple[str, ...]
"""Limit, rule, and the rest of its subject."""

Keys = tuple[Key, Key, Key]
"""Those under which a subject may have its counter: its own, that of all models and that of all tenants for which there
is no room. The last are as many as there are rules and engines."""

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

    def find(self, keys: Keys) -> C | None:
        """The counter that holds for a subject, as far as there is one."""
        return self._kept.get(self._holding(keys))

    def keep(self, keys: Keys, make: Callable[[], C]) -> C:
        """The counter that holds for a subject; one that is missing is made."""
        key = self._holding(keys)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found

    def put(self, key: Key, counter: C) -> None:
        """One that was kept over a restart, while there is room for it."""
        if len(self._kept) < TENANTS:
            self._kept.setdefault(key, counter)

    def _holding(self, keys: Keys) -> Key:
        """The first that is there, or for which there is room."""
        for key, room in zip(keys, (COUNTERS, TENANTS), strict=False):
            if key in self._kept or len(self._kept) < room:
                return key
        return keys[-1]

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
