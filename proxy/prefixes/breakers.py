"""Prefix breakers: the few characters that keep the prompts of a family from sharing what they have in common.

Prompts of a family that part early are compared with the earlier prompt they have most in common with. What parts them is
one of a few things: another form of the same text, another order of the same items, a history that came back changed, or
a span that varies between constant text. Each suggests a repair, a function from prompts to prompts. Repairs are made in
the order in which they stand in the prompt, and the family is run through an infinite cache after each: what it saves
then is the cost of the breaker, and a repair that saves little is no breaker at all.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from proxy.prefixes.canon import IMAGE, MARKERS, text_of
from proxy.prefixes.chains import TOKEN
from proxy.prefixes.counterfactual import Outcome, Replay
from proxy.prefixes.documents import HEAD_ROLES, Document, Parting, agreement, offset, parting, shingles
from proxy.prefixes.forms import Unifier, form_between
from proxy.prefixes.histories import Link, changes, conversations, links, restored
from proxy.prefixes.masks import mask
from proxy.prefixes.orders import SEPARATORS, Keys, Pool, TurnPool, images_last, moved_turns, permuted, same_objects
from proxy.prefixes.shadow import common
from proxy.prefixes.slots import ENOUGH, slots, values, without
from proxy.prefixes.values import kind_of, machine_made

LEAST_TOKENS = 1_500
"""A breaker costs at least this many tokens over the sample ..."""
LEAST_SHARE = 0.015
"""... and this part of the family's prompt tokens ..."""
LEAST_REQUESTS = 8
"""... and this many requests have it: nobody should be woken for two odd prompts."""

STEPS = 8
"""Repairs tried in one family."""

NEAR = 200
"""Proposals this many characters from the first one may speak of the same thing: the one that saves most is right."""

RIVALS = 4
"""Of those, so many are tried."""

RUN = 5
"""Words a shingle, to find the earlier prompt with most in common."""

EVERY = 4
"""One shingle in so many is kept: a prompt of 1,000 words has 250."""

Repair = Callable[[Sequence[Document]], list[Document]]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A repair that might save something."""

    kind: str
    fix: str
    position: int
    """Characters of the rendered text before it."""
    carriers: tuple[int, ...]
    """Members that have the element."""
    repair: Repair
    where: tuple[int, str, int]
    """Message, role, and character in the message's text."""
    excerpts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Breaker:
    """One breaker of one family."""

    kind: str
    fix: str
    """`move` the span to the end, `reorder`, `normalise` to one form, or `keep` what was dropped."""
    ids: tuple[str, ...]
    """Requests that have the element."""
    message: int
    role: str
    char: int
    """First character that varies, in the text of the message."""
    position_tokens: int
    position_chars: int
    """Where requests depart from their repaired form, median over those that do; in the rendered prompt."""
    tokens_saved: int
    """Tokens that would not have been computed again, over the sample."""
    hit_rate: float
    """Of the family, had this and all breakers before it been mended."""
    excerpts: tuple[str, ...]
    """Some of its values, masked."""


class Search:
    """Finds the breakers of one family; the work is bounded by the documents it is given."""

    # State: none between families but the tokens of texts already seen.

    def __init__(self, encode: Callable[[str], Sequence[int]], block: int = 16) -> None:
        self._replay = Replay(encode, block)

    def breakers(self, documents: Sequence[Document]) -> list[Breaker]:
        """The breakers of a family, in the order in which they stand in its prompts."""
        if len(documents) < LEAST_REQUESTS:
            return []
        return list(self._steps(documents))

    def _steps(self, documents: Sequence[Document]) -> Iterator[Breaker]:
        pairs = nearest(documents)
        current, before = list(documents), self._replay.run(documents)
        least = max(LEAST_TOKENS, LEAST_SHARE * sum(before.tokens))
        refused: set[tuple[str, tuple[int, ...]]] = set()
        for _ in range(STEPS):
            found = [p for p in proposals(current, pairs) if (p.kind, p.carriers) not in refused]
            if not found:
                return
            first = min(one.position for one in found)
            near = [one for one in found if one.position <= first + NEAR]
            rivals = sorted(near, key=lambda one: (-len(one.carriers), one.position))[:RIVALS]
            refused.update((one.kind, one.carriers) for one in rivals)
            tried = [(*self._try(one, current, before), one) for one in rivals]
            saved, after, repaired, proposal = max(tried, key=lambda one: one[0])
            if saved >= least and len(proposal.carriers) >= LEAST_REQUESTS:
                yield self._breaker(documents, current, repaired, proposal, saved, after)
            if saved > 0:
                current, before = repaired, after

    def _try(
        self, proposal: Proposal, current: Sequence[Document], before: Outcome
    ) -> tuple[int, Outcome, list[Document]]:
        repaired = proposal.repair(current)
        after = self._replay.run(repaired)
        return gain(proposal.fix, before, after), after, repaired

    def _breaker(self, documents, current, repaired, proposal: Proposal, saved: int, after: Outcome) -> Breaker:  # type: ignore[no-untyped-def]
        tokens, chars = [], []
        alone = proposal.repair(documents)
        if all(mine.segments == other.segments for mine, other in zip(documents, alone, strict=True)):
            documents, alone = current, repaired
        for mine, other in zip(documents, alone, strict=True):
            if mine.segments != other.segments:
                tokens.append(common(self._replay.packed(mine), self._replay.packed(other)))
                chars.append(agreement(text_of(mine.segments), text_of(other.segments)))
        message, role, char = proposal.where
        return Breaker(
            kind=proposal.kind,
            fix=proposal.fix,
            ids=tuple(documents[number].id for number in proposal.carriers),
            message=message,
            role=role,
            char=char,
            position_tokens=int(median(tokens)) if tokens else 0,
            position_chars=int(median(chars)) if chars else 0,
            tokens_saved=saved,
            hit_rate=sum(after.reuse) / max(1, sum(after.tokens)),
            excerpts=proposal.excerpts,
        )


def gain(fix: str, before: Outcome, after: Outcome) -> int:
    """Tokens saved. A span that moves has still to be computed, so there only reuse counts."""
    if fix == "move":
        return sum(after.reuse) - sum(before.reuse)
    return before.fresh - after.fresh


def nearest(documents: Sequence[Document]) -> list[tuple[int, int]]:
    """For each document the earlier one with which it has most in common, wherever it stands; the latest of equals."""
    sketches: list[set[int]] = []
    pairs = []
    for number, document in enumerate(documents):
        text = "\n".join(segment.text for segment in document.whole() if segment.role)
        sketch = {item for item in shingles(text, RUN) if item % EVERY == 0}
        if sketches:
            best = max(range(number), key=lambda earlier: (len(sketches[earlier] & sketch), earlier))
            pairs.append((number, best))
        sketches.append(sketch)
    return pairs


def proposals(documents: Sequence[Document], pairs: Sequence[tuple[int, int]]) -> Iterator[Proposal]:
    """What might part these documents, each with its repair."""
    found = links(documents)
    partings = [
        Parting(later, earlier, *place)
        for later, earlier in pairs
        if (place := parting(documents[later].whole(), documents[earlier].whole())) is not None
    ]
    rest = []
    grouped: dict[tuple[str, str], list[Parting]] = defaultdict(list)
    for one in partings:
        reason = _reason(documents, one)
        if reason is None:
            rest.append(one)
        else:
            grouped[reason].append(one)
    for (kind, role), group in grouped.items():
        yield _general(documents, kind, role, group)
    yield from _histories(documents, found)
    yield from _slots(documents, rest, found)


def _reason(documents: Sequence[Document], one: Parting) -> tuple[str, str] | None:
    """Form or order that explains a parting, and the role of the text; None: neither does."""
    mine = documents[one.later].whole()[one.index]
    other = documents[one.earlier].whole()[one.index]
    if mine.marker or other.marker or not mine.role or mine.role != other.role:
        return None
    if documents[one.later].whole()[one.index - 1].marker == MARKERS[IMAGE]:
        return ("image_before_text", mine.role) if _same_after(documents, one) else None
    if moved_turns(documents[one.later], documents[one.earlier], mine.text, other.text):
        return "fewshot_order", mine.role
    if (form := form_between(mine.text, other.text, one.char)) is not None:
        return form, mine.role
    if mine.role == "tools" and permuted(mine.text, other.text, one.char, "\n"):
        return "tool_order", "tools"
    if same_objects(mine.text, other.text, one.char):
        return "json_key_order", mine.role
    for separator in SEPARATORS:
        if permuted(mine.text, other.text, one.char, separator):
            return "fewshot_order" + separator, mine.role
    return None


def _same_after(documents: Sequence[Document], one: Parting) -> bool:
    """Both prompts have the same text right behind an image."""
    mine, other = (documents[k].whole()[one.index + 1] for k in (one.later, one.earlier))
    return bool(mine.role) and mine.role == other.role and agreement(mine.text, other.text) >= ENOUGH


def _general(documents: Sequence[Document], kind: str, role: str, group: Sequence[Parting]) -> Proposal:
    """A repair of all text of one role."""
    repair: Repair
    if kind == "json_key_order":
        keys = Keys((role,))
        repair = lambda found: [keys.ordered(document) for document in found]  # noqa: E731
        fix = "reorder"
    elif kind == "image_before_text":
        repair = lambda found: [images_last(document) for document in found]  # noqa: E731
        fix = "reorder"
    elif kind == "fewshot_order":
        turn_pool = TurnPool()
        turn_pool.learn(documents)
        repair = lambda found: [turn_pool.ordered(document) for document in found]  # noqa: E731
        fix = "reorder"
    elif kind.startswith(("tool_order", "fewshot_order")):
        pool = Pool(role, kind.removeprefix("fewshot_order") if kind != "tool_order" else "\n")
        pool.learn(documents)
        repair = lambda found: [pool.ordered(document) for document in found]  # noqa: E731
        fix = "reorder"
    else:
        unifier = Unifier(kind, role)
        unifier.learn(documents)
        repair = lambda found: [unifier.unify(document) for document in found]  # noqa: E731
        fix = "normalise"
    carriers = tuple(k for k, d in enumerate(documents) if any(s.role == role for _, s in d.content()))
    first = min(group, key=lambda one: offset(documents[one.later].whole(), one.index, one.char))
    return Proposal(kind.strip("\n"), fix, *_place(documents, first), carriers, repair, _where(documents, first))  # type: ignore[arg-type]


def _place(documents: Sequence[Document], one: Parting) -> tuple[int]:
    return (offset(documents[one.later].whole(), one.index, one.char),)


def _where(documents: Sequence[Document], one: Parting) -> tuple[int, str, int]:
    segment = documents[one.later].whole()[one.index]
    return segment.message, segment.role, one.char


def _histories(documents: Sequence[Document], found: Sequence[Link | None]) -> Iterator[Proposal]:
    for kind, members in changes(documents, found).items():
        if len(members) < 2:
            continue
        undo = [kind]
        repaired = restored(documents, found, undo)
        places = [parting(documents[k].segments, repaired[k].segments) for k in members]
        at = [
            (offset(documents[k].segments, *place), k, place) for k, place in zip(members, places, strict=True) if place
        ]
        if at:
            position, k, (index, char) = min(at)
            segment = documents[k].segments[index]
            repair: Repair = lambda docs, undo=undo: restored(docs, found, undo)  # type: ignore[misc]  # noqa: E731
            yield Proposal(kind, "keep", position, tuple(members), repair, (segment.message, segment.role, char))


def _slots(documents: Sequence[Document], rest: Sequence[Parting], found: Sequence[Link | None]) -> Iterator[Proposal]:
    talks = conversations(found)
    for slot, group in slots(documents, rest):
        carriers, seen = values(documents, slot, talks)
        if len(carriers) < 2:
            continue
        kind = kind_of(seen)
        if not machine_made(kind) and seen.distinct <= 3 and not seen.returns:
            continue
        first = min(group, key=lambda one: one.char)
        repair: Repair = lambda docs, slot=slot: [without(document, slot) for document in docs]  # type: ignore[misc]  # noqa: E731
        position = offset(documents[first.later].whole(), first.index, first.char)
        excerpts = tuple(dict.fromkeys(mask(text) for text in seen.texts))[:3]
        yield Proposal(kind, "move", position, tuple(carriers), repair, _where(documents, first), excerpts)
