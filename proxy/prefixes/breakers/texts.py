"""Texts in a place that varies: documents, which move behind the constant text, and versions, of which one will do."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from proxy.prefixes.breakers.documents import Document
from proxy.prefixes.breakers.rejoining import CONSTANT, ENOUGH
from proxy.prefixes.breakers.slots import Slot, heading, put
from proxy.prefixes.breakers.writing import pieces, size


@dataclass(frozen=True, slots=True)
class TextBehind:
    """A place that documents stand in; mended, they change places with the constant text behind them.

    They may come back, the most wanted one first: so they are not left out.
    """

    slot: Slot
    constant: frozenset[str]
    fix = "reorder"

    def carries(self, document: Document) -> bool:
        """Whatever has documents there."""
        return self.slot.carries(document)

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """All prompts with their documents behind the constant text."""
        moved = partial(_behind, constant=self.constant)
        return [put(one, self.slot.find(one), moved) for one in documents]


@dataclass(frozen=True, slots=True)
class OneText:
    """A place whose text has a few versions; mended, all have the usual one, or none where some have none."""

    slot: Slot
    fix = "normalise"

    def carries(self, document: Document) -> bool:
        """Whatever has a text there."""
        return self.slot.carries(document)

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """All prompts with the same text there."""
        if any(map(self.slot.empty, documents)):
            return self.slot.mend(documents)
        spans = [self.slot.find(one) for one in documents]
        found = zip(documents, spans, strict=True)
        texts = Counter(one.segments[span[0]].text[span[1] : span[2]] for one, span in found if span is not None)
        usual = max(texts, key=lambda text: texts[text], default="")
        change = partial(_changed, usual=usual)
        return [put(one, span, change) for one, span in zip(documents, spans, strict=True)]


def constant_behind(slot: Slot, documents: Sequence[Document]) -> frozenset[str]:
    """Sentences and lines that half of the members go on with; none where that is too little to stand before
    anything."""
    spans = ((document, slot.find(document)) for document in documents)
    tails = [document.segments[span[0]].text[span[2] :] for document, span in spans if span is not None]
    counts = Counter(piece for tail in tails for piece in {piece for piece, _ in pieces(tail)})
    found = frozenset(piece for piece, count in counts.items() if count >= max(2, CONSTANT * len(tails)))
    return found if sum(map(size, found)) >= ENOUGH else frozenset()


def constant_end(text: str, begin: int, constant: frozenset[str]) -> int:
    """Where text that is constant for the most part ends: a value in it is no end, a label behind a question no part
    of it."""
    at, most, sum_ = begin, 0, 0
    for piece, place in pieces(text, begin):
        sum_ += size(piece) if piece in constant else -size(piece)
        if sum_ > most:
            at, most = place + len(piece), sum_
    at += len(text[at:]) - len(text[at:].lstrip())
    return at if at == len(text) else text.rfind("\n", begin, at) + 1 or at


def _behind(text: str, begin: int, end: int, constant: frozenset[str]) -> str:
    """A text with a span, and its heading, behind the constant text that follows it."""
    begin = heading(text, begin)
    at = constant_end(text, end, constant)
    return f"{text[:begin]}{text[end:at]}\n{text[begin:end]}\n{text[at:]}"


def _changed(text: str, begin: int, end: int, usual: str) -> str:
    return text[:begin] + usual + text[end:]
