"""How many prompts are searched for breakers: as they come while they are few, evenly thinned where they are more.

A token bucket by the moments at which prompts came. They are told as they end, so not in that order: what comes late
fills nothing. Where it is nearly empty a prompt takes a random part of it, one in the mean: of applications that ask in
turn the same ones would be seen for ever.
"""

from random import Random

AT_ONCE = 120
"""Prompts that are taken one right after the other."""

A_SECOND = 2.0
"""Prompts a second that are taken in the long run: 120 a minute."""

SCARCE = 2.0
"""Room for so many prompts, from which on what one takes is random."""

SET_BACK_S = 3_600.0
"""Seconds by which a prompt's moment is before the last one when the clock was set back: no request takes so long."""


class Pace:
    """The room for prompts. State: the last moment, how many could be taken then, and a source of chance."""

    def __init__(self) -> None:
        self._chance = Random(0)
        self._last_s = float("-inf")
        self._room = 0.0

    def has_room(self, at_s: float) -> bool:
        """Whether a prompt that came then can be taken."""
        since_s = at_s - self._last_s
        if since_s < -SET_BACK_S:
            self._last_s = at_s
        elif since_s > 0:
            self._room = min(AT_ONCE, self._room + A_SECOND * since_s)
            self._last_s = at_s
        return self._room >= 1

    def take(self) -> None:
        """It is taken."""
        self._room -= 1.0 if self._room > SCARCE else self._chance.uniform(0.0, 2.0)
