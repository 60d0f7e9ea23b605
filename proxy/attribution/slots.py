"""Engines that work in slots: when a residual was waiting, and when it was the engine's own work."""

from typing import NamedTuple

from proxy.records import Class, Evidence, Finished

USUAL_NS = 100_000_000
"""A front end needs 2 to 40 ms with the model in memory, by the prompt's length."""

LONGEST_NS = 1_000_000_000
"""Longer work of a front end was never seen: the worst were 0.64 s, for a chat that did not fit its window."""

TOKEN_NS = 30_000
"""And so much more per token of the prompt: 4 us were seen of 9,000 tokens, 28 us of 600."""


class Residual(NamedTuple):
    """Time before the prompt was begun, split into waiting for a slot and work of the front end."""

    queue_ns: int
    frontend_ns: int
    klass: Class
    doubt_ns: int = 0
    """How much of either may be the other: a wait for somebody who does not come through us is not seen."""
    strange_ns: int = 0
    """What neither those whom we see nor any front end explains."""

    def waited(self) -> "Residual":
        """The strange part was a wait too: for engines where nothing else can lie there."""
        if not self.strange_ns:
            return self
        return Residual(self.queue_ns + self.strange_ns, self.frontend_ns, Class.INFERRED, self.strange_ns)


def part(evidence: Evidence, residual_ns: int, before_ns: int = 0, tokens: int = 0, *, cut: bool = False) -> Residual:
    """Waiting only while every slot of the runner was taken by others, which starts to count at dispatch.

    `before_ns`: what passed between dispatch and the residual (a load). `tokens`: of the prompt. `cut`: it did not fit,
    and a front end may have rendered it many times over. With the number of slots unknown, waiting behind others is
    inferred.
    """
    klass = Class.INFERRED if evidence.slots is None and evidence.ahead else Class.DERIVED
    queue = 0
    if evidence.ahead >= (evidence.slots or 1):
        queue = min(residual_ns, max(evidence.contended_ns - before_ns, 0))
    rest = residual_ns - queue
    if rest > LONGEST_NS + tokens * TOKEN_NS and not cut:
        return Residual(queue, 0, klass, strange_ns=rest)
    return Residual(queue, rest, klass, rest if rest > usual_ns(tokens) else 0)


def usual_ns(tokens: int) -> int:
    """What a front end takes at most, as a rule, with a prompt of so many tokens."""
    return USUAL_NS + tokens * TOKEN_NS


def prompt_tokens(finished: Finished) -> int:
    """The prompt's size, as the engine says, else as we counted it."""
    usage, count = finished.usage, finished.counted
    if usage is not None and usage.prompt_tokens is not None:
        return usage.prompt_tokens
    return 0 if count is None else count.n


def was_cut(finished: Finished) -> bool:
    """The engine read fewer tokens than there can be in the prompt."""
    return finished.counted is not None and finished.counted.low > prompt_tokens(finished)
