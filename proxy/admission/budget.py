"""A sum of tokens for each hour or day of the clock (UTC). It survives a restart, for its windows are the wall's.

Tokens count in the window in which their request was admitted. A request that uses more than was left is not cut: the
sum goes over, and the next one is refused.
"""

from typing import Any

HOUR_S, DAY_S = 3_600, 86_400


class Budget:
    """So many tokens per window.

    State: the window that is open, and what was used in it, reservations included.
    """

    __slots__ = ("_used", "_window", "limit", "window_s")

    def __init__(self, limit: int, window_s: int) -> None:
        self.limit = limit
        self.window_s = window_s
        self._window = 0
        self._used = 0

    def __repr__(self) -> str:
        return f"<Budget {self._used} of {self.limit} in {self.window_s} s>"

    def wait_s(self, wall_s: float, tokens: int) -> float:
        """Seconds until so many tokens are left; 0: now. More than the whole budget waits for an unused window."""
        self._turn(wall_s)
        if self._used == 0 or self._used + tokens <= self.limit:
            return 0.0
        return self.ends_s(wall_s)

    def charge(self, wall_s: float, tokens: int) -> int:
        """Charge these tokens, whether they fit or not. Returns the window, to settle it by."""
        self._turn(wall_s)
        self._used += tokens
        return self._window

    def settle(self, window: int, charged: int, used: int) -> None:
        """`charged` tokens should have been `used`; nothing to do once that window is over."""
        if window == self._window:
            self._used += used - charged

    def remaining(self, wall_s: float) -> int:
        """Tokens left in this window; never negative."""
        self._turn(wall_s)
        return max(0, self.limit - self._used)

    def ends_s(self, wall_s: float) -> float:
        """Seconds until the next window opens."""
        return self.window_s - wall_s % self.window_s

    def idle(self, wall_s: float) -> bool:
        """Whether nothing would be lost with it."""
        self._turn(wall_s)
        return self._used == 0

    def to_dict(self) -> dict[str, Any]:
        """The open window and its sum, as JSON."""
        return {"window": self._window, "used": self._used}

    def restore(self, kept: dict[str, Any]) -> None:
        """Go on from what `to_dict` gave; a window that is over falls away with the next look at the clock."""
        self._window, self._used = int(kept["window"]), int(kept["used"])

    def _turn(self, wall_s: float) -> None:
        """Open the clock's window. One that lies in the future is kept: the clock was put back, and nobody gets the
        budget of an hour twice."""
        window = int(wall_s // self.window_s)
        if window > self._window:
            self._window, self._used = window, 0
