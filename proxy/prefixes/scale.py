"""From our tokens to the engine's own: every figure of a verdict is a part of the prompt that the engine read.

The engine's prompt is our text in its own vocabulary and its own template. So of prompts of one shape (raw or chat,
with a system message or without, with tools or without) each of our tokens is about so many of the engine's, and the
template adds about so many, the same for all. Every answer says theirs / ours = slope + template / ours, and is as
exact of a long prompt as of a short one: what differs is how languages and code are cut. A Kalman filter finds both.

What a template adds stands before what a client says first: a system message that nobody sent, rules for tools. An
image is in the engine's tokens what we cannot know; whatever is left over there stands in the images.
"""

from math import sqrt
from typing import NamedTuple

from proxy.prefixes.canon import LEADS
from proxy.records import Prompt

SLOPE = (1.0, 0.3)
"""Tokens of an engine for one of ours, and how far off that may be: vocabularies of 32 k to 256 k find 0.85 to 1.4"""
KIN = 0.1
"""The same, off from that of the model's prompts of another shape."""

TEMPLATE = (0.0, 40.0)
"""Tokens that a template adds beyond the frames that we render, and how many it may be: SmolLM2's and Qwen's put some
20 before a chat without a system message, a lean one has a few less than ours."""

NOISE = 0.05
"""How far theirs / ours is from the line: texts differ so much under two vocabularies of one language."""

OUTLIER = 3.0
"""An answer further off than so many standard deviations teaches no more than one at it: it is in another script."""

WALK = 1e-4
"""Share of the first doubt that comes back with each answer: another tokenizer behind one name is learnt in turn."""

SLOPES = (0.25, 4.0)
"""Bounds of the slope, reached in scripts that one of the two vocabularies covers badly."""

READ = 0.5
"""Of the text in our tokens, what the engine must have read at least: below, it left text out, and nobody knows which.
(Ollama's window cuts the oldest; a template may drop tools.)"""

MOST = (2.0, 512)
"""Of a prompt in our tokens at most, and besides: above, it read what we do not know of. Templates write up to some
hundred tokens by themselves, where they explain how to call tools."""


class Line(NamedTuple):
    """How many tokens of an engine a prompt takes."""

    slope: float
    """For each of ours."""
    template: float
    """Besides; below zero where the engine's frames are leaner than ours, or it left something out."""

    def whole(self, ours: int) -> int:
        """Of a prompt, before the engine says so."""
        return max(1, round(self.slope * ours + self.template))

    def through(self, ours: int, theirs: int) -> "Line":
        """The line of one prompt of which the engine said so: its text has its own slope."""
        slope = min(max((theirs - self.template) / max(1, ours), SLOPES[0]), SLOPES[1])
        return Line(slope, theirs - slope * ours)


SAME = Line(1.0, 0.0)
"""The engine's tokens are ours."""


class _Filter:
    """What was learnt of one shape.

    State: the line, answers heard, and how unsure slope and template are, together and each.
    """

    __slots__ = ("_both", "_slope", "_template", "answers", "line")

    def __init__(self, slope: float, doubt: float) -> None:
        self.line = Line(slope, TEMPLATE[0])
        self.answers = 0
        self._slope, self._both, self._template = doubt**2, 0.0, TEMPLATE[1] ** 2

    def learn(self, ours: int, theirs: int) -> None:
        short = 1 / ours
        slope, template = self._slope + self._both * short, self._both + self._template * short
        doubt = slope + template * short + NOISE**2
        reach = OUTLIER * sqrt(doubt)
        error = theirs * short - self.line.slope - self.line.template * short
        gain = max(-reach, min(error, reach)) / doubt
        self.answers += 1
        self.line = Line(self.line.slope + slope * gain, self.line.template + template * gain)
        self._slope += WALK * SLOPE[1] ** 2 - slope * slope / doubt
        self._both -= slope * template / doubt
        self._template += WALK * TEMPLATE[1] ** 2 - template * template / doubt


class Scale:
    """The lines of one model's prompts. State: what was learnt of each shape."""

    def __init__(self) -> None:
        self._shapes: dict[str, _Filter] = {}

    def line(self, shape: str) -> Line:
        """As it is believed to be."""
        found = self._shapes.get(shape)
        return found.line if found is not None else Line(self._kin()[0], TEMPLATE[0])

    def learn(self, shape: str, ours: int, theirs: int) -> None:
        """The engine read so many tokens where we had rendered so many."""
        if shape not in self._shapes:
            self._shapes[shape] = _Filter(*self._kin())
        if ours:
            self._shapes[shape].learn(ours, theirs)

    def _kin(self) -> tuple[float, float]:
        """The slope of a shape that was not met, and how unsure it is."""
        if not self._shapes:
            return SLOPE
        return max(self._shapes.values(), key=lambda one: one.answers).line.slope, KIN


def shape(prompt: Prompt) -> str:
    """To which prompts a template says the same."""
    if not prompt.messages and not prompt.tools:
        return "raw"
    first = prompt.messages[0].role if prompt.messages else ""
    return ("led" if first in LEADS else "chat") + (" with tools" if prompt.tools else "")
