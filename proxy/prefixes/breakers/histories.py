"""Earlier turns that came back changed.

An ideal client only appends: the next prompt is the last prompt, its answer, and something new. A client that drops
the oldest turns, strips the reasoning from answers or renders old turns anew gives up the cache from there on, turn by
turn. The repair puts back what was there.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from proxy.prefixes.breakers.documents import Document
from proxy.prefixes.breakers.forms import form_of
from proxy.prefixes.breakers.talks import Link, Turn, ended, turns, without_reasoning


def changes(documents: Sequence[Document], found: Sequence[Link | None]) -> dict[str, list[int]]:
    """Documents by the kind of change that their history went through first."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for number, link in enumerate(found):
        if link is not None:
            before = ended(documents[link.earlier])
            after = turns(documents[number].segments)[1][: link.history]
            if (kind := next(_changed(before, after), None)) is not None:
                kinds[kind].append(number)
    return kinds


def change_of(before: str, after: str) -> str | None:
    """The kind of change that a turn went through; None: none."""
    if before == after:
        return None
    if without_reasoning(before) == after.strip() and without_reasoning(before) != before.strip():
        return "think_stripped"
    return form_of(before, after) or "history_rewritten"


@dataclass(frozen=True, slots=True)
class HistoryKept:
    """Undoes the changes of one kind, each prompt from its repaired predecessor."""

    kind: str
    found: tuple[Link | None, ...]
    ids: frozenset[str]
    fix = "keep"

    def carries(self, document: Document) -> bool:
        """The prompts whose history was changed so."""
        return document.id in self.ids

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """All prompts with their history as it was."""
        repaired: list[Document] = []
        for document, link in zip(documents, self.found, strict=True):
            repaired.append(document if link is None else self._kept(document, repaired[link.earlier], link.history))
        return repaired

    def _kept(self, document: Document, earlier: Document, history: int) -> Document:
        lead, talk = turns(document.segments)
        before, after = ended(earlier), talk[:history]
        kept: list[Turn] = []
        for op, a, b, c, d in _steps(before, after):
            if op == "delete" and self.kind == "history_truncated":
                kept += before[a:b]
            else:
                kept += self._undone(before[a:b], after[c:d]) if op == "replace" else after[c:d]
        parts = [turn.segments for turn in (*lead, *kept, *talk[history:])]
        return replace(document, segments=(*(one for part in parts for one in part), *document.segments[-2:]))

    def _undone(self, before: Sequence[Turn], after: Sequence[Turn]) -> list[Turn]:
        """Turns in the place of others: what is missing is put back, and each of the rest as it was."""
        missing = max(0, len(before) - len(after))
        dropped = list(before[:missing]) if self.kind == "history_truncated" else []
        pairs = zip(before[missing:], after, strict=False)
        return [*dropped, *(old if self._is_due(old, new) else new for old, new in pairs), *after[len(before) :]]

    def _is_due(self, old: Turn, new: Turn) -> bool:
        return old.role == new.role and change_of(old.text, new.text) == self.kind


def _changed(before: Sequence[Turn], after: Sequence[Turn]) -> Iterator[str]:
    """The changes between two forms of a history, in order."""
    for op, a, b, c, d in _steps(before, after):
        if op == "delete":
            yield "history_truncated"
        elif op == "replace":
            pairs = zip(before[a:b], after[c:d], strict=False)
            yield from filter(None, (change_of(old.text, new.text) for old, new in pairs))


def _steps(before: Sequence[Turn], after: Sequence[Turn]) -> list[tuple[str, int, int, int, int]]:
    old, new = ([(turn.role, turn.text) for turn in talk] for talk in (before, after))
    return list(SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes())
