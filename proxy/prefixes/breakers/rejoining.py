"""Where two texts that parted come together again, in words that are the application's own.

Text is the application's own when most of the family has it, so a canned sentence behind somebody's question does not
count. It must go on for a while, too: labels between the values of a record end none of them.
"""

from collections import Counter
from collections.abc import Sequence

from proxy.prefixes.breakers.documents import HEAD_ROLES, Document, Parting, agreement
from proxy.prefixes.breakers.writing import inside_word, pieces, size

CONSTANT = 0.5
"""Text that at least this part of the family has is the application's own."""

ENOUGH = 160
"""Characters of constant text that must follow for a span to matter: about 40 tokens, more than two blocks."""

REPLIES = ("assistant", "tool")
"""Roles that answer what stands before them."""

CONTEXT = 32
"""Characters that tell a place: long enough to be unique in a prompt."""

WORD_MOST = 32
"""Characters of a word, at most."""

PIECE = 12
"""Pieces of text of a smaller size say nothing."""


class Rejoining:
    """Finds where partings of one family end."""

    # State: the constant pieces and endings of each role, found when they are first asked for.

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._constant: dict[str, set[str]] = {}
        self._endings: dict[str, set[str]] = {}

    def end(self, parting: Parting) -> int | None:
        """The character of the later prompt's segment where common text begins again; None: nowhere."""
        mine, other = parting.mine.text, parting.other.text
        begin = _word_begin(mine, other, parting.char)
        for piece, at in pieces(mine, begin):
            there = other.find(piece, begin) if piece in self._pieces_of(parting.mine.role) else -1
            if there >= 0 and mine[at : at + CONTEXT] == other[there : there + CONTEXT]:
                return _word_end(mine, _back(mine, other, at, there, begin))
        tail = agreement(mine[parting.char :][::-1], other[parting.char :][::-1])
        if tail >= ENOUGH and mine[-ENOUGH:] in self._endings_of(parting.mine.role):
            return _word_end(mine, len(mine) - tail)
        return len(mine) if self._may_break_what_follows(parting) and _same_behind(parting) else None

    def _may_break_what_follows(self, parting: Parting) -> bool:
        """The application wrote what varies: the head, a message before another one of its own, or a value in its own
        words. What follows upon somebody's question is no loss, be it the same each time."""
        if parting.mine.role in HEAD_ROLES:
            return True
        behind = next((one for one in parting.later.segments[parting.index + 1 :] if one.role), parting.mine)
        if not self._is_own(behind.role, behind.text):
            return False
        return behind.role not in REPLIES or self._is_own(parting.mine.role, parting.mine.text[: parting.char])

    def _is_own(self, role: str, text: str) -> bool:
        """Some sentence or line of a text is the application's own."""
        return not self._pieces_of(role).isdisjoint(piece for piece, _ in pieces(text, 0))

    def _endings_of(self, role: str) -> set[str]:
        if role not in self._endings:
            self._endings[role] = constant_endings(self._documents, role)
        return self._endings[role]

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
        counts.update({piece for text in texts for piece, _ in pieces(text, 0)})
    return {piece for piece, count in counts.items() if count >= max(2, CONSTANT * members) and size(piece) >= PIECE}


def constant_endings(documents: Sequence[Document], role: str) -> set[str]:
    """Ends of texts of this role that most members have which have the role at all."""
    found = [{segment.text[-ENOUGH:] for _, segment in document.content(role)} for document in documents]
    counts = Counter(ending for endings in found for ending in endings)
    return {ending for ending, count in counts.items() if count >= max(2, CONSTANT * sum(map(bool, found)))}


def _back(mine: str, other: str, here: int, there: int, least: int) -> int:
    """The begin of the common text around two equal places."""
    while here > least and there > least and mine[here - 1] == other[there - 1]:
        here, there = here - 1, there - 1
    return here


def _word_begin(mine: str, other: str, at: int) -> int:
    """The begin of the words in which two texts part: a word may begin like a value that only one of them has."""
    least = max(0, at - WORD_MOST)
    while at > least and (inside_word(mine, at) or inside_word(other, at)):
        at -= 1
    return at


def _word_end(text: str, at: int) -> int:
    """The first place from `at` on that is not inside a word: the ends of two values may be alike."""
    while inside_word(text, at):
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
