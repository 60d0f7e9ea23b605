"""Engines that work in slots: when a residual was waiting, and when it was the engine's own work.

Waiting is for a slot, and with a slot free for the batch that others' work is in: all slots share one loop, which takes
new work between two batches only (llama-server: up to 2,048 tokens of a prompt are one). Both last no longer than those
ahead are in flight.
"""

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
    """How much of either may be the other: a wait for somebody who does not come through us is not seen, nor is a front
    end that works while others have the loop."""
    strange_ns: int = 0
    """What neither those whom we see nor any front end explains."""

    def waited(self) -> "Residual":
        """The strange part was a wait too: for engines where nothing else can lie there."""
        if not self.strange_ns:
            return self
        return Residual(self.queue_ns + self.strange_ns, self.frontend_ns, Class.INFERRED, self.strange_ns)


def part(evidence: Evidence, residual_ns: int, before_ns: int = 0, tokens: int = 0, *, cut: bool = False) -> Residual:
    """Waiting while every slot of the runner was taken by others, which starts to count at dispatch; and while others
    were at work beside a free slot, where it is more than a front end takes.

    `before_ns`: what passed between dispatch and the residual (a load). `tokens`: of the prompt. `cut`: it did not fit,
    and a front end may have rendered it many times over. With the number of slots unknown, waiting behind others is
    inferred.
    """
    klass = Class.INFERRED if evidence.slots is None and evidence.ahead else Class.DERIVED
    taken_ns = evidence.contended_ns if evidence.ahead >= (evidence.slots or 1) else 0
    usual = usual_ns(tokens)
    queue = for_slot = min(residual_ns, max(taken_ns - before_ns, 0))
    if residual_ns - queue > usual and not cut:
        queue = max(queue, min(residual_ns, evidence.busy_ns - before_ns))
    rest, doubt = residual_ns - queue, min(queue - for_slot, usual)
    if rest > LONGEST_NS + tokens * TOKEN_NS and not cut:
        return Residual(queue, 0, klass, doubt, strange_ns=rest)
    return Residual(queue, rest, klass, rest if rest > usual else doubt)


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
