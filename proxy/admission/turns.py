"""The order in which those who wait are served: tenants take turns, and within one it is first come, first served.

Pure: it does not know what they wait for.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

W = TypeVar("W")


class Turns(Generic[W]):
    """Who waits, each once.

    State: by tenant those who wait, in order of arrival; the tenants stand in order of their turn. A tenant that was
    served goes to the end, and so does one that comes anew, so that between two turns of one every other has its own.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str | None, dict[W, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[W]:
        for waiting in self._waiting.values():
            yield from waiting

    def join(self, tenant: str | None, waiter: W) -> None:
        """To the end of the tenant's line; None is a tenant too: all who have none."""
        self._waiting.setdefault(tenant, {})[waiter] = None

    def leave(self, tenant: str | None, waiter: W) -> bool:
        """Out of the line; whether it was in it. The tenant's turn is not lost while others of it wait."""
        waiting = self._waiting.get(tenant, {})
        if waiter not in waiting:
            return False
        del waiting[waiter]
        if not waiting:
            del self._waiting[tenant]
        return True

    def serve(self, free: Callable[[W], bool]) -> W | None:
        """Takes out whose turn it is among those who can be served now; None: nobody can."""
        for tenant, waiting in self._waiting.items():
            waiter = next(filter(free, waiting), None)
            if waiter is not None:
                del waiting[waiter]
                del self._waiting[tenant]
                if waiting:
                    self._waiting[tenant] = waiting
                return waiter
        return None
