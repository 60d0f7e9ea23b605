"""Where two texts that parted come together again, in words that are the application's own.

Text is the application's own when most of the family has it, so a canned sentence behind somebody's question does not
count.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from proxy.prefixes.breakers.documents import HEAD_ROLES, Document, Parting, agreement

CONSTANT = 0.5
"""Text that at least this part of the family has is the application's own."""

ENOUGH = 160
"""Characters of constant text that must follow for a span to matter: about 40 tokens, more than two blocks."""

PIECE = 12
"""Pieces of text shorter than this say nothing."""

_PIECES = re.compile(r"(?<=[\n.!?:;])")


class Rejoining:
    """Finds where partings of one family end."""

    # State: the constant pieces of each role, found when they are first asked for.

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._constant: dict[str, set[str]] = {}

    def end(self, parting: Parting) -> int | None:
        """The character of the later prompt's segment where common text begins again; None: nowhere."""
        mine, other = parting.mine.text, parting.other.text
        for piece, at in _pieces(mine, parting.char):
            if piece in self._pieces_of(parting.mine.role) and (there := other.find(piece, parting.char)) >= 0:
                return _word_end(mine, _back(mine, other, at, there, parting.char))
        tail = agreement(mine[parting.char :][::-1], other[parting.char :][::-1])
        if tail >= ENOUGH:
            return _word_end(mine, len(mine) - tail)
        return len(mine) if parting.mine.role in HEAD_ROLES and _same_behind(parting) else None

    def _pieces_of(self, role: str) -> set[str]:
        if role not in self._constant:
            self._constant[role] = constant_pieces(self._documents, role)
        return self._constant[role]


def constant_pieces(documents: Sequence[Document], role: str) -> set[str]:
    """Sentences and lines of this role that most members have which have the role at all."""
    counts: Counter[str] = Counter()
    members = 0
    for document in documents:
        texts = [segment.text for _, segment in document.content(role)]
        members += bool(texts)
        counts.update({piece for text in texts for piece, _ in _pieces(text, 0)})
    return {piece for piece, count in counts.items() if count >= max(2, CONSTANT * members) and len(piece) >= PIECE}


def _pieces(text: str, begin: int) -> Iterator[tuple[str, int]]:
    """Sentences and lines from a place on, blanks at their ends apart, and where they begin."""
    at = begin
    for piece in _PIECES.split(text[begin:]):
        yield piece.strip(), at + len(piece) - len(piece.lstrip())
        at += len(piece)


def _back(mine: str, other: str, here: int, there: int, least: int) -> int:
    """The begin of the common text around two equal places."""
    while here > least and there > least and mine[here - 1] == other[there - 1]:
        here, there = here - 1, there - 1
    return here


def _word_end(text: str, at: int) -> int:
    """The first place from `at` on that is not inside a word: the ends of two values may be alike."""
    while 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum():
        at += 1
    return at


def _same_behind(parting: Parting) -> bool:
    """The segments behind are the same in both, and long enough to matter."""
    same = 0
    mine, other = (document.segments[parting.index + 1 :] for document in (parting.later, parting.earlier))
    for a, b in zip(mine, other, strict=False):
        if a.text != b.text:
            break
        same += len(a.text)
    return same >= ENOUGH
