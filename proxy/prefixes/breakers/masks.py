"""Excerpts without their content: characters replaced by their class."""

import re

_CLASSES = ((re.compile(r"[^\W\d_]"), "a"), (re.compile(r"\d"), "d"))

LONGEST = 48
"""Characters of an excerpt: enough to see the form of a date or an id."""


def mask(text: str) -> str:
    """Digits as `d`, letters as `a`, punctuation and blanks as they are, cut after `LONGEST` characters.

    >>> mask("2026-03-02 10:15 Ana")
    'dddd-dd-dd dd:dd aaa'
    """
    for pattern, letter in _CLASSES:
        text = pattern.sub(letter, text[:LONGEST])
    return text
