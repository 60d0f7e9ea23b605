"""Varying spans with constant text behind them: a time stamp, an id, a name, documents, a variant.

What stands right before and right behind the span is kept literally: that finds the span in every member of the family,
whatever its value there.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from proxy.prefixes.breakers.documents import Document, Parting
from proxy.prefixes.breakers.fields import shared_ends
from proxy.prefixes.breakers.rejoining import CONTEXT, Rejoining
from proxy.prefixes.breakers.values import EDITS, Values
from proxy.prefixes.breakers.writing import FULL_STOPS, begins_value, last_words

MOSTLY = 0.6
"""A place is right when it explains this part of the partings, in this part of the members that might have it."""

SENTENCE = 64
"""A span moves together with the sentence or line it stands in, if what surrounds it is no longer than this: then the
sentence is about nothing else."""

LABEL = 5
"""Words before a value that may go with it."""

DOCUMENT = 240
"""Characters of a span from which on it is no value but a text: it moves with its heading."""

BEGIN = "\0"
"""Stands for the begin of a text."""

WITNESSES = 4
"""Prompts without the value that are asked how the text reads there."""

_MARKS = ("\n", ". ", "! ", "? ", "\u061f ", *FULL_STOPS)
_STOP = re.compile(rf"\n|[.!?\u061f](?=\s|\Z)|[{FULL_STOPS}]")


Span = tuple[int, int, int]
"""Segment, begin and end."""

Row = tuple[str, str, float, int]
"""A value, the same with what stands behind it, its moment, its conversation."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the prompts of a family whose content varies; mended, the span and its sentence go to the end.

    What stands at the very end is shared with nobody, so the span is simply left out.
    """

    role: str
    left: str
    """What stands right before; empty: the segment begins."""
    right: str
    """What stands right behind; empty: the segment ends."""
    first_line: bool = False
    """Only the first line of what stands between, where it has several."""
    fix = "move"

    def find(self, document: Document) -> Span | None:
        """Segment, begin and end of the span in a prompt; None where the place does not occur or is empty."""
        for index, segment in reversed(list(document.content(self.role))):
            if (span := self._span(segment.text)) is not None:
                return (index, *span)
        return None

    def carries(self, document: Document) -> bool:
        """Whatever has the place, and something in it."""
        return self.find(document) is not None

    def empty(self, document: Document) -> bool:
        """Whether a prompt has the place, and nothing in it."""
        return any(self.left + self.right in one.text for _, one in document.content(self.role))

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """All prompts without the span."""
        found = [self.find(document) for document in documents]
        others = self._others(documents, found)
        cut = partial(_cut, others=others)
        return [put(one, span, cut) for one, span in zip(documents, found, strict=True)]

    def _others(self, documents: Sequence[Document], found: Sequence[Span | None]) -> list[str]:
        """What some members without the place say in this role, each text behind `BEGIN`."""
        without = [document for document, span in zip(documents, found, strict=True) if span is None]
        return [BEGIN + segment.text for one in without[:WITNESSES] for _, segment in one.content(self.role)]

    def _span(self, text: str) -> tuple[int, int] | None:
        at = text.find(self.left)
        if at < 0:
            return None
        begin = at + len(self.left)
        end = text.find(self.right, begin) if self.right else len(text)
        if self.first_line and (line := text.find("\n", begin, end)) > begin:
            end = line
        return (begin, end) if end > begin else None


def put(document: Document, span: Span | None, change: Callable[[str, int, int], str]) -> Document:
    """A prompt with the text of a span changed; without the span as it is."""
    if span is None:
        return document
    index, begin, end = span
    return document.edited(index, change(document.segments[index].text, begin, end))


def slots(documents: Sequence[Document], partings: Sequence[Parting]) -> Iterator[tuple[Slot, list[Parting]]]:
    """Places where members part and come together again, with the partings that show them."""
    rejoining = Rejoining(documents)
    found: dict[tuple[str, str], list[Parting]] = defaultdict(list)
    for parting in partings:
        if parting.comparable and (end := rejoining.end(parting)) is not None:
            found[parting.mine.role, parting.mine.text[end : end + CONTEXT]].append(parting)
    for (role, right), group in found.items():
        yield _best(documents, role, right, group), group


def _best(documents: Sequence[Document], role: str, right: str, group: Sequence[Parting]) -> Slot:
    """The place that explains most partings in most members: some members may lack the value, some share its begin."""
    begins = [value_start(parting.mine.text, parting.char) for parting in group]
    candidates: dict[Slot, int] = {}
    for parting, begin in zip(group, begins, strict=True):
        candidates.setdefault(Slot(role, parting.mine.text[max(0, begin - CONTEXT) : begin], right), begin)
    carried = {slot: sum(map(slot.carries, documents)) for slot in candidates}
    most = max(carried.values())
    fitting = [
        slot
        for slot, first in candidates.items()
        if sum(begin >= first for begin in begins) >= MOSTLY * len(begins) and carried[slot] >= MOSTLY * most
    ]
    return max(fitting, key=lambda slot: candidates[slot]) if fitting else min(candidates, key=lambda s: candidates[s])


def value_start(text: str, at: int) -> int:
    """The begin of the value that a character stands in: values of one form often begin alike."""
    least = max(0, at - CONTEXT)
    while at > least and not begins_value(text, at):
        at -= 1
    return at


def values(documents: Sequence[Document], slot: Slot, talks: Sequence[int]) -> Values:
    """What stands in the place in all members that have it; of a text that comes and goes, nothing is a value too."""
    rows = _rows(documents, slot, talks)
    if len({row[0] for row in rows}) == 1:
        rows = _rows(documents, slot, talks, empty=True)
    texts, wide, times_s, talks = zip(*_valued(rows), strict=True) if rows else ((), (), (), ())
    return narrowed(Values(texts, wide, times_s, talks, slot.left))


def narrowed(seen: Values) -> Values:
    """Values without the words that all of them begin and end with; those at the begin are a label."""
    first, last = shared_ends(seen.texts)
    return replace(
        seen,
        texts=tuple(text[first : len(text) - last] for text in seen.texts),
        wide=tuple(wide[first:] for wide in seen.wide),
        label=last_words(seen.label + "".join(seen.texts[:1])[:first]),
    )


def _rows(documents: Sequence[Document], slot: Slot, talks: Sequence[int], empty: bool = False) -> list[Row]:
    """Members that have the place with what stands there; `empty`: those too that have nothing there."""
    rows = []
    for document, talk in zip(documents, talks, strict=True):
        if (span := slot.find(document)) is not None:
            index, begin, end = span
            text = document.segments[index].text
            begin, end = _bare(text, begin, end)
            rows.append((text[begin:end], text[begin : end + CONTEXT // 2].split("\n")[0], document.at_s, talk))
        elif empty and slot.empty(document):
            rows.append(("", "", document.at_s, talk))
    return rows


def _valued(rows: list[Row]) -> list[Row]:
    """Without the members that have in the place only what stands before the value in the others."""
    least = min((row[0] for row in rows), default="")
    others = [row for row in rows if row[0] != least]
    lacking = all(row[0].startswith(least) and row[0][len(least)].isspace() for row in others)
    return others if lacking and len({row[0] for row in others}) > EDITS else rows


def value_at(slot: Slot, seen: Values, parting: Parting) -> int:
    """Where the value stands, in the text of that prompt of the two which has one: they may part at what stands before
    it, of which the other has nothing."""
    for document in (parting.later, parting.earlier):
        index, *span = slot.find(document) or (None,)
        if index == parting.index:
            text = document.segments[index].text
            begin, end = _bare(text, *span)
            value = max((one for one in seen.texts if one in text[begin:end]), key=len, default="")
            return text.index(value, begin)
    return 0


def _bare(text: str, begin: int, end: int) -> tuple[int, int]:
    """A span without the blanks at its ends."""
    value = text[begin:end]
    return begin + len(value) - len(value.lstrip()), end - len(value) + len(value.rstrip()) if value.strip() else end


def _cut(text: str, begin: int, end: int, others: Sequence[str]) -> str:
    """A text without a span and its sentence; without so much of it that it reads like one that never had the span."""
    first, last = sentence(text, begin, end)
    if end - begin > DOCUMENT:
        first = heading(text, begin)
    for left, right in _cuts(text, (first, last), (begin, end)):
        around = (BEGIN + text[:left])[-CONTEXT:] + text[right : right + CONTEXT]
        if any(around in other for other in others):
            return text[:left] + text[right:]
    return text[:first] + text[last:]


def _cuts(text: str, sentence: tuple[int, int], span: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Where a span may be cut out, the more around it the earlier; last with some of the words that stand before it."""
    (first, last), (begin, end) = sentence, span
    yield from ((first, last), (first, end), (first, end + 1), (begin, last), (begin, end), (begin, end + 1))
    stop = _STOP.search(text, max(begin, end - 1))
    blanks = [left for left in range(begin - 1, max(0, begin - SENTENCE), -1) if text[left].isspace()]
    for left in blanks[:LABEL]:
        yield from ((left, end), (left, stop.start() if stop else len(text)))


def heading(text: str, begin: int) -> int:
    """The begin of the paragraph that a text stands in, if that is a short heading; else of its line."""
    at = text.rfind("\n\n", 0, begin) + 2 if "\n\n" in text[:begin] else 0
    return at if begin - at <= SENTENCE else text.rfind("\n", 0, begin) + 1


def sentence(text: str, begin: int, end: int) -> tuple[int, int]:
    """The sentence or line around a span, if what surrounds it is short; else the span."""
    left = max((at + len(mark) for mark in _MARKS if (at := text.rfind(mark, 0, begin)) >= 0), default=0)
    stop = _STOP.search(text, max(begin, end - 1))
    right = stop.end() if stop else len(text)
    if (begin - left) + (right - end) > SENTENCE:
        return begin, end
    while left and text[left - 1] == " " and text[right : right + 1] in ("", "\n"):
        left -= 1
    whole_lines = text[:left].endswith("\n") and text[right : right + 1] == "\n"
    return left, right + whole_lines
