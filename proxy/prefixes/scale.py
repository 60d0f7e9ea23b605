"""From our tokens to the engine's own: every figure of a verdict is a part of the prompt that the engine read.

The engine's prompt is our text in its own vocabulary and its own template. So of prompts of one shape (raw or chat,
with a system message or without, with tools or without) the template adds about so many tokens, the same for all, and
each of our tokens is about so many of the engine's: one number for plain text, another for what vocabularies cut
otherwise than ours does, digits (one by one, or in threes) and other scripts. Every answer says the sum. A diagonal
Kalman filter finds the numbers, and says how sure it is of each: what is left over in an answer is put where it may be.

Texts of one kind are off in the same direction, so many of them are no surer than one: of the template, long prompts
teach nothing.

What a template adds stands before what a client says first: a system message that nobody sent, rules for tools. An
image is in the engine's tokens what we cannot know; whatever is left over there stands in the images.
"""

from math import sqrt
from typing import NamedTuple

from proxy.prefixes.canon import LEADS
from proxy.prefixes.made import Made
from proxy.records import Prompt


class Line(NamedTuple):
    """How many tokens of an engine a prompt takes; or how unsure each of these numbers is."""

    template: float
    """Besides those of its text; below zero where the engine's frames are leaner than ours, or it left text out."""
    plain: float
    """For each of ours in plain text, ..."""
    digits: float
    """... in digits, ..."""
    foreign: float
    """... in other scripts."""

    def text(self, made: Made) -> float:
        """Of a text."""
        return self.plain * made.plain + self.digits * made.digits + self.foreign * made.foreign

    def whole(self, made: Made) -> int:
        """Of a prompt, before the engine says so."""
        return max(1, round(self.template + self.text(made)))


SAME = Line(0.0, 1.0, 1.0, 1.0)
"""The engine's tokens are ours."""

DOUBT = Line(30.0, 0.2, 0.6, 0.6)
"""How far off that may be. SmolLM2's and Qwen's templates put some 20 tokens before a chat without a system message,
lean ones have a few less than our frames. Vocabularies of 32 k to 256 k find .85 to 1.3 tokens for one of ours in plain
text; ours takes three digits at once, and others one; other scripts are cut into .6 to 3."""

RULES = 120.0
"""The same of a template that gets tools: it explains how to call them, or leaves them out."""

KIN = 0.5
"""What is left of that doubt, at least, where prompts of another shape have told: of all but the template."""

KINDS = Made(0.08, 0.2, 0.2)
"""How far texts of one model are from one another, as standard deviations: English and code, Russian and Chinese."""

WIDER, RATE = (0.15, 25.0), 0.05
"""Bounds of the factor by which their variance turns out to be another, and how much of it one answer tells."""

OUTLIER = 3.0
"""An answer further off than so many standard deviations teaches no more than one at it."""

MOSTLY = 2.0
"""Standard deviations that are believed: by so many one prompt's template may differ, the rest is in its text."""

WALK = 1e-3
"""Share of the first doubt that comes back with each answer: another tokenizer behind one name is learnt in turn."""

SLOPES = (0.15, 4.0)
"""Bounds of the engine's tokens for one of ours in a text."""

TOOLS = " with tools"
"""How the name of a shape ends that has them."""

READ = 0.5
"""Of the tokens that a text can have at least, what the engine must have read: below, it left text out, and nobody
knows which. (Ollama's window cuts the oldest; a template may drop tools.)"""

MOST = (2.0, 512)
"""Of plain text in our tokens at most, and besides: above, it read what we do not know of. Templates write up to some
hundred tokens by themselves, where they explain how to call tools."""


class Belief:
    """What is believed of one shape.

    State: the line, its numbers' variances now and at first, how much wider than `KINDS` texts are, and answers heard.
    Written out, number by number: every request passes.
    """

    __slots__ = ("_first", "_variances", "_wider", "answers", "line")

    def __init__(self, line: Line = SAME, doubt: Line = DOUBT) -> None:
        self.answers = 0
        self.line = line
        self._wider = 1.0
        self._first = self._variances = Line(*[each * each for each in doubt])

    @property
    def doubt(self) -> Line:
        """Standard deviations."""
        return Line(*map(sqrt, self._variances))

    def learn(self, made: Made, theirs: int) -> None:
        """The engine read so many tokens where we had rendered that."""
        a, b, c = made
        template, plain, digits, foreign = self.line
        vt, vp, vd, vf = self._variances
        noise = self._wider * self._kinds(a, b, c)
        error = theirs - template - plain * a - digits * b - foreign * c
        # What one answer moves each number by is its gain times the error.
        gt, gp, gd, gf = vt if noise <= vt else 0.0, vp * a, vd * b, vf * c
        doubt = noise + vt + gp * a + gd * b + gf * c
        reach = OUTLIER * sqrt(doubt)
        error = max(-reach, min(error, reach))
        step = error / doubt
        self.line = Line(template + gt * step, plain + gp * step, digits + gd * step, foreign + gf * step)
        ft, fp, fd, ff = self._first
        self._variances = Line(
            min(ft, vt - gt * gt / doubt + WALK * ft),
            min(fp, vp - gp * gp / doubt + WALK * fp),
            min(fd, vd - gd * gd / doubt + WALK * fd),
            min(ff, vf - gf * gf / doubt + WALK * ff),
        )
        wider = self._wider * (1.0 + RATE * (error * step - 1.0))
        self._wider = max(WIDER[0], min(wider, WIDER[1]))
        self.answers += 1

    def through(self, made: Made, theirs: int) -> Line:
        """The line of one prompt of which the engine said so: what is left over is put where it may be."""
        a, b, c = made
        template, plain, digits, foreign = self.line
        left = theirs - template - plain * a - digits * b - foreign * c
        vt, vp, vd, vf = self._texts
        text = vp * a * a + vd * b * b + vf * c * c
        if text:
            reach = MOSTLY * sqrt(vt)
            share = (left - max(-reach, min(left * vt / (vt + text), reach))) / text
            plain, digits, foreign = plain + vp * a * share, digits + vd * b * share, foreign + vf * c * share
        low, high = SLOPES
        plain, digits, foreign = (max(low, min(one, high)) for one in (plain, digits, foreign))
        return Line(theirs - plain * a - digits * b - foreign * c, plain, digits, foreign)

    def unsure(self, part: Made, whole: Made) -> float:
        """Tokens of the engine by which a part of a prompt may be off, of which the engine said the whole: what is more
        in it is less in the rest."""
        a, b, c = (min(one, every - one) for one, every in zip(part, whole, strict=True))
        vt, vp, vd, vf = self._texts
        return MOSTLY * sqrt(vt + vp * a * a + vd * b * b + vf * c * c)

    def least(self, made: Made) -> float:
        """Tokens of the engine that it must have read of a text; of other scripts few will do, until it has told."""
        believed = self.line.foreign - MOSTLY * sqrt(self._texts.foreign)
        foreign = max(SLOPES[0], min(1.0, believed))
        return READ * (made.plain + made.digits + foreign * made.foreign)

    @property
    def _texts(self) -> Line:
        """Variances of the template, and of the tokens for one of ours in one text."""
        vt, vp, vd, vf = self._variances
        kp, kd, kf = KINDS
        wider = self._wider
        return Line(vt, vp + wider * kp * kp, vd + wider * kd * kd, vf + wider * kf * kf)

    @staticmethod
    def _kinds(a: float, b: float, c: float) -> float:
        """Variance of the tokens of a text that is of any kind."""
        kp, kd, kf = KINDS
        return (kp * a) ** 2 + (kd * b) ** 2 + (kf * c) ** 2


class Scale:
    """What is believed of one model's prompts. State: a belief for each shape."""

    def __init__(self) -> None:
        self._shapes: dict[str, Belief] = {}

    def of(self, shape: str) -> Belief:
        """Of prompts of a shape; of the texts of one that was not met, what another one told."""
        found = self._shapes.get(shape)
        if found is not None:
            return found
        template = RULES if shape.endswith(TOOLS) else DOUBT.template
        if not self._shapes:
            return Belief(SAME, DOUBT._replace(template=template))
        kin = max(self._shapes.values(), key=lambda one: one.answers)
        doubts = [max(KIN * first, left) for first, left in zip(DOUBT, kin.doubt, strict=True)]
        return Belief(kin.line._replace(template=SAME.template), Line(template, *doubts[1:]))

    def learn(self, shape: str, made: Made, theirs: int) -> Belief:
        """The engine read so many tokens where we had rendered that. What is believed from now on."""
        belief = self._shapes[shape] = self.of(shape)
        if sum(made):
            belief.learn(made, theirs)
        return belief


def most(made: Made) -> float:
    """Tokens of any engine that a prompt can have."""
    times, besides = MOST
    return times * made.plain + SLOPES[1] * (made.digits + made.foreign) + besides


def shape(prompt: Prompt) -> str:
    """To which prompts a template says the same."""
    if not prompt.messages and not prompt.tools:
        return "raw"
    first = prompt.messages[0].role if prompt.messages else ""
    return ("led" if first in LEADS else "chat") + (TOOLS if prompt.tools else "")
