"""Varying spans with constant text behind them: a time stamp, an id, a name, documents, a variant.

Two prompts of a family part at a character of the same segment; behind it they come together again. Text is constant
when most of the family has it, so a canned sentence behind somebody's question does not count. What stands right before
and right behind the span is kept literally: that finds the span in every member, whatever its value there.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proxy.prefixes.documents import HEAD_ROLES, Document, Parting, agreement
from proxy.prefixes.values import Values

CONTEXT = 32
"""Characters kept on either side: long enough to be unique in a prompt."""

CONSTANT = 0.5
"""Text that at least this part of the family has is the application's own."""

ENOUGH = 160
"""Characters of constant text that must follow for a span to matter: about 40 tokens, more than two blocks."""

MOSTLY = 0.6
"""A place is right when it explains this part of the partings."""

PIECE = 12
"""Pieces of text shorter than this say nothing."""

SENTENCE = 240
"""A span moves together with the sentence or line it stands in, if what surrounds it is no longer than this."""

_PIECES = re.compile(r"(?<=[\n.!?:;])")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the prompts of a family whose content varies."""

    role: str
    left: str
    """What stands right before; empty: the segment begins."""
    right: str
    """What stands right behind; empty: the segment ends."""

    def find(self, document: Document) -> tuple[int, int, int] | None:
        """Segment, begin and end of the span in a prompt; None where the place does not occur or is empty."""
        for index, segment in document.content():
            if segment.role == self.role and (span := self._span(segment.text)) is not None:
                return (index, *span)
        return None

    def _span(self, text: str) -> tuple[int, int] | None:
        at = text.find(self.left) if self.left else 0
        if at < 0:
            return None
        begin = at + len(self.left)
        end = text.find(self.right, begin) if self.right else len(text)
        return (begin, end) if end > begin else None


def constant_pieces(documents: Sequence[Document], role: str) -> set[str]:
    """Sentences and lines of this role that most members have which have the role at all."""
    counts: Counter[str] = Counter()
    members = 0
    for document in documents:
        texts = [segment.text for _, segment in document.content() if segment.role == role]
        members += bool(texts)
        counts.update({piece.strip() for text in texts for piece in _PIECES.split(text)})
    least = max(2, CONSTANT * members)
    return {piece for piece, count in counts.items() if count >= least and len(piece) >= PIECE}


def slots(documents: Sequence[Document], partings: Sequence[Parting]) -> Iterator[tuple[Slot, list[Parting]]]:
    """Places where members part and come together again, with the partings that show them."""
    constant: dict[str, set[str]] = {}
    found: dict[tuple[str, str], list[tuple[Parting, int]]] = defaultdict(list)
    for parting in partings:
        mine, other = _segments(documents, parting)
        if mine is None or other is None:
            continue
        role = mine.role
        if role not in constant:
            constant[role] = constant_pieces(documents, role)
        end = _rejoin(mine.text, other.text, parting.char, constant[role])
        if end is None and role in HEAD_ROLES and _same_behind(documents, parting):
            end = len(mine.text)
        if end is not None:
            found[role, mine.text[end : end + CONTEXT]].append((parting, end))
    for (role, right), group in found.items():
        yield _slot(documents, role, right, group), [parting for parting, _ in group]


def _segments(documents: Sequence[Document], parting: Parting):  # type: ignore[no-untyped-def]
    mine = documents[parting.later].whole()[parting.index]
    other = documents[parting.earlier].whole()[parting.index]
    if mine.marker or other.marker or not mine.role or mine.role != other.role:
        return None, None
    return mine, other


def _rejoin(mine: str, other: str, char: int, constant: set[str]) -> int | None:
    """Where, behind `char`, text begins that both have and that is the application's own; None: nowhere."""
    at = char
    pieces = _PIECES.split(mine[char:])
    for piece in pieces:
        text = piece.strip()
        if text in constant and (there := other.find(text, char)) >= 0:
            here = mine.index(text, at)
            return _word_end(mine, _back(mine, other, here, there, char))
        at += len(piece)
    tail = _tail(mine[char:], other[char:])
    return _word_end(mine, len(mine) - tail) if tail >= ENOUGH else None


def _back(mine: str, other: str, here: int, there: int, least: int) -> int:
    """The begin of the common text around two equal places."""
    while here > least and there > least and mine[here - 1] == other[there - 1]:
        here, there = here - 1, there - 1
    return here


def _word_end(text: str, at: int) -> int:
    """The first place from `at` on that is not inside a word: the ends of two values may be alike."""
    if at == 0 or not (text[at - 1].isalnum()):
        return at
    while at < len(text) and text[at].isalnum():
        at += 1
    return at


def _tail(one: str, other: str) -> int:
    """Characters that two texts share at their end."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle :] == other[len(other) - middle :]:
            low = middle
        else:
            high = middle - 1
    return low


def _same_behind(documents: Sequence[Document], parting: Parting) -> bool:
    """The segments behind are the same in both, and long enough to matter."""
    same = 0
    mine, other = documents[parting.later].segments, documents[parting.earlier].segments
    for a, b in zip(mine[parting.index + 1 :], other[parting.index + 1 :], strict=False):
        if a.text != b.text:
            break
        same += len(a.text)
    return same >= ENOUGH


def _slot(documents: Sequence[Document], role: str, right: str, group: Sequence[tuple[Parting, int]]) -> Slot:
    """The place that explains most partings in most members: some members may lack the value, some share its begin."""
    begins: dict[str, int] = {}
    parted = [_left(documents, parting) for parting, _ in group]
    for left, begin in parted:
        begins.setdefault(left, begin)
    candidates = [(begin, Slot(role, left, right)) for left, begin in begins.items()]
    counts = {slot: sum(slot.find(document) is not None for document in documents) for _, slot in candidates}
    most = max(counts.values())
    for begin, slot in sorted(candidates, key=lambda item: -item[0]):
        agree = sum(1 for _, other in parted if other >= begin)
        if agree >= MOSTLY * len(parted) and counts[slot] >= MOSTLY * most:
            return slot
    return min(candidates, key=lambda item: item[0])[1]


def _left(documents: Sequence[Document], parting: Parting) -> tuple[str, int]:
    text = documents[parting.later].whole()[parting.index].text
    begin = value_start(text, parting.char)
    return text[max(0, begin - CONTEXT) : begin], begin


def value_start(text: str, at: int) -> int:
    """The begin of the value that a character stands in: values of one form often begin alike."""
    least = max(0, at - CONTEXT)
    while at > least and not text[at - 1].isspace() and text[at - 1] not in "=([{<\"'|":
        at -= 1
    return at


def values(documents: Sequence[Document], slot: Slot, talks: Sequence[int]) -> tuple[list[int], Values]:
    """The members that have the place, and what stands there."""
    carriers, texts, wide = [], [], []
    for number, document in enumerate(documents):
        if (span := slot.find(document)) is not None:
            carriers.append(number)
            index, begin, end = span
            text = document.segments[index].text
            texts.append(text[begin:end])
            wide.append(text[begin : end + CONTEXT // 2].split("\n")[0])
    times = tuple(documents[number].at_s for number in carriers)
    owners = tuple(talks[number] for number in carriers)
    first, last = _shared_ends(texts)
    bare = tuple(text[first : len(text) - last] for text in texts)
    behind = tuple(text[first:] for text in wide)
    return carriers, Values(bare, behind, times, owners, slot.left + texts[0][:first] if texts else slot.left)


def _shared_ends(texts: Sequence[str]) -> tuple[int, int]:
    """Characters of whole words that all texts begin, and end, with: they are no part of the value."""
    one, other = min(texts, default=""), max(texts, default="")
    if one == other:
        return 0, 0
    begin = agreement(one, other)
    begin = one.rfind(" ", 0, begin) + 1
    turned = [text[begin:][::-1] for text in texts]
    end = agreement(min(turned), max(turned))
    return begin, max(0, turned[0].rfind(" ", 0, end) + 1, turned[0].rfind("\n", 0, end) + 1)


def without(document: Document, slot: Slot) -> Document:
    """The prompt with the span, and the sentence around it, gone from its place."""
    span = slot.find(document)
    if span is None:
        return document
    index, begin, end = span
    text = document.segments[index].text
    begin, end = sentence(text, begin, end) if end - begin <= SENTENCE else (paragraph(text, begin), end)
    return document.edited(index, text[:begin] + text[end:])


def paragraph(text: str, begin: int) -> int:
    """The begin of the paragraph that a document stands in: its heading goes with it."""
    return max(text.rfind("\n\n", 0, begin) + 2, 0) if "\n\n" in text[:begin] else 0


def sentence(text: str, begin: int, end: int) -> tuple[int, int]:
    """The sentence or line around a span, if it is short; else the span."""
    left = max(text.rfind("\n", 0, begin) + 1, *(text.rfind(mark, 0, begin) + 2 for mark in (". ", "! ", "? ")), 0)
    left = left if left > 1 else 0
    stop = re.compile(r"\n|[.!?](?=\s|$)").search(text, max(begin, end - 1))
    right = stop.end() if stop else len(text)
    if (begin - left) + (right - end) > SENTENCE:
        return begin, end
    while left and text[left - 1] == " " and text[right : right + 1] in ("", "\n"):
        left -= 1
    return left, right
