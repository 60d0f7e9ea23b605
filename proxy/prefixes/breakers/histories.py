"""Earlier turns that came back changed.

An ideal client only appends: the next prompt is the last prompt, its answer, and something new. A client that drops
the oldest turns, strips the reasoning from answers or renders old turns anew gives up the cache from there on, turn by
turn. The repair puts back what was there.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from proxy.prefixes.breakers.documents import Document, agreement
from proxy.prefixes.breakers.forms import form_of
from proxy.prefixes.breakers.orders import sorted_keys
from proxy.prefixes.breakers.shapes import FIGURES, TIME
from proxy.prefixes.breakers.talks import Link, Turn, ended, turns, without_reasoning

AROUND = 24
"""Characters around changed figures that tell what they are."""

DROPPED = 80
"""Characters that must be missing from a turn for it to be less than it was: about 20 tokens."""

SUMMARISED = ("history_truncated", "history_rewritten")
"""What becomes of turns that a summary takes the place of."""

_DIGITS = re.compile(r"\d+")


def changes(documents: Sequence[Document], found: Sequence[Link | None]) -> dict[str, list[int]]:
    """Documents by the kind of change that their history went through first; in a family that drops turns, those that
    are written anew are a summary."""
    kinds: dict[str, list[int]] = defaultdict(list)
    seen: set[str] = set()
    for number, link in enumerate(found):
        if link is not None:
            _, before, after, _ = _compared(documents[link.earlier], documents[number], link.history)
            if kinds_here := list(_changed(before, after)):
                kinds[kinds_here[0]].append(number)
                seen.update(kinds_here)
    if seen.issuperset(SUMMARISED) and (anew := kinds.pop("history_rewritten", [])):
        kinds["history_truncated"] = sorted(kinds["history_truncated"] + anew)
    return kinds


def change_of(before: str, after: str) -> str | None:
    """The kind of change that a turn went through; None: none."""
    if before == after:
        return None
    if without_reasoning(before) == after.strip() and without_reasoning(before) != before.strip():
        return "think_stripped"
    form = form_of(before, after)
    if form == "other":
        return "history_rewritten"  # in other letters or signs
    return form or _same_objects(before, after) or _figures(before, after) or _less(before, after)


def _same_objects(before: str, after: str) -> str | None:
    """The same, but for the keys of JSON objects: the arguments of a call as another library writes them."""
    return "json_key_order" if sorted_keys(before) == sorted_keys(after) else None


def _figures(before: str, after: str) -> str | None:
    """The same, but for figures: a time that is written anew, or a date, or a count."""
    if _DIGITS.sub("0", before) != _DIGITS.sub("0", after):
        return None
    at = agreement(before, after)
    around = before[max(0, at - AROUND) : at + AROUND]
    return "timestamp" if TIME.search(around) else "date" if FIGURES.search(around) else "counter"


def _less(before: str, after: str) -> str:
    """Much of a turn was dropped: what was found for a question, or the result of a tool. Else it was rewritten."""
    dropped = len(before) - len(after) >= DROPPED
    return (
        "history_truncated" if dropped and (after in before or 2 * len(after) <= len(before)) else "history_rewritten"
    )


def _compared(
    earlier: Document, later: Document, history: int
) -> tuple[list[Turn], list[Turn], list[Turn], list[Turn]]:
    """The lead of the later prompt; what was said up to the end of the earlier one, as it was and as it came back; the
    rest. A message of the application before the first question is no lead where it does not stay there."""
    (lead, talk), (first, _) = turns(later.segments), turns(earlier.segments)
    common = min(len(lead), len(first))
    after = [*lead[common:], *talk]
    history += len(lead) - common
    return lead[:common], [*first[common:], *ended(earlier)], after[:history], after[history:]


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
        lead, before, after, rest = _compared(earlier, document, history)
        kept: list[Turn] = []
        for op, a, b, c, d in _steps(before, after):
            if op == "delete" and self.kind == "history_truncated":
                kept += before[a:b]
            else:
                kept += self._undone(before[a:b], after[c:d]) if op == "replace" else after[c:d]
        parts = [turn.segments for turn in (*lead, *kept, *rest)]
        return replace(document, segments=(*(one for part in parts for one in part), *document.segments[-2:]))

    def _undone(self, before: Sequence[Turn], after: Sequence[Turn]) -> list[Turn]:
        """Turns in the place of others: what is missing is put back, and each of the rest as it was."""
        missing = max(0, len(before) - len(after))
        dropped = list(before[:missing]) if self.kind == "history_truncated" else []
        pairs = zip(before[missing:], after, strict=False)
        return [*dropped, *(old if self._is_due(old, new) else new for old, new in pairs), *after[len(before) :]]

    def _is_due(self, old: Turn, new: Turn) -> bool:
        """Where turns are dropped, one with words of its own is a summary of them."""
        due = SUMMARISED if self.kind == "history_truncated" else (self.kind,)
        return (old.role == new.role or due is SUMMARISED) and change_of(old.text, new.text) in due


def _changed(before: Sequence[Turn], after: Sequence[Turn]) -> Iterator[str]:
    """The changes between two forms of a history, in order."""
    for op, a, b, c, d in _steps(before, after):
        if op == "delete":
            yield "history_truncated"
        elif op == "replace":
            missing = max(0, (b - a) - (d - c))
            if missing:
                yield "history_truncated"
            pairs = zip(before[a + missing : b], after[c:d], strict=False)
            yield from filter(None, (change_of(old.text, new.text) for old, new in pairs))


def _steps(before: Sequence[Turn], after: Sequence[Turn]) -> list[tuple[str, int, int, int, int]]:
    old, new = ([(turn.role, turn.text) for turn in talk] for talk in (before, after))
    return list(SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes())
