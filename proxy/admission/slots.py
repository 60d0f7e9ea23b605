"""A number of exchanges at once, and a guess of when the next one ends.

The guess does not count down: how long a request of a model takes varies so much that the age of those that run says
little of when the next one ends, and a guess that went by it was no nearer, save where all take equally long.
"""

START_NS = 1_000_000_000
"""How long an exchange is thought to take before any was seen."""

NEWEST = 0.2
"""Weight of the newest exchange in the mean, when there were five: about the last ten count."""

LEAST_NS, LONGEST_NS = 1_000_000_000, 3_600_000_000_000
"""Bounds of a guess: clients that come back sooner only ask again, and no ten exchanges tell of more than an hour."""


class Slots:
    """So many at once.

    State: how many are taken, how many wait; how many were served, and the smoothed time that one was held; the sum of
    the moments at which those that are taken were.
    """

    __slots__ = ("_held_ns", "_served", "_since_ns", "limit", "taken", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.waiting = 0
        self._held_ns = float(START_NS)
        self._served = 0
        self._since_ns = 0

    def __repr__(self) -> str:
        return f"<Slots {self.taken} of {self.limit}, {self.waiting} waiting>"

    @property
    def free(self) -> bool:
        """Whether one can be taken now."""
        return self.taken < self.limit

    def take(self, now_ns: int) -> None:
        """Take one, free or not: a limit that was lowered, or only observes, is overrun."""
        self.taken += 1
        self._since_ns += now_ns

    def give(self, since_ns: int, now_ns: int, *, served: bool) -> None:
        """Give back one that was taken then. Not `served`: for nothing, which tells nothing about the next."""
        self.taken -= 1
        self._since_ns -= since_ns
        if served:
            self._served += 1
            self._held_ns += max(NEWEST, 1 / self._served) * (now_ns - since_ns - self._held_ns)

    def wait_ns(self, now_ns: int) -> int:
        """How long a new one would wait: its turn comes when all before it had theirs. Each is thought to take as long
        as the last ones did, or, where those that run have run for more than twice that, half as long as they have."""
        if self.free and not self.waiting:
            return 0
        ahead = self.taken - self.limit + self.waiting + 1
        ran_ns = now_ns - self._since_ns / self.taken if self.taken else 0
        guess = ahead * max(self._held_ns, ran_ns / 2) / self.limit
        return round(min(max(LEAST_NS, guess), LONGEST_NS))
