"""What a text is made of, as far as vocabularies cut it otherwise than ours: digits, and scripts other than ASCII.

Ours (cl100k_base) takes up to three digits at once, Qwen's and SmolLM2's one; a vocabulary for English cuts Russian
into twice as many tokens as one for all languages. Plain text is about the same in all.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

SAMPLE = 1_024
"""Characters of a text that are looked at, evenly spread."""

LEAST = 0.02
"""Share of a text that makes it odd."""

DIGITS = b"0123456789"


class Made(NamedTuple):
    """A beginning of a prompt, in our tokens: a share of digits among the characters is that share of the tokens."""

    plain: float
    digits: float = 0.0
    foreign: float = 0.0


class Odd(NamedTuple):
    """One text of a prompt that is not all plain."""

    begin: int
    """Our tokens before it ..."""
    tokens: int
    """... and in it."""
    digits: float
    foreign: float
    before: Made = Made(0.0)
    """What is odd in the texts before it."""


def shares(text: str) -> tuple[float, float]:
    """Of the characters of a text, the share of digits and of letters of other scripts; 0, 0 where it is plain."""
    text = text[:: len(text) // SAMPLE or 1]
    data = text.encode("utf-8", "surrogatepass")
    digits = (len(data) - len(data.translate(None, DIGITS))) / len(text)
    foreign = min(1.0 - digits, len(data) / len(text) - 1.0)  # two bytes a letter and more
    return (digits, foreign) if digits > LEAST or foreign > LEAST else (0.0, 0.0)


def made(odd: Sequence[Odd], tokens: int) -> Made:
    """What the first so many tokens of a prompt are made of, in which those texts stand, in order."""
    at = bisect_right(odd, tokens, key=_begin) - 1
    if at < 0:
        return Made(tokens)
    one = odd[at]
    share = min(1.0, (tokens - one.begin) / one.tokens)
    digits, foreign = one.before.digits + share * one.digits, one.before.foreign + share * one.foreign
    return Made(tokens - digits - foreign, digits, foreign)


def _begin(one: Odd) -> int:
    return one.begin
