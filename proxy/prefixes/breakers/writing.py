"""How scripts write: words with and without blanks between them, ends of sentences, figures.

Chinese, Japanese, Thai and their neighbours set no blanks, so a word there is two letters: enough to tell texts apart.
"""

import re
from collections.abc import Iterator
from unicodedata import digit

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
"""Letters of scripts without blanks, as a class of a pattern: Thai, Lao, Burmese, Khmer, kana, Han."""

WORD = re.compile(f"[^\\W{UNSPACED}]+|[{UNSPACED}]{{1,2}}")
"""A word, or two letters where words are not set apart."""

FULL_STOPS = "\u3002\uff01\uff1f\u0964\u06d4"
"""Signs that end a sentence without a blank behind them: of Chinese and Japanese, Hindi, Urdu."""

_PIECES = re.compile(rf"(?<=[\n\uff1b{FULL_STOPS}])|(?<=[.!?:;\u061f])(?!\w)")
_ENDS = re.compile(rf"[\n{FULL_STOPS}]|(?<=[.!?])\s")
_CLOSED, _OPENED = f".!?{FULL_STOPS}", (":", "\uff1a", "{", "[", "(", "=")
_LETTER = re.compile(r"[^\W\d_]")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_UNITS = "\u5e74\u6708\u65e5\u53f7\u865f\u6642\u65f6\u70b9\u9ede\u5206\u79d2"
"""Year, month, day (three ways), hour (four ways), minute, second, each behind its figure."""
_FIGURE = re.compile(r"\d")
_OPENING = "=([{<>\"'|\u201c\u2018\u00ab\u201e\uff08\u300c\u3010\u300a\uff1a\uff0c"
_CLOSING = ")]}<>\"'|\u201d\u2019\u00bb\uff09\u300d\u3011\u300b"


def inside_word(text: str, at: int) -> bool:
    """Whether a place stands between two letters of one word."""
    around = text[max(0, at - 1) : at + 1]
    return len(around) > 1 and around.isalnum() and _UNSPACED.search(around) is None


def begins_value(text: str, at: int) -> bool:
    """Whether a value may begin at a place: behind a blank, an opening sign, a label, or letters that are set apart by
    nothing."""
    before, behind = text[at - 1 : at], text[at : at + 1]
    if before == ":":
        return behind != "/" and not (behind.isdigit() and text[at - 2 : at - 1].isdigit())
    if _UNSPACED.match(before):
        return not (before in _UNITS and text[at - 2 : at - 1].isdigit())
    return before.isspace() or before in _OPENING


def ends_value(text: str, at: int) -> bool:
    """Whether a value may end at a place: before a blank, a closing sign, or letters that are set apart by nothing."""
    behind = text[at : at + 1]
    return (
        behind.isspace()
        or (behind != "" and behind in _CLOSING)
        or (_UNSPACED.match(behind) is not None and not text[at - 1 : at].isdigit())
    )


def size(text: str) -> int:
    """How much a text says, in letters of words that are set apart: one that is not set apart says as much as three."""
    return len(text) if text.isascii() else len(text) + 2 * len(_UNSPACED.findall(text))


def pieces(text: str, begin: int = 0) -> Iterator[tuple[str, int]]:
    """Sentences and lines from a place on, blanks at their ends apart, and where they begin."""
    at = begin
    for piece in _PIECES.split(text[begin:]):
        if stripped := piece.strip():
            yield stripped, at + len(piece) - len(piece.lstrip())
        at += len(piece)


def last_words(text: str) -> str:
    """What the last sentence or line of a text says; without a word there, what the line before says, if that is a
    heading. A line that opens something goes on in the next one."""
    for mark in reversed(list(_ENDS.finditer(text))):
        behind, before = text[mark.end() :], text[: mark.start()].rstrip()
        said = _LETTER.search(behind) is not None
        ended = mark.group() in FULL_STOPS or (mark.group() == "\n" and before[-1:] in _CLOSED)
        opened = mark.group() == "\n" and before[-1:] in _OPENED
        if (said and not opened) or (not said and ended):
            return behind
    return text


def figures(text: str) -> str:
    """A text with the figures of every script as 0 to 9."""
    return text if text.isascii() else _FIGURE.sub(lambda found: str(digit(found.group())), text)
