"""Running counts: some streams say on every event how many tokens the engine has written so far."""


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

    def rise(self, choice: int, count: int | None) -> int | None:
        """New tokens of this choice; None where there is no count: from then on text decides."""
        if count is None:
            self.live = False
            return None
        before = self._last.get(choice, 0)
        if count <= before:
            return 0
        self._last[choice] = count
        return count - before
