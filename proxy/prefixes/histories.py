"""Conversations: which prompt goes on where another one ended, and what of its history came back changed.

An ideal client only appends: the next prompt is the last prompt, its answer, and something new. A client that drops the
oldest turns, strips the reasoning from answers or renders old turns anew gives up the cache from there on, turn by turn.
The repair puts back what was there.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from proxy.prefixes.canon import END, LEADS, MARKERS, START, Segment
from proxy.prefixes.documents import Document, Segments
from proxy.prefixes.forms import form_of

LOOK_BACK = 32
"""Earlier prompts with the same last question that are tried for a predecessor."""

_REASONING = re.compile(r"<(think|thinking|reasoning|thought|reflection)>.*?</\1>\s*|^.*?</think>\s*", re.S | re.I)
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message with its frame."""

    role: str
    segments: Segments

    @property
    def text(self) -> str:
        """What the message says."""
        return "".join(segment.text for segment in self.segments if segment.role)


@dataclass(frozen=True, slots=True)
class Link:
    """A prompt goes on where an earlier one ended."""

    earlier: int
    """Index of the earlier document."""
    history: int
    """Turns at the begin of the later one (its lead apart) that the earlier one and its answer stand for."""


def turns(segments: Segments) -> tuple[list[Turn], list[Turn]]:
    """The leading messages of a prompt (system, developer, tools), and those of the conversation."""
    groups: list[list[Segment]] = []
    for segment in segments[:-2]:
        if segment.marker == MARKERS[START]:
            groups.append([])
        if groups:
            groups[-1].append(segment)
    found = [Turn(group[1].text.strip(), tuple(group)) for group in groups]
    lead = next((k for k, turn in enumerate(found) if turn.role not in LEADS), len(found))
    return found[:lead], found[lead:]


def links(documents: Sequence[Document]) -> list[Link | None]:
    """For each document the earlier one whose conversation it continues, if there is one."""
    talks = [turns(document.segments)[1] for document in documents]
    asked = [[_masked(turn) for turn in talk if turn.role == "user"] for talk in talks]
    recent: dict[str, list[int]] = defaultdict(list)
    found: list[Link | None] = []
    for number, talk in enumerate(talks):
        found.append(_link(number, talks, asked, recent))
        if asked[number]:
            recent[asked[number][-1]].append(number)
            del recent[asked[number][-1]][:-LOOK_BACK]
        del talk
    return found


def _link(
    number: int, talks: Sequence[list[Turn]], asked: Sequence[list[str]], recent: dict[str, list[int]]
) -> Link | None:
    mine, talk = asked[number], talks[number]
    places = [k for k, turn in enumerate(talk) if turn.role == "user"]
    for last in range(len(mine) - 1, max(-1, len(mine) - 4), -1):
        for earlier in reversed(recent.get(mine[last], ())):
            theirs = asked[earlier]
            overlap = min(len(theirs), last + 1)
            behind = len(talks[earlier]) - 1 - _last_user(talks[earlier])
            history = places[last] + 1 + behind + 1
            if theirs[-overlap:] == mine[last + 1 - overlap : last + 1] and history < len(talk):
                return Link(earlier, history)
    return None


def _last_user(talk: Sequence[Turn]) -> int:
    return max(k for k, turn in enumerate(talk) if turn.role == "user")


def _masked(turn: Turn) -> str:
    """The words of a message, numbers masked: a stamp in it may have changed, white space may have."""
    return " ".join(_DIGITS.sub("0", turn.text).split()).casefold()


def conversations(found: Iterable[Link | None]) -> list[int]:
    """A number for each document, the same for all of one conversation."""
    numbers: list[int] = []
    for number, link in enumerate(found):
        numbers.append(number if link is None else numbers[link.earlier])
    return numbers


def without_reasoning(text: str) -> str:
    """An answer as clients often send it back: its reasoning gone, blanks around it too."""
    return _REASONING.sub("", text).strip()


def change_of(before: str, after: str) -> str | None:
    """The kind of change that a turn went through; None: none."""
    if before == after:
        return None
    if without_reasoning(before) == after.strip() and without_reasoning(before) != before.strip():
        return "think_stripped"
    return form_of(before, after) or "history_rewritten"


def changes(documents: Sequence[Document], found: Sequence[Link | None]) -> dict[str, list[int]]:
    """Documents by the kind of change that their history went through first."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for number, link in enumerate(found):
        if link is not None:
            before = _ended(documents[link.earlier])
            after = turns(documents[number].segments)[1][: link.history]
            kind = next(_changed(before, after), None)
            if kind is not None:
                kinds[kind].append(number)
    return kinds


def _changed(before: Sequence[Turn], after: Sequence[Turn]):  # type: ignore[no-untyped-def]
    for op, a, b, c, d in _steps(before, after):
        if op == "delete":
            yield "history_truncated"
        elif op == "replace":
            for old, new in zip(before[a:b], after[c:d], strict=False):
                if (kind := change_of(old.text, new.text)) is not None:
                    yield kind
            if b - a > d - c:
                yield "history_truncated"


def _steps(before: Sequence[Turn], after: Sequence[Turn]) -> list[tuple[str, int, int, int, int]]:
    names = ([(turn.role, turn.text) for turn in talk] for talk in (before, after))
    return list(SequenceMatcher(None, *names, autojunk=False).get_opcodes())


def _ended(document: Document) -> list[Turn]:
    """The turns of a conversation, the engine's answer with them."""
    talk = turns(document.segments)[1]
    return [*talk, _answer(document.answer)] if document.answer is not None else talk


def _answer(text: str) -> Turn:
    start, end, line = Segment(START, MARKERS[START]), Segment(END, MARKERS[END]), Segment("\n")
    return Turn("assistant", (start, Segment("assistant\n"), Segment(text, 0, -1, "assistant"), end, line))


def restored(documents: Sequence[Document], found: Sequence[Link | None], kinds: Sequence[str]) -> list[Document]:
    """The documents with changes of these kinds undone, in order, each from its repaired predecessor."""
    repaired: list[Document] = []
    for document, link in zip(documents, found, strict=True):
        if link is not None:
            lead, talk = turns(document.segments)
            history = _undone(_ended(repaired[link.earlier]), talk[: link.history], lambda kind: kind in kinds)
            parts = [turn.segments for turn in (*lead, *history, *talk[link.history :])]
            segments = tuple(segment for part in parts for segment in part if segment.text)
            document = replace(document, segments=segments + document.segments[-2:])
        repaired.append(document)
    return repaired


def _undone(before: Sequence[Turn], after: Sequence[Turn], undo: Callable[[str | None], bool]) -> list[Turn]:
    history: list[Turn] = []
    for op, a, b, c, d in _steps(before, after):
        if op == "delete" and undo("history_truncated"):
            history += before[a:b]
        elif op == "replace":
            history += _paired(before[a:b], after[c:d], undo)
        else:
            history += after[c:d]
    return history


def _paired(before: Sequence[Turn], after: Sequence[Turn], undo: Callable[[str | None], bool]) -> list[Turn]:
    missing = max(0, len(before) - len(after))
    dropped = list(before[:missing]) if undo("history_truncated") else []
    pairs = zip(before[missing:], after, strict=False)
    kept = [old if old.role == new.role and undo(change_of(old.text, new.text)) else new for old, new in pairs]
    return [*dropped, *kept, *after[len(kept) :]]
