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

TELLING = 24
"""Characters of an answer that is enough by itself to know a conversation by."""

Words = Sequence[tuple[str, str]]
"""Turns as role and masked words."""

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
    talks = [[_masked(turn) for turn in turns(document.segments)[1]] for document in documents]
    answers: dict[str, list[int]] = defaultdict(list)
    questions: dict[str, list[int]] = defaultdict(list)
    found: list[Link | None] = []
    for number, (document, talk) in enumerate(zip(documents, talks, strict=True)):
        found.append(_by_answer(talk, talks, answers) or _by_question(talk, talks, questions))
        if document.answer is not None:
            _remember(answers, _plain(without_reasoning(document.answer)), number)
        if (last := _last_user(talk)) >= 0:
            _remember(questions, talk[last][1], number)
    return found


def _remember(recent: dict[str, list[int]], key: str, number: int) -> None:
    recent[key].append(number)
    del recent[key][:-LOOK_BACK]


def _by_answer(talk: Words, talks: Sequence[Words], answers: dict[str, list[int]]) -> Link | None:
    """The prompt whose answer comes back last, with most of its other turns."""
    for place in range(len(talk) - 2, -1, -1):
        role, text = talk[place]
        if role == "assistant" and (rivals := answers.get(text)):
            said = {words for _, words in talk[:place]}
            best = max(rivals, key=lambda one: (sum(words in said for _, words in talks[one]), one))
            if len(text) >= TELLING or any(words in said for _, words in talks[best]):
                return Link(best, place + 1)
    return None


def _by_question(talk: Words, talks: Sequence[Words], questions: dict[str, list[int]]) -> Link | None:
    """The prompt whose last question comes back with something behind it, and the questions before it too."""
    places = [k for k, (role, _) in enumerate(talk) if role == "user"]
    for last in range(len(places) - 1, -1, -1):
        for earlier in reversed(questions.get(talk[places[last]][1], ())):
            theirs = [words for role, words in talks[earlier] if role == "user"]
            mine = [talk[place][1] for place in places[: last + 1]]
            overlap = min(len(theirs), len(mine))
            history = places[last] + len(talks[earlier]) - _last_user(talks[earlier]) + 1
            if theirs[-overlap:] == mine[-overlap:] and history < len(talk):
                return Link(earlier, history)
    return None


def _last_user(talk: Words) -> int:
    return max((k for k, (role, _) in enumerate(talk) if role == "user"), default=-1)


def _masked(turn: Turn) -> tuple[str, str]:
    text = without_reasoning(turn.text) if turn.role == "assistant" else turn.text
    return turn.role, _plain(text)


def _plain(text: str) -> str:
    """The words of a text, numbers masked: a stamp in it may have changed, white space may have."""
    return " ".join(_DIGITS.sub("0", text).split()).casefold()


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
