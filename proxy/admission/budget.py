"""A sum of tokens for each hour or day of the clock (UTC). It survives a restart, for its windows are the wall's.

Tokens count in the window in which their request was admitted. A request that uses more than was left is not cut: the
sum goes over, and the next one is refused.
"""

from typing import Any

HOUR_S, DAY_S = 3_600, 86_400

STEP_S = 60.0
"""How far a clock is put back to be right again. A window that begins later than that never was: the clock had jumped
ahead."""


class Budget:
    """So many tokens per window.

    State: the window that is open, what was used in it, reservations included, how many of those are to be settled, and
    how often a window was opened: a clock that jumps ahead and back opens the same one twice.
    """

    __slots__ = ("_open", "_opened", "_used", "_window", "limit", "window_s")

    def __init__(self, limit: int, window_s: int) -> None:
        self.limit = limit
        self.window_s = window_s
        self._window = 0
        self._used = 0
        self._open = 0
        self._opened = 0

    def __repr__(self) -> str:
        return f"<Budget {self._used} of {self.limit} in {self.window_s} s>"

    def wait_s(self, wall_s: float, tokens: int) -> float:
        """Seconds until so many tokens are left; 0: now. More than the whole budget waits for an unused window."""
        self._turn(wall_s)
        if self._used == 0 or self._used + tokens <= self.limit:
            return 0.0
        return self.ends_s(wall_s)

    def charge(self, wall_s: float, tokens: int) -> int:
        """Charge these tokens, whether they fit or not. Returns which opening of a window they count in, to settle it
        by."""
        self._turn(wall_s)
        self._used += tokens
        self._open += 1
        return self._opened

    def settle(self, opened: int, charged: int, used: int) -> None:
        """`charged` tokens should have been `used`; that counts until the window is over."""
        self._open -= 1
        if opened == self._opened:
            self._used += used - charged

    def remaining(self, wall_s: float) -> int:
        """Tokens left in this window; never negative."""
        self._turn(wall_s)
        return max(0, self.limit - self._used)

    def ends_s(self, wall_s: float) -> float:
        """Seconds until the next window opens."""
        self._turn(wall_s)
        return (self._window + 1) * self.window_s - wall_s

    def idle(self, wall_s: float) -> bool:
        """Whether nothing would be lost with it."""
        self._turn(wall_s)
        return self._used == 0 and self._open == 0

    @property
    def unused(self) -> bool:
        """Whether nothing was used in the window that was open at the last look."""
        return self._used == 0

    def to_dict(self) -> dict[str, Any]:
        """The open window and its sum, as JSON."""
        return {"window": self._window, "used": self._used}

    def restore(self, kept: dict[str, Any]) -> None:
        """Go on from what `to_dict` gave; a window that is over, or far ahead, falls away with the next look at the
        clock. Raises ValueError for what it never gave."""
        window, used = kept.get("window"), kept.get("used")
        if type(window) is not int or type(used) is not int or not 0 <= min(window, used) <= max(window, used) < 2**53:
            raise ValueError("no window of a budget")
        self._window, self._used = window, used
        self._opened += 1

    def _turn(self, wall_s: float) -> None:
        """Open the clock's window. One that is about to begin is kept: the clock was put back a little, and nobody gets
        the budget of an hour twice."""
        window = int(wall_s // self.window_s)
        if window > self._window or self._window * self.window_s - wall_s > STEP_S:
            self._window, self._used = window, 0
            self._opened += 1
