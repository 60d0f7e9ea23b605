"""A number of exchanges at once, and a guess of when the next one ends."""

START_NS = 1_000_000_000
"""How long an exchange is thought to take before any was seen."""

NEWEST = 0.2
"""Weight of the newest exchange in the mean: about the last ten count."""


class Slots:
    """So many at once.

    State: how many are taken, how many wait, and the smoothed time that one is held.
    """

    __slots__ = ("_held_ns", "limit", "taken", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.waiting = 0
        self._held_ns = float(START_NS)

    def __repr__(self) -> str:
        return f"<Slots {self.taken} of {self.limit}, {self.waiting} waiting>"

    @property
    def free(self) -> bool:
        """Whether one can be taken now."""
        return self.taken < self.limit

    def take(self) -> None:
        """Take one, free or not: a limit that was lowered, or only observes, is overrun."""
        self.taken += 1

    def give(self, held_ns: int | None) -> None:
        """Give back one that was held so long. None: for nothing, which tells nothing about the next."""
        self.taken -= 1
        if held_ns is not None:
            self._held_ns += NEWEST * (held_ns - self._held_ns)

    def wait_ns(self) -> int:
        """How long a new one would wait, as far as the last ones tell: its turn comes when all before it had theirs."""
        if self.free and not self.waiting:
            return 0
        ahead = self.taken - self.limit + self.waiting + 1
        return max(1, round(ahead * self._held_ns / self.limit))
