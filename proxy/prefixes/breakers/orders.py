"""The same items in another order: tools, the keys of a JSON object, the words of a line, worked examples in a text.

Items are what a list is made of: lines of the list of tools, paragraphs or lines of a text. The pool of a family is the
items that come back in many members. The repair gives the items of the pool, wherever they stand, the order in which
they were first seen; what is not of the pool stays in its place.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from proxy.prefixes.breakers.documents import Document, Parting, Repair, canonical
from proxy.prefixes.breakers.writing import WORD, size

POOL = 0.25
"""An item belongs to the pool when this part of the members has it: examples may be drawn from a larger set."""

DRAWN = 0.35
"""Of examples in a text so many, for documents that were found for a question come back too, each now and then."""

ITEM = 24
"""Size of an item of text; shorter ones are labels and rules."""

SHARED = 3
"""Items that two texts must have in common: two may be swapped by chance."""

LISTED = 5
"""Words of a line that are told apart from a value or two."""

OPENINGS = 1_000
"""Brackets of one text at which an object is looked for; code has many, and each costs a try."""

LINE = r"\n"
"""Parts the items of a list of lines."""
PARAGRAPH = r"\r?\n(?:[^\S\n]*(?:[-#=*~_+]{3,})?[^\S\n]*\n)+"
"""Parts paragraphs: empty lines, and lines that are drawn."""
BLANK = "\n\n"
"""Ends a paragraph whose lines belong together."""

_LABEL = re.compile(r"\A\W*(?:[^\W\d_]{1,12}\s*)?[#(\[]?\d{1,3}(?:[\])}.:]+\s*|\s*\n\s*)")
"""A numbered label: it belongs to the place, not to the item."""

_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class AsSeen:
    """Gives what is the same but for its order the order first seen. `write` does so in a text, by what was seen."""

    role: str
    write: Callable[[dict[Any, str], str], str]
    fix = "reorder"

    def carries(self, document: Document) -> bool:
        """Whatever has text of the role."""
        return document.has(self.role)

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """All prompts in one order."""
        first: dict[Any, str] = {}
        return [self._ordered(document, first) for document in documents]

    def _ordered(self, document: Document, first: dict[Any, str]) -> Document:
        for index, segment in document.content(self.role):
            document = document.edited(index, self.write(first, segment.text))
        return document


def other_order(parting: Parting) -> tuple[str, Repair] | None:
    """The same tools, keys, words or examples in another order."""
    mine, other, char = parting.mine, parting.other, parting.char
    if mine.role == "tools" and permuted(mine.text, other.text, char, LINE):
        return "tool_order", ItemsInOrder("tools", LINE)
    if same_objects(mine.text, other.text, char):
        return "json_key_order", AsSeen(mine.role, objects_as_seen)
    if words_of(line_at(mine.text, char)) == words_of(line_at(other.text, char)) != ():
        return "other", AsSeen(mine.role, words_as_seen)
    whole = lines_of(paragraph_at(mine.text, char)) == lines_of(paragraph_at(other.text, char)) != ()
    if permuted(mine.text, other.text, char, PARAGRAPH):
        return "fewshot_order", ItemsInOrder(mine.role, PARAGRAPH)
    if permuted(mine.text, other.text, char, LINE):
        return "fewshot_order", AsSeen(mine.role, lines_as_seen) if whole else ItemsInOrder(mine.role, LINE)
    return ("other", AsSeen(mine.role, lines_as_seen)) if whole else None


# --- keys -------------------------------------------------------------------------------------------------------------


def objects_as_seen(first: dict[Any, str], text: str) -> str:
    """A text with the objects in it that differ in the order of their keys alone as they were first seen; new ones are
    remembered."""
    done, out = 0, []
    for begin, end in objects(text):
        piece = text[begin:end]
        out += [text[done:begin], first.setdefault(canonical(piece) or piece, piece)]
        done = end
    return "".join([*out, text[done:]])


def objects(text: str) -> list[tuple[int, int]]:
    """Where the outermost JSON objects and lists of a text begin and end."""
    found, at = [], 0
    for _ in range(OPENINGS):
        if (match := _OPENING.search(text, at)) is None:
            break
        try:
            _, at = _DECODER.raw_decode(text, match.start())
            found.append((match.start(), at))
        except ValueError:
            at = match.end()
        except RecursionError:
            break
    return found


def sorted_keys(text: str) -> str:
    """A text with the keys of all objects in it sorted."""
    done, out = 0, []
    for begin, end in objects(text):
        out += [text[done:begin], canonical(text[begin:end]) or text[begin:end]]
        done = end
    return "".join([*out, text[done:]])


def same_objects(one: str, other: str, char: int) -> bool:
    """Two texts part inside a JSON object that is the same in both but for the order of its keys."""
    mine, theirs = _object_at(one, char), _object_at(other, char)
    return mine != theirs and mine is not None and theirs is not None and canonical(mine) == canonical(theirs)


def _object_at(text: str, char: int) -> str | None:
    return next((text[begin:end] for begin, end in objects(text) if begin <= char < end), None)


# --- words ------------------------------------------------------------------------------------------------------------


def words_as_seen(first: dict[Any, str], text: str) -> str:
    """A text with its lines of the same words, as lists of features are, as they were first seen; new ones are
    remembered."""
    return "\n".join(first.setdefault(words, line) if (words := words_of(line)) else line for line in text.split("\n"))


def line_at(text: str, char: int, end: str = "\n") -> str:
    """The line that a character stands in."""
    before, behind = text.rfind(end, 0, char), text.find(end, char)
    return text[before + len(end) if before >= 0 else 0 : behind if behind >= 0 else len(text)]


def words_of(line: str) -> tuple[str, ...]:
    """The words of a line in one order; none of a line that is no list."""
    words = WORD.findall(line)
    return tuple(sorted(words)) if len(words) >= LISTED else ()


# --- lines ------------------------------------------------------------------------------------------------------------


def lines_as_seen(first: dict[Any, str], text: str) -> str:
    """A text with its paragraphs of the same lines, as tables are, settings, and lists of objects, as they were first
    seen; new ones are remembered."""
    found = ((lines_of(paragraph), paragraph) for paragraph in text.split(BLANK))
    return BLANK.join(first.setdefault(lines, paragraph) if lines else paragraph for lines, paragraph in found)


def paragraph_at(text: str, char: int) -> str:
    """The paragraph that a character stands in."""
    return line_at(text, char, BLANK)


def lines_of(paragraph: str) -> tuple[str, ...]:
    """The lines of a paragraph in one order; none of a few, which may be swapped by chance."""
    lines = paragraph.split("\n")
    return tuple(sorted(lines)) if len(lines) >= SHARED else ()


# --- items ------------------------------------------------------------------------------------------------------------


def name_of(item: str) -> str:
    """An item without its number, blanks at its ends, and the order of keys in it."""
    text = _LABEL.sub("", item.strip(), count=1)
    return (canonical(text) or text) if _OPENING.match(text) else text


def permuted(one: str, other: str, char: int, separator: str) -> bool:
    """From the item at `char` on two texts have items in common, half of their length, in another order."""
    mine, theirs = (_behind(text, char, separator) for text in (one, other))
    order = {name: place for place, name in enumerate(dict.fromkeys(theirs))}
    ranks = [order[name] for name in dict.fromkeys(mine) if name in order]
    if len(ranks) < SHARED or ranks == sorted(ranks) or _together_again(mine, theirs):
        return False
    shared = sum(len(name) for name in set(mine) & set(theirs))
    return 2 * shared >= sum(len(name) for name in set(mine))


def _together_again(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Two lists go on alike behind first items that stand nowhere in the other: those are values, not an order."""
    first, other = (
        next((name for name in one if name in another), None) for one, another in ((mine, theirs), (theirs, mine))
    )
    return first == other


def _behind(text: str, char: int, separator: str) -> list[str]:
    begin = max((mark.end() for mark in re.finditer(separator, text[:char])), default=0)
    return [name for name in map(name_of, re.split(separator, text[begin:])) if size(name) >= ITEM]


@dataclass(frozen=True, slots=True)
class ItemsInOrder:
    """Gives the items that many members of a family share one order: what stands before others in most prompts comes
    before them, so that a text before a list, which has two versions, stays there; of equals what was seen first."""

    role: str
    separator: str
    fix = "reorder"

    def carries(self, document: Document) -> bool:
        """Whatever has text of the role."""
        return document.has(self.role)

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """All prompts with the items of the pool in one order."""
        rank = self._ranks(documents)
        return [self._ordered(document, rank) for document in documents]

    def _ranks(self, documents: Sequence[Document]) -> dict[str, int]:
        named = [self._names(document) for document in documents]
        counts = Counter(name for names in named for name in set(names))
        least = max(2, (POOL if self.role == "tools" else DRAWN) * len(documents))
        places: dict[str, list[float]] = defaultdict(list)
        for names in named:
            for place, name in enumerate(names):
                if counts[name] >= least and size(name) >= ITEM:
                    places[name].append(place / len(names))
        return {name: rank for rank, name in enumerate(sorted(places, key=lambda name: median(places[name])))}

    def _names(self, document: Document) -> list[str]:
        texts = [segment.text for _, segment in document.content(self.role)]
        return [name_of(item) for text in texts for item in re.split(self.separator, text)]

    def _ordered(self, document: Document, rank: dict[str, int]) -> Document:
        for index, segment in document.content(self.role):
            document = document.edited(index, self._sorted(segment.text, rank))
        return document

    def _sorted(self, text: str, rank: dict[str, int]) -> str:
        items = re.split(self.separator, text)
        marks = [*re.findall(self.separator, text), ""]
        places = [place for place, item in enumerate(items) if name_of(item) in rank]
        ranked = sorted((items[place] for place in places), key=lambda item: rank[name_of(item)])
        for place, item in zip(places, ranked, strict=True):
            items[place] = _relabelled(item, items[place])
        return "".join(item + mark for item, mark in zip(items, marks, strict=True))


def _relabelled(item: str, place: str) -> str:
    """An item under the number of its place."""
    label, own = _LABEL.match(place), _LABEL.match(item)
    return item if label is None or own is None else label.group() + item[own.end() :]
