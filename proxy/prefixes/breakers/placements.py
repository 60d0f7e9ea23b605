"""Messages and images that stand where they should not: worked examples in another order, an image before the text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

from proxy.prefixes.breakers.documents import Document, Parting, Repair, agreement
from proxy.prefixes.breakers.orders import POOL
from proxy.prefixes.breakers.talks import turns
from proxy.prefixes.canon import CLOSE, IMAGE, MARKERS, OPEN, Segment

ENOUGH = 160
"""Characters of the same text behind an image for its place to matter: about 40 tokens, more than two blocks."""

Pair = tuple[str, str]
"""A question and its answer, as worked examples are given in messages."""


def image_first(parting: Parting) -> tuple[str, Repair] | None:
    """Different images before the same text, one or several."""
    if parting.later.whole()[parting.index - 1].marker != MARKERS[IMAGE]:
        return None
    mine, other = (_behind_images(document, parting.index + 1) for document in (parting.later, parting.earlier))
    same = mine.role == other.role == parting.mine.role and agreement(mine.text, other.text) >= ENOUGH
    return ("image_before_text", ImagesLast()) if same else None


def _behind_images(document: Document, index: int) -> Segment:
    """The segment from an index on that is no image; behind the last one of a message, what the next message says."""
    segments = document.whole()
    while segments[index].marker == MARKERS[IMAGE]:
        index += 2
    return segments[index] if segments[index].role else next((one for one in segments[index:] if one.role), CLOSE)


@dataclass(frozen=True, slots=True)
class ImagesLast:
    """Puts the images of each message behind its text; of a message without text, behind the text of the next one."""

    fix = "reorder"

    def carries(self, document: Document) -> bool:
        """Whatever has an image."""
        return any(segment.marker == MARKERS[IMAGE] for segment in document.segments)

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """All prompts with text before images."""
        return [_images_last(document) for document in documents]


def _images_last(document: Document) -> Document:
    lead, talk = turns(document.segments)
    segments: list[Segment] = []
    images: list[Segment] = []
    found = [*lead, *talk]
    for turn, following in zip_longest(found, found[1:]):
        *opening, close, line = turn.segments
        frame, content = opening[:2], opening[2:]
        pictures = [before.marker == MARKERS[IMAGE] or one.marker for before, one in pairwise((OPEN, *content))]
        images += [one for one, is_image in zip(content, pictures, strict=True) if is_image]
        segments += [*frame, *(one for one, is_image in zip(content, pictures, strict=True) if not is_image)]
        if following is None or not all(pictures) or following.role != turn.role:
            segments += images
            images = []
        segments += [close, line]
    return replace(document, segments=(*segments, *document.segments[-2:]))


def other_turns(parting: Parting) -> tuple[str, Repair] | None:
    """Two different messages, each of which stands in the other prompt too, in another place."""
    mine, theirs = ({segment.text for _, segment in one.content()} for one in (parting.later, parting.earlier))
    moved = parting.other.text in mine and parting.mine.text in theirs
    return ("fewshot_order", TurnsInOrder()) if moved else None


@dataclass(frozen=True, slots=True)
class TurnsInOrder:
    """Gives worked examples that are messages of their own the order in which they were first seen."""

    fix = "reorder"

    def carries(self, document: Document) -> bool:
        """Whatever has a question with its answer."""
        return bool(_pairs(document))

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """All prompts with the pairs that many of them have in one order."""
        found = [[pair for _, pair in _pairs(document)] for document in documents]
        counts = Counter(pair for pairs in found for pair in set(pairs))
        least = max(2, POOL * len(documents))
        pool = dict.fromkeys(pair for pairs in found for pair in pairs if counts[pair] >= least)
        rank = {pair: place for place, pair in enumerate(pool)}
        return [_ranked(document, rank) for document in documents]


def _ranked(document: Document, rank: dict[Pair, int]) -> Document:
    found = [(places, pair) for places, pair in _pairs(document) if pair in rank]
    ordered = sorted((pair for _, pair in found), key=lambda pair: rank[pair])
    for (places, _), pair in zip(found, ordered, strict=True):
        for place, text in zip(places, pair, strict=True):
            document = document.edited(place, text)
    return document


def _pairs(document: Document) -> list[tuple[tuple[int, int], Pair]]:
    """Questions with the answer that follows: their segments and their texts."""
    found = [(index, segment) for index, segment in document.content() if segment.role in ("user", "assistant")][::-1]
    return [
        ((first, second), (asked.text, said.text))
        for (first, asked), (second, said) in pairwise(found)
        if (asked.role, said.role) == ("user", "assistant")
    ]
