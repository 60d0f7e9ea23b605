"""The generic cell rate algorithm (ITU-T I.371): so many units a minute, in integers, exact to the unit.

One number, the theoretical arrival time, says how full the bucket is. Time is scaled by the limit, so that a unit's
interval is a whole number whatever the limit: one unit takes `PERIOD_NS`, and a nanosecond is worth `limit`.
"""

PERIOD_NS = 60_000_000_000
"""The rates of the configuration are per minute; a whole minute's worth may come at once (OpenAI's limits do so)."""


Effect = tuple[int, int]
"""What charges do to the theoretical arrival time: `(cost, end)` makes `max(t + cost, end)` of `t`, which is never
negative."""

NONE: Effect = (0, 0)
"""No charge."""

FEWEST = 8
"""Leaves of a tree; their number is a power of two."""


class Gcra:
    """A rate of `limit` units a minute.

    A refund is exact: it leaves the bucket as if the smaller amount had been charged in the first place, and gives back
    nothing that time had given back already. For this the charges since the oldest open one are kept, as leaves of a
    binary tree: a node is what the charges below it do in a row, and the root what all of them do. A charge and a
    refund change one path to the root, however many are open.

    State: the theoretical arrival time before the first leaf; the tree (root at 1, leaves from the middle on); how many
    leaves are taken; the place among them of each open charge.
    """

    __slots__ = ("_before", "_next", "_open", "_taken", "_tree", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._before = 0
        self._tree = [NONE] * (2 * FEWEST)
        self._taken = 0
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
        place = self._add(now_ns, units)
        self._next += 1
        self._open[self._next] = place
        return self._next

    def settle(self, now_ns: int, charge: int, charged: int, used: int) -> None:
        """The charge was of `charged` units, and `used` is what it should have been. More is charged as of now."""
        place = self._open.pop(charge)
        if used > charged:
            self._add(now_ns, used - charged)
        elif used < charged:
            cost, end = self._tree[len(self._tree) // 2 + place]
            refund = cost * (charged - used) // charged  # of what it costs now: the limit may have changed since
            self._put(place, (cost - refund, end - refund))

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
        self._before = self._before * limit // self.limit
        self._grow([(cost * limit // self.limit, end * limit // self.limit) for cost, end in self._leaves()])
        self.limit = limit

    @property
    def _tat(self) -> int:
        return _after(self._before, self._tree[1])

    def _add(self, now_ns: int, units: int) -> int:
        """One more leaf; its place."""
        if 2 * self._taken == len(self._tree):
            self._tidy()
        cost = units * PERIOD_NS
        self._taken += 1
        self._put(self._taken - 1, (cost, now_ns * self.limit + cost))
        return self._taken - 1

    def _put(self, place: int, effect: Effect) -> None:
        tree, node = self._tree, len(self._tree) // 2 + place
        tree[node] = effect
        while node := node // 2:
            tree[node] = _both(tree[2 * node], tree[2 * node + 1])

    def _leaves(self) -> list[Effect]:
        middle = len(self._tree) // 2
        return self._tree[middle : middle + self._taken]

    def _tidy(self) -> None:
        """Settled charges go: those before the oldest open one for good, others into one leaf with their neighbours."""
        charges = {place: charge for charge, place in self._open.items()}
        kept: list[Effect] = []
        settled = False
        for place, effect in enumerate(self._leaves()):
            if place in charges:
                self._open[charges[place]] = len(kept)
                kept.append(effect)
            elif not kept:
                self._before = _after(self._before, effect)
            elif settled:
                kept[-1] = _both(kept[-1], effect)
            else:
                kept.append(effect)
            settled = place not in charges
        self._grow(kept)

    def _grow(self, leaves: list[Effect]) -> None:
        """A tree with these leaves, and room for as many again."""
        middle = FEWEST
        while middle < 2 * len(leaves):
            middle *= 2
        self._taken = len(leaves)
        self._tree = [NONE] * middle + leaves + [NONE] * (middle - len(leaves))
        for node in range(middle - 1, 0, -1):
            self._tree[node] = _both(self._tree[2 * node], self._tree[2 * node + 1])


def _after(t: int, effect: Effect) -> int:
    return max(t + effect[0], effect[1])


def _both(first: Effect, second: Effect) -> Effect:
    """One after the other, as one."""
    return first[0] + second[0], max(first[1] + second[0], second[1])
