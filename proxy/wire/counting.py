"""Running counts: some streams say on every event how many tokens the engine has written so far."""

from collections.abc import Iterable


class RunningCount:
    """Follows the output count of each choice, as long as every event of the stream carries one.

    Then an event is a token event where the count rises, whatever its text. From the first event without a count on,
    text decides.
    """

    # State: the last count of each choice, and whether every event so far carried one.
    __slots__ = ("_last", "live")

    def __init__(self, live: bool = True) -> None:
        self._last: dict[int, int] = {}
        self.live = live

    def rises(self, choices: Iterable[int], count: int | None) -> dict[int, int] | None:
        """New tokens of each choice whose count rose; None: this stream does not count, text decides."""
        if count is None:
            self.live = False
            return None
        rises = {choice: count - self._last.get(choice, 0) for choice in choices}
        for choice in rises:
            self._last[choice] = max(count, self._last.get(choice, 0))
        return {choice: rise for choice, rise in rises.items() if rise > 0}
