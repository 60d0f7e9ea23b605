"""The search: the few characters that keep the prompts of a family from sharing what they have in common.

Repairs are proposed, and made in the order in which they stand in the prompt; the family is run through an infinite
cache after each. What that saves is the cost of the breaker, and a repair that saves little is no breaker at all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from proxy.prefixes.breakers.counterfactual import Outcome, Replay
from proxy.prefixes.breakers.documents import Document, agreement, nearest
from proxy.prefixes.breakers.masks import mask
from proxy.prefixes.breakers.orders import ITEM
from proxy.prefixes.breakers.proposals import Name, Proposal, proposals
from proxy.prefixes.breakers.values import MACHINE_MADE
from proxy.prefixes.breakers.writing import size
from proxy.prefixes.canon import Encode, text_of
from proxy.prefixes.shadow import common

LEAST_TOKENS = 1_500
"""A breaker costs at least this many tokens over the sample ..."""
LEAST_SHARE = 0.015
"""... and this part of the family's prompt tokens ..."""
LEAST_REQUESTS = 8
"""... and this many requests have it: nobody should be woken for two odd prompts."""

STEPS = 12
"""Rounds of proposals in one family."""

NEAR = 64
"""Proposals this many characters from the first one may speak of the same thing, a value and its sentence:
the one that saves most is right. What stands further behind has its turn when the first one is mended."""

RIVALS = 4
"""Of those, so many are tried, those with most carriers first."""

LISTS = ("tool_order", "json_key_order", "fewshot_order")
"""Kinds of lists in another order."""

EXCERPTS = 3
"""Values that a breaker is shown by: the first of different form."""


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
    """First character that varies, in the text of the message; of a value that some prompts lack, its first one."""
    position_tokens: int
    position_chars: int
    """Where requests depart from their repaired form, median over those that do; in the rendered prompt."""
    tokens_saved: int
    """Tokens that would not have been computed again, over the sample."""
    share: float
    """The same as a part of the sample's prompt tokens."""
    hit_rate: float
    """Of the family, had this and all breakers before it been mended."""
    excerpts: tuple[str, ...]
    """Some of its values, masked unless text may be shown."""
    stands_for: float = 1.0
    """So many prompts, in the mean, each of these requests."""

    def row(self) -> dict[str, Any]:
        """As JSON can say it."""
        return {
            "kind": self.kind,
            "fix": self.fix,
            "message": self.message,
            "role": self.role,
            "char": self.char,
            "position_tokens": self.position_tokens,
            "position_chars": self.position_chars,
            "requests": len(self.ids),
            "tokens_saved": self.tokens_saved,
            "share_saved": round(self.share, 4),
            "hit_rate_then": round(self.hit_rate, 4),
            "excerpts": list(self.excerpts),
            "ids": list(self.ids),
        }


@dataclass(frozen=True, slots=True)
class Trial:
    """A proposal, tried."""

    proposal: Proposal
    documents: list[Document]
    outcome: Outcome
    saved: int


class Finder:
    """Finds the breakers of one family; the work is bounded by the documents it is given."""

    # State: none between families but the tokens of texts already seen.

    def __init__(self, encode: Encode, block: int = 16, capture_text: bool = False) -> None:
        """`capture_text`: excerpts show the text itself, not only its form."""
        self._replay = Replay(encode, block)
        self._show: Callable[[str], str] = str if capture_text else mask

    def breakers(self, documents: Sequence[Document]) -> Iterator[Breaker]:
        """The breakers of a family, in the order in which they stand in its prompts."""
        if len(documents) < LEAST_REQUESTS:
            return
        current, before = list(documents), self._replay.run(documents)
        tokens = sum(before.tokens)
        least = max(LEAST_TOKENS, LEAST_SHARE * tokens)
        for best in self._trials(current, before, nearest(documents)):
            if best.saved >= least and len(best.proposal.carriers) >= LEAST_REQUESTS:
                yield self._breaker(documents, current, best, tokens)

    def _trials(self, current: list[Document], before: Outcome, pairs: Sequence[tuple[int, int]]) -> Iterator[Trial]:
        """The best repair of each round that saves anything, made in `current` when the next one is asked for. What
        saved nothing is tried again after another repair: an early breaker may cost nothing while a later one breaks
        all the same."""
        taken: set[Name] = set()
        vain: set[Name] = set()
        ordered: set[str] = set()
        for _ in range(STEPS):
            found = [one for one in proposals(current, pairs) if one.name not in taken | vain]
            rivals = _rivals([one for one in found if not _rest(one, ordered)])
            if not rivals:
                return
            trials = [self._try(one, current, before) for one in rivals]
            best = max(trials, key=lambda trial: trial.saved)
            if best.saved <= 0:
                vain |= {one.proposal.name for one in trials}
                continue
            if best.proposal.begin is not None:
                best = self._try(best.proposal.begin, current, before)
            yield best
            current[:], before = best.documents, best.outcome
            # A span that was moved is gone: another one of its kind may stand in the same prompts.
            taken |= {best.proposal.name} if best.proposal.repair.fix != "move" else set()
            vain.clear()
            ordered |= {best.proposal.role} if best.proposal.kind in LISTS else set()

    def _try(self, proposal: Proposal, current: Sequence[Document], before: Outcome) -> Trial:
        mended = proposal.repair.mend(current)
        after = self._replay.run(mended)
        return Trial(proposal, mended, after, gain(proposal.repair.fix, before, after))

    def _breaker(
        self, documents: Sequence[Document], current: Sequence[Document], trial: Trial, sample: int
    ) -> Breaker:
        proposal, first = trial.proposal, trial.proposal.first
        departures = self._departures(documents, proposal.repair.mend(documents))
        tokens, chars = zip(*(departures or self._departures(current, trial.documents)), strict=True)
        return Breaker(
            kind=proposal.kind,
            fix=proposal.repair.fix,
            ids=tuple(documents[number].id for number in proposal.carriers),
            message=first.place.message,
            role=proposal.role,
            char=max(first.char, proposal.value),
            position_tokens=int(median(tokens)),
            position_chars=int(median(chars)),
            tokens_saved=trial.saved,
            share=trial.saved / sample,
            hit_rate=sum(trial.outcome.reuse) / max(1, sum(trial.outcome.tokens)),
            excerpts=tuple(dict.fromkeys(map(self._show, proposal.excerpts)))[:EXCERPTS],
            stands_for=fmean(documents[number].stands_for for number in proposal.carriers),
        )

    def _departures(self, documents: Sequence[Document], mended: Sequence[Document]) -> list[tuple[int, int]]:
        """Tokens and characters up to which each prompt that is changed agrees with its mended form."""
        return [
            (
                common(self._replay.packed(one), self._replay.packed(other)),
                agreement(text_of(one.segments), text_of(other.segments)),
            )
            for one, other in zip(documents, mended, strict=True)
            if one.segments != other.segments
        ]


def _rest(proposal: Proposal, ordered: set[str]) -> bool:
    """What is left of a list that was put in order (members have other items) is no text that somebody varies; what is
    shorter than an item is a value."""
    is_text = proposal.repair.fix == "move" or proposal.kind == "prompt_version" or proposal.role == "tools"
    if not is_text or proposal.kind in (*MACHINE_MADE, *LISTS) or proposal.role not in ordered:
        return False
    return median(map(size, proposal.excerpts or ("",))) >= ITEM


def _rivals(found: Sequence[Proposal]) -> list[Proposal]:
    first = min((one.first.position for one in found), default=0)
    near = [one for one in found if one.first.position <= first + NEAR]
    return sorted(near, key=lambda one: (-len(one.carriers), one.first.position))[:RIVALS]


def gain(fix: str, before: Outcome, after: Outcome) -> int:
    """Tokens saved. A span that moves has still to be computed, so there only reuse counts."""
    if fix == "move":
        return sum(after.reuse) - sum(before.reuse)
    return before.fresh - after.fresh
