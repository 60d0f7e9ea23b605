"""What might part the prompts of a family: every idea asked in turn, each with its repair."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from proxy.prefixes.breakers.documents import Document, Parting, Repair, parting
from proxy.prefixes.breakers.forms import another_form
from proxy.prefixes.breakers.histories import HistoryKept, changes
from proxy.prefixes.breakers.orders import other_order
from proxy.prefixes.breakers.placements import image_first, other_turns
from proxy.prefixes.breakers.slots import DOCUMENT, SENTENCE, Slot, narrowed, slots, value_at, values
from proxy.prefixes.breakers.talks import Link, conversations, links
from proxy.prefixes.breakers.texts import OneText, TextBehind, constant_behind
from proxy.prefixes.breakers.values import MACHINE_MADE, Values, kind_of, recurs
from proxy.prefixes.breakers.writing import size

SHOWN = 24
"""Values that are kept to show a breaker by."""

FEW_LINES = 4
"""Lines of values that stand one under the other; more are a text, or one record."""

Name = tuple[str, tuple[int, ...]]
"""Kind and carriers: what tells a proposal from others of the same family."""

Explain = Callable[[Parting], tuple[str, Repair] | None]

EXPLANATIONS: tuple[Explain, ...] = (image_first, other_turns, another_form, other_order)
"""What can be told from two prompts alone, in order: the first that holds explains a parting."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A repair that might save something."""

    kind: str
    repair: Repair
    first: Parting
    """The parting that shows it and stands first in its prompt."""
    carriers: tuple[int, ...]
    """Members that have the element."""
    excerpts: tuple[str, ...] = ()
    """Values as they stand; they leave only masked, unless text may be shown."""
    value: int = 0
    """Where in its text the value stands by which that parting is shown; 0: none is."""
    begin: "Proposal | None" = None
    """The same for the first line of values that have several, which vary apart."""

    @property
    def role(self) -> str:
        """Whose words part."""
        return self.first.place.role

    @property
    def name(self) -> Name:
        """What tells it from other proposals of the same family."""
        return self.kind, self.carriers


def proposals(documents: Sequence[Document], pairs: Sequence[tuple[int, int]]) -> Iterator[Proposal]:
    """All repairs that these prompts suggest; `pairs` says which earlier prompt each is compared with."""
    found = [parting(documents[later], documents[earlier]) for later, earlier in pairs]
    grouped: dict[tuple[str, Repair], list[Parting]] = defaultdict(list)
    unexplained: list[Parting] = []
    for one in filter(None, found):
        explanation = _explained(one)
        if explanation is None:
            unexplained.append(one)
        else:
            grouped[explanation].append(one)
    for (kind, repair), group in grouped.items():
        yield _proposal(documents, kind, repair, group)
    talks = links(documents)
    yield from _histories(documents, talks)
    yield from _slots(documents, unexplained, conversations(talks))


def _explained(one: Parting) -> tuple[str, Repair] | None:
    if not one.comparable:
        return None
    return next((found for explain in EXPLANATIONS if (found := explain(one)) is not None), None)


def _proposal(documents: Sequence[Document], kind: str, repair: Repair, group: Sequence[Parting]) -> Proposal:
    carriers = tuple(number for number, document in enumerate(documents) if repair.carries(document))
    return Proposal(kind, repair, min(group, key=lambda one: one.position), carriers)


def _histories(documents: Sequence[Document], talks: Sequence[Link | None]) -> Iterator[Proposal]:
    for kind, members in changes(documents, talks).items():
        repair = HistoryKept(kind, tuple(talks), frozenset(documents[number].id for number in members))
        repaired = repair.mend(documents)
        group = [one for number in members if (one := parting(documents[number], repaired[number])) is not None]
        if group:
            yield _proposal(documents, kind, repair, group)


def _slots(documents: Sequence[Document], partings: Sequence[Parting], talks: Sequence[int]) -> Iterator[Proposal]:
    for slot, group in slots(documents, partings):
        seen = values(documents, slot, talks)
        if seen.texts and recurs(seen):
            kind = kind_of(seen)
            whole = _valued(_proposal(documents, kind, _repair(documents, slot, kind, seen), group), slot, seen)
            yield replace(whole, begin=_begin(documents, slot, group, talks)) if _vary_apart(seen, kind) else whole


def _repair(documents: Sequence[Document], slot: Slot, kind: str, seen: Values) -> Repair:
    """A value moves to the end; documents move behind the constant text, if there is any. Of versions one is enough, if
    they are a small part of the prompt: a few documents in one place are not said to be the same."""
    if kind == "prompt_version" and median(map(size, seen.texts)) < DOCUMENT:
        return OneText(slot)
    constant = constant_behind(slot, documents) if kind == "docs_before_instructions" else frozenset()
    return TextBehind(slot, constant) if constant else slot


def _vary_apart(seen: Values, kind: str) -> bool:
    """Whether values of a few lines are several: the first line does not tell the others, or they do not tell the
    first; and a program writes one of them, for the lines of a record or of a text belong together. Documents may have
    such a line before them, too."""
    pairs = [text.partition("\n")[::2] for text in seen.texts]
    firsts, rests = zip(*pairs, strict=True)
    first, rest = (narrowed(replace(seen, texts=texts, wide=texts)) for texts in (firsts, rests))
    if kind == "docs_before_instructions":
        return max(map(size, firsts)) <= SENTENCE and kind_of(first) in MACHINE_MADE
    sizes = [len(set(found)) for found in (firsts, rests, pairs)]
    if 1 in sizes or sizes[0] == sizes[1] == sizes[2]:
        return False
    few = max(text.count("\n") for text in rests) < FEW_LINES - 1
    return few and any(kind_of(part) in MACHINE_MADE for part in (first, rest))


def _begin(
    documents: Sequence[Document], slot: Slot, group: Sequence[Parting], talks: Sequence[int]
) -> Proposal | None:
    """The first of several values in a row, if it is one that will vary again."""
    first = replace(slot, first_line=True)
    seen = values(documents, first, talks)
    again = seen.texts and recurs(seen)
    return _valued(_proposal(documents, kind_of(seen), first, group), first, seen) if again else None


def _valued(proposal: Proposal, slot: Slot, seen: Values) -> Proposal:
    """The same with the values that stand in a place, and where the first one does."""
    shown = tuple(dict.fromkeys(seen.texts))[:SHOWN]
    return replace(proposal, excerpts=shown, value=value_at(slot, seen, proposal.first))
