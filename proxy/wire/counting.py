"""Running counts: some streams say on every event how many tokens the engine has written so far."""


class RunningCount:
    """Follows the output count of each choice, as long as every event of the stream carries one and it runs.

    Then an event is a token event where the count rises, whatever its text: tokens without text come before the text
    that was held back with them. Text that no rise explains, its own or an earlier one without text, shows that the
    number is no running count (a constant, a figure of the event alone), and so does a fall: then text decides.
    """

    # State: the last count of each choice, the tokens of each that have come without text so far, and whether the
    # count runs.
    __slots__ = ("_held", "_last", "live")

    def __init__(self, live: bool = True) -> None:
        self._held: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self.live = live

    def rise(self, choice: int, count: int | None, wrote: bool, role: bool = False) -> int | None:
        """New tokens of this choice, in an event with text (`wrote`) or without; None: here and from now on text
        decides. With a role alone (`role`) nothing is written yet: its count is where the count starts."""
        if not self.live or count is None:
            self.live = False
            return None
        rise, held = count - self._last.get(choice, count if role else 0), self._held.get(choice, 0)
        if rise < 0 or (wrote and not rise and not held):
            self.live = False
            return None
        self._last[choice] = count
        if wrote != bool(rise):
            self._held[choice] = held + rise - wrote
        return rise
