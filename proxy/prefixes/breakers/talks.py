"""Conversations: which prompt goes on where an earlier one ended."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxy.prefixes.breakers.documents import Document, Segments
from proxy.prefixes.canon import ASSISTANT, CLOSE, LEADS, LINE, OPEN, Segment

LOOK_BACK = 32
"""Earlier prompts with the same question or answer that are tried for a predecessor."""

TELLING = 24
"""Characters of an answer that is enough by itself to know a conversation by."""

_REASONING = re.compile(r"<(think|thinking|reasoning|thought|reflection)>.*?</\1>\s*|^.*?</think>\s*", re.S | re.I)
_DIGITS = re.compile(r"\d+")

Words = Sequence[tuple[str, str, str]]
"""Turns as role, masked words, and the text as it is: figures alone may tell two conversations apart."""


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
    """The leading messages of a prompt (system, developer), and those of the conversation."""
    groups: list[list[Segment]] = []
    for segment in segments[:-2]:
        if segment.marker == OPEN.marker:
            groups.append([])
        groups[-1].append(segment)
    found = [Turn(group[1].text.strip(), tuple(group)) for group in groups]
    lead = next((k for k, turn in enumerate(found) if turn.role not in LEADS), len(found))
    return found[:lead], found[lead:]


def ended(document: Document) -> list[Turn]:
    """The turns of a conversation, the engine's answer with them."""
    talk = turns(document.segments)[1]
    return talk if document.answer is None else [*talk, _answer(document.answer)]


def _answer(text: str) -> Turn:
    return Turn("assistant", (OPEN, ASSISTANT, Segment(text, 0, -1, "assistant"), CLOSE, LINE))


def without_reasoning(text: str) -> str:
    """An answer as clients often send it back: its reasoning gone, blanks around it too."""
    return _REASONING.sub("", text).strip()


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


def conversations(found: Iterable[Link | None]) -> list[int]:
    """A number for each document, the same for all of one conversation."""
    numbers: list[int] = []
    for number, link in enumerate(found):
        numbers.append(number if link is None else numbers[link.earlier])
    return numbers


def _remember(recent: dict[str, list[int]], key: str, number: int) -> None:
    recent[key].append(number)
    del recent[key][:-LOOK_BACK]


def _by_answer(talk: Words, talks: Sequence[Words], answers: dict[str, list[int]]) -> Link | None:
    """The prompt whose answer comes back last, of several the one with most of its other turns."""
    for place in range(len(talk) - 2, -1, -1):
        role, text, _ = talk[place]
        if role == "assistant" and (rivals := answers.get(text)):
            said = _said(talk[:place])
            best = max(rivals, key=lambda one: (len(said & _said(talks[one])), one))
            if len(text) >= TELLING or said & _said(talks[best]):
                return Link(best, place + 1)
    return None


def _said(talk: Words) -> set[str]:
    """The words of each turn, and its text where that is more."""
    return {words for _, *both in talk for words in both}


def _by_question(talk: Words, talks: Sequence[Words], questions: dict[str, list[int]]) -> Link | None:
    """The prompt whose last question comes back with something behind it, and the questions before it too."""
    places = [k for k, (role, *_) in enumerate(talk) if role == "user"]
    for last in range(len(places) - 1, -1, -1):
        mine = [talk[place][1:] for place in places[: last + 1]]
        rivals: list[tuple[int, int, int]] = []
        for earlier in questions.get(talk[places[last]][1], ()):
            theirs = [words for role, *words in talks[earlier] if role == "user"]
            pairs = list(zip(reversed(theirs), reversed(mine), strict=False))
            history = places[last] + len(talks[earlier]) - _last_user(talks[earlier]) + 1
            if all(one[0] == other[0] for one, other in pairs) and history < len(talk):
                rivals.append((sum(one[1] == other[1] for one, other in pairs), earlier, history))
        if rivals:
            _, earlier, history = max(rivals)
            return Link(earlier, history)
    return None


def _last_user(talk: Words) -> int:
    return max((k for k, (role, *_) in enumerate(talk) if role == "user"), default=-1)


def _masked(turn: Turn) -> tuple[str, str, str]:
    text = without_reasoning(turn.text) if turn.role == "assistant" else turn.text
    return turn.role, _plain(text), text


def _plain(text: str) -> str:
    """The words of a text, numbers masked: a stamp in it may have changed, white space may have."""
    return " ".join(_DIGITS.sub("0", text).split()).casefold()
