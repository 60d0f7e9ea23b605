"""The generic cell rate algorithm (ITU-T I.371): so many units a minute, in integers, exact to the unit.

One number, the theoretical arrival time, says how full the bucket is. Time is scaled by the limit, so that a unit's
interval is a whole number whatever the limit: one unit takes `PERIOD_NS`, and a nanosecond is worth `limit`.
"""

PERIOD_NS = 60_000_000_000
"""The rates of the configuration are per minute; a whole minute's worth may come at once (OpenAI's limits do so)."""


class Gcra:
    """A rate of `limit` units a minute.

    State: the theoretical arrival time (scaled); and for each open charge what that time would be without it, from the
    charges after it alone. That makes a refund exact: it leaves the bucket as if the smaller amount had been charged
    in the first place, and gives back nothing that time had given back already.
    """

    __slots__ = ("_next", "_open", "_tat", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._tat = 0
        self._open: dict[int, int] = {}
        self._next = 0

    def __repr__(self) -> str:
        return f"<Gcra {self.limit} a minute, {len(self._open)} open>"

    def wait_ns(self, now_ns: int, units: int) -> int:
        """Nanoseconds until so many units may be charged; 0: now.

        More units than a minute's worth wait for a full bucket, and go into debt.
        """
        needed = min(units, self.limit) * PERIOD_NS
        over = max(self._tat, now_ns * self.limit) + needed - (now_ns + PERIOD_NS) * self.limit
        return max(0, -(-over // self.limit))

    def charge(self, now_ns: int, units: int) -> int:
        """Charge so many units, whether they fit or not. Returns the number of the charge, to settle it by."""
        self._add(now_ns, units)
        self._next += 1
        self._open[self._next] = 0
        return self._next

    def settle(self, now_ns: int, charge: int, charged: int, used: int) -> None:
        """The charge was of `charged` units, and `used` is what it should have been. More is charged as of now."""
        after = self._open.pop(charge)
        if used > charged:
            self._add(now_ns, used - charged)
            return
        refund = (charged - used) * PERIOD_NS
        self._tat = max(self._tat - refund, after)
        for earlier in self._open:
            if earlier < charge:
                self._open[earlier] = max(self._open[earlier] - refund, after)

    def remaining(self, now_ns: int) -> int:
        """Whole units that may be charged now; 0 while in debt."""
        return max(0, ((now_ns + PERIOD_NS) * self.limit - max(self._tat, now_ns * self.limit)) // PERIOD_NS)

    def full_ns(self, now_ns: int) -> int:
        """Nanoseconds until the bucket is full again."""
        return max(0, -(-self._tat // self.limit) - now_ns)

    def idle(self, now_ns: int) -> bool:
        """Whether nothing would be lost with it: no open charge, and a full bucket."""
        return not self._open and self.full_ns(now_ns) == 0

    def change(self, limit: int) -> None:
        """Another limit from now on; what was charged takes as long as before to be worked off."""
        self._tat = self._tat * limit // self.limit
        self._open = {charge: after * limit // self.limit for charge, after in self._open.items()}
        self.limit = limit

    def _add(self, now_ns: int, units: int) -> None:
        at, cost = now_ns * self.limit, units * PERIOD_NS
        self._tat = max(self._tat, at) + cost
        for charge, after in self._open.items():
            self._open[charge] = max(after, at) + cost
