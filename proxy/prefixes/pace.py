"""How many prompts are searched for breakers: as they come while they are few, at random where they are more.

A token bucket by the moments at which prompts came. They are told as they end, so not in that order: what comes late
fills nothing. From a half full bucket on, the chance of a prompt falls with what is in it, and what it takes out is its
chance, whether it is drawn or not: so in the long run as many are drawn as flow in, each independent of all others. One
that is drawn stands for as many as would have been passed over at its chance (Horvitz and Thompson, 1952): sums over
what stands for what are true of every application by itself, be it busy, quiet, or gone.
"""

from random import Random

AT_ONCE = 120
"""Prompts that are taken one right after the other."""

A_SECOND = 2.0
"""Prompts a second that are taken in the long run: 120 a minute."""

SCARCE = AT_ONCE / 2
"""Room for so many prompts, from which on it is a matter of chance."""

LEAST = 0.001
"""The least chance: it is that of 2,000 prompts a second, more than one proxy passes on."""

SET_BACK_S = 3_600.0
"""Seconds by which a prompt's moment is before the last one when the clock was set back: no request takes so long."""


class Pace:
    """The room for prompts. State: the last moment, how many could be taken then, and a source of chance."""

    def __init__(self) -> None:
        self._draw = Random(0)
        self._last_s = float("-inf")
        self._room = 0.0

    def take(self, at_s: float) -> float:
        """For how many prompts the one that came then stands, if it is taken; 0: it is not."""
        since_s = at_s - self._last_s
        if since_s < -SET_BACK_S:
            self._last_s = at_s
        elif since_s > 0:
            self._room = min(AT_ONCE, self._room + A_SECOND * since_s)
            self._last_s = at_s
        chance = max(LEAST, min(1.0, self._room / SCARCE))
        self._room = max(0.0, self._room - chance)
        return 1.0 / chance if self._draw.random() < chance else 0.0
