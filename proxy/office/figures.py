"""What one engine said of itself last, page by page. What it does not repeat is forgotten: no gauge stands still."""

from proxy.engines.gauges import TARGET
from proxy.engines.inside import STIRRING, Inside

MISSES = 3
"""Looks in vain after which a page is forgotten. llama.cpp is late while it reads a long prompt: once is nothing."""


class Figures:
    """One engine's pages.

    State: what each page said and how often it was asked in vain since; the engine's kind; and whether anything may
    have changed inside since the last look.
    """

    def __init__(self) -> None:
        self._pages: dict[str, Inside] = {}
        self._missed: dict[str, int] = {}
        self._kind = ""
        self._stirred = True

    def of(self, kind: str) -> None:
        """The engine is of this kind: the pages of another one are not its own."""
        if kind != self._kind:
            self._kind, self._stirred = kind, True
            self._pages.clear()

    def said(self, target: str) -> bool:
        """Whether the page was answered, not long ago."""
        return target in self._pages

    def heard(self, target: str, page: Inside | None) -> None:
        """A page; None: asked in vain."""
        self._missed[target] = 0 if page is not None else self._missed.get(target, 0) + 1
        if page is not None:
            self._pages[target] = page
        elif self._missed[target] >= MISSES:
            self._pages.pop(target, None)

    def silent(self) -> None:
        """The engine does not answer at all."""
        for target in tuple(self._pages):
            self.heard(target, None)

    def stir(self) -> None:
        """A request has been there."""
        self._stirred = True

    def rests(self, in_flight: int) -> bool:
        """Whether questions that count as work are to be left: the engine sleeps, or could fall asleep and has nothing
        to do. After the last request it is asked once more."""
        now = self.inside
        busy = in_flight or now.running or now.waiting or self._stirred
        return now.sleeping is not None and (now.sleeping or not busy)

    def asked(self) -> None:
        """It was asked all: nothing has changed inside since."""
        self._stirred = False

    def slept(self) -> None:
        """What it said of its work is over."""
        for target in (TARGET, *STIRRING.get(self._kind, ())):
            self._pages.pop(target, None)

    @property
    def inside(self) -> Inside:
        """All of it together; where two pages say the same, its metrics count."""
        together = self._pages.get(TARGET, Inside())
        for target, page in self._pages.items():
            together = together.over(page) if target != TARGET else together
        return together
