"""The same items in another order: tools, the keys of a JSON object, worked examples.

Items are what a list is made of: lines of the list of tools, paragraphs or lines of a text, pairs of messages. The pool
of a family is the items that come back in many members. The repair gives the items of the pool, wherever they stand, the
order in which they were first seen; what is not of the pool stays in its place.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from proxy.prefixes.canon import Segment
from proxy.prefixes.documents import Document, canonical

POOL = 0.25
"""An item belongs to the pool when this part of the members has it: examples may be drawn from a larger set."""

ITEM = 24
"""Characters of an item of text; shorter ones are labels and rules."""

SEPARATORS = ("\n\n", "\n")
"""What parts the items of a list, the coarser first."""

_LABEL = re.compile(r"\A\W*(?:[^\W\d_]{1,12}\s*)?[#(\[]?\d{1,3}[\])}.:]+\s*")
"""A numbered label: it belongs to the place, not to the item."""

_OBJECT = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class Keys:
    """Gives JSON objects that differ in the order of their keys the order first seen."""

    # State: objects as first seen, by their sorted form.

    roles: Sequence[str]
    _first: dict[str, str] = field(default_factory=dict)

    def ordered(self, document: Document) -> Document:
        """The prompt with every object's keys in one order."""
        for index, segment in document.content():
            if segment.role in self.roles:
                document = document.edited(index, self.text(segment.text))
        return document

    def text(self, text: str) -> str:
        """A text with the objects in it in their first form."""
        done, out = 0, []
        for begin, end in objects(text):
            piece = text[begin:end]
            out += [text[done:begin], self._first.setdefault(canonical(piece) or piece, piece)]
            done = end
        return "".join([*out, text[done:]])


def objects(text: str) -> list[tuple[int, int]]:
    """Where the outermost JSON objects and lists of a text begin and end."""
    found, at = [], 0
    while (match := _OBJECT.search(text, at)) is not None:
        try:
            value, end = _DECODER.raw_decode(text, match.start())
        except ValueError:
            end, value = match.end(), None
        if isinstance(value, dict | list) and value:
            found.append((match.start(), end))
        at = end
    return found


def same_objects(one: str, other: str, char: int) -> bool:
    """Two texts part inside a JSON object that is the same in both but for the order of its keys."""
    mine = next(((a, b) for a, b in objects(one) if a <= char < b), None)
    theirs = next(((a, b) for a, b in objects(other) if a <= char < b), None)
    if mine is None or theirs is None:
        return False
    a, b = one[slice(*mine)], other[slice(*theirs)]
    return a != b and canonical(a) == canonical(b)


def name_of(item: str) -> str:
    """An item without its number, blanks at its ends, and the order of keys in it."""
    text = _LABEL.sub("", item.strip(), count=1)
    return canonical(text) or text


def permuted(one: str, other: str, char: int, separator: str) -> bool:
    """Behind `char` two texts have items in common, most of their length, in another order."""
    mine, theirs = (_behind(text, char, separator) for text in (one, other))
    common = set(mine) & set(theirs)
    order = {name: k for k, name in enumerate(theirs)}
    ranks = [order[name] for name in mine if name in common]
    if len(common) < 3 or ranks == sorted(ranks):
        return False
    return sum(map(len, common)) >= 0.5 * sum(len(name) for name in set(mine))


def _behind(text: str, char: int, separator: str) -> list[str]:
    begin = text.rfind(separator, 0, char)
    items = text[max(0, begin) :].split(separator)
    return [name for name in map(name_of, items) if len(name) >= ITEM]


@dataclass(slots=True)
class Pool:
    """Gives the items that many members of a family share the order in which they were first seen."""

    # State: items of the pool and their rank.

    role: str
    separator: str
    _rank: dict[str, int] = field(default_factory=dict)

    def learn(self, documents: Sequence[Document]) -> None:
        """Take the pool from all members."""
        counts: Counter[str] = Counter()
        for document in documents:
            names = {name for text in self._texts(document) for name in map(name_of, text.split(self.separator))}
            counts.update(names)
        least = max(2, POOL * len(documents))
        for document in documents:
            for text in self._texts(document):
                for name in map(name_of, text.split(self.separator)):
                    if counts[name] >= least and len(name) >= ITEM:
                        self._rank.setdefault(name, len(self._rank))

    def ordered(self, document: Document) -> Document:
        """The prompt with the items of the pool in their order."""
        for index, segment in document.content():
            if segment.role == self.role:
                document = document.edited(index, self._sorted(segment.text))
        return document

    def _texts(self, document: Document) -> list[str]:
        return [segment.text for _, segment in document.content() if segment.role == self.role]

    def _sorted(self, text: str) -> str:
        items = text.split(self.separator)
        places = [k for k, item in enumerate(items) if name_of(item) in self._rank]
        ranked = sorted((items[k] for k in places), key=lambda item: self._rank[name_of(item)])
        for place, item in zip(places, ranked, strict=True):
            items[place] = _relabel(item, items[place])
        return self.separator.join(items)


def _relabel(item: str, place: str) -> str:
    """An item under the number of its place."""
    label, own = _LABEL.match(place), _LABEL.match(item)
    if label is None or own is None:
        return item
    return label.group() + item[own.end() :]


def moved_turns(one: Document, other: Document, text: str, theirs: str) -> bool:
    """Each of two texts stands as a message of the other prompt too, in another place."""
    mine, found = ({segment.text for _, segment in document.content()} for document in (one, other))
    return theirs in mine and text in found


@dataclass(slots=True)
class TurnPool:
    """Gives worked examples that are messages of their own the order in which they were first seen."""

    # State: the rank of each pair of a question and its answer that many members have.

    _rank: dict[tuple[str, str], int] = field(default_factory=dict)

    def learn(self, documents: Sequence[Document]) -> None:
        """Take the pairs from all members."""
        counts = Counter(pair for document in documents for pair in {names for _, names in _pairs(document)})
        for document in documents:
            for _, names in _pairs(document):
                if counts[names] >= max(2, POOL * len(documents)):
                    self._rank.setdefault(names, len(self._rank))

    def ordered(self, document: Document) -> Document:
        """The prompt with the pairs of the pool in their order."""
        found = [(places, names) for places, names in _pairs(document) if names in self._rank]
        ranked = sorted((names for _, names in found), key=lambda names: self._rank[names])
        for (places, _), names in zip(found, ranked, strict=True):
            for place, text in zip(places, names, strict=True):
                document = document.edited(place, text)
        return document


def _pairs(document: Document) -> list[tuple[tuple[int, int], tuple[str, str]]]:
    """Questions with the answer that follows: their segments and their texts."""
    found = [(index, segment) for index, segment in document.content() if segment.role in ("user", "assistant")]
    return [
        ((k, n), (a.text, b.text))
        for (k, a), (n, b) in zip(found, found[1:], strict=False)
        if a.role == "user" and b.role == "assistant"
    ]


def images_last(document: Document) -> Document:
    """The prompt with the images of each message behind its text."""
    segments: list[Segment] = []
    waiting: list[Segment] = []
    marked = False
    for segment in document.segments:
        image = bool(segment.role) and (bool(segment.marker) or marked)
        if image:
            waiting.append(segment)
        elif segment.role:
            segments.append(segment)
        else:
            segments += [*waiting, segment]
            waiting = []
        marked = bool(segment.role) and bool(segment.marker)
    return replace(document, segments=tuple(segments))
