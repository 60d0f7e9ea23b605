"""vLLM's v1 scheduler in virtual time.

The rules, in the order of a step:

1. Arrivals and aborts are taken in, between steps only.
2. Running jobs first, in admission order: each gets what it lacks, at most the long-prefill threshold (where set, and
   with others about), at most what is left of the token budget. A partly read prompt is a running job.
3. A running job that gets no block: the last of the running is preempted. It loses its blocks and waits at the head of
   the queue, to be computed again.
4. Nobody is admitted in a step that preempted. Else the waiting, first come first served, while budget and places are
   left: prefix look-up, at most (n - 1) // block blocks; the whole sequence must fit the free blocks; a head that does
   not fit blocks the rest.
5. Jobs with all their tokens computed make one token. It leaves at the end of the step.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from proxy.sim.blocks import Blocks, Chain, chain
from proxy.sim.cost import Cost, Pace, Work
from proxy.sim.jobs import Job, Step, Token, Truth
from proxy.sim.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The engine's settings, under vLLM's defaults for a GPU of less than 70 GiB."""

    budget: int = 2048
    """Tokens a step: `max_num_batched_tokens`."""
    sequences: int = 256
    """Running jobs: `max_num_seqs`."""
    block: int = 16
    """Tokens a KV block."""
    blocks: int = 8192
    """KV blocks, the placeholder included: `num_gpu_blocks`."""
    window: int = 131_072
    """Prompt and answer tokens of one job: `max_model_len`."""
    long_prefill: int = 0
    """`long_prefill_token_threshold`; 0: none."""
    caching: bool = True
    """`enable_prefix_caching`."""
    whole_fits: bool = True
    """Admit a job only where all of it fits the free blocks: `scheduler_reserve_full_isl`."""

    @property
    def reach(self) -> int:
        """Tokens that one job can have: the window, or all of the memory."""
        return min(self.window, (self.blocks - 1) * self.block)


@dataclass(slots=True, eq=False)
class _Sequence(Progress):
    """A job in paged memory. State: the blocks it holds, how many of them are named, and all names known."""

    held: list[int] = field(default_factory=list)
    named: int = 0
    chains: list[Chain] = field(default_factory=list)

    def names(self, blocks: int, size: int) -> list[Chain]:
        """Names of its full blocks, of the first `blocks` at least; those not known yet are made."""
        for index in range(len(self.chains), blocks):
            parent, salt = (self.chains[-1], "") if index else (0, self.job.salt)
            self.chains.append(chain(parent, self.tokens(index * size, size), salt))
        return self.chains


class _Share(NamedTuple):
    """What one job gets of a step."""

    sequence: _Sequence
    tokens: int
    prefill: bool
    """It has no token yet."""
    decode: bool


class Machine:
    """One engine. State: who waits, who runs, the KV memory, and what has come in since the last step.

    Jobs and aborts are handed in with times that do not go back; `step` is called when `due` says so.
    """

    def __init__(self, limits: Limits, cost: Cost, seed: int = 0) -> None:
        self.limits = limits
        self.blocks = Blocks(limits.blocks)
        self._pace = Pace(cost, seed)
        self._inbox: deque[tuple[int, Job | str]] = deque()
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._free_at = 0

    def __repr__(self) -> str:
        return f"<Machine {len(self._running)} running, {len(self._waiting)} waiting, {self.blocks!r}>"

    @property
    def running(self) -> int:
        """Jobs admitted and not ended."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Jobs taken in and not running."""
        return len(self._waiting)

    def submit(self, t: int, job: Job) -> None:
        """Hand in a job at `t`; raises ValueError where it can never fit."""
        if len(job.prompt) + len(job.answer) > self.limits.reach:
            raise ValueError(f"{len(job.prompt)} + {len(job.answer)} tokens are more than {self.limits.reach}")
        self._inbox.append((t, job))

    def abort(self, t: int, id: str) -> None:
        """The client left; takes effect at the next step boundary."""
        self._inbox.append((t, id))

    def due(self) -> int | None:
        """When the next step can start; None: nothing to do."""
        if self._running or self._waiting:
            return self._free_at
        return max(self._free_at, self._inbox[0][0]) if self._inbox else None

    def step(self, t: int, duration_ns: int | None = None) -> Step | None:
        """Start the step that is due at or before `t`, at the moment it is due; None: none is.

        `duration_ns` replays a step whose times are known: it starts at `t` itself and takes that long.
        """
        start = self.due()
        if start is None or start > t:
            return None
        if duration_ns is not None:
            start = t
        dropped = self._take_in(start)
        shares, preempted = self._schedule(start)
        taken, lost = self._pace.step([Work(share.tokens, share.sequence.computed, share.decode) for share in shares])
        taken = taken if duration_ns is None else duration_ns
        end = start + taken
        self._free_at = end
        admitted = tuple(
            (share.sequence.job.id, len(share.sequence.job.prompt), share.sequence.cached)
            for share in shares
            if share.sequence.scheduled_ns == start
        )
        tokens, ended = self._finish(shares, end, lost)
        return Step(
            start,
            taken,
            tuple((share.sequence.job.id, share.tokens) for share in shares),
            sum(share.tokens for share in shares if share.prefill),
            tokens,
            tuple(sequence.job.id for sequence in preempted),
            admitted,
            (*dropped, *ended),
        )

    def _take_in(self, start: int) -> list[Truth]:
        dropped = []
        while self._inbox and self._inbox[0][0] <= start:
            arrived, item = self._inbox.popleft()
            if isinstance(item, str):
                dropped += self._drop(item)
                continue
            self._waiting.append(_Sequence(item, arrived, start))
        return dropped

    def _drop(self, id: str) -> list[Truth]:
        for line in (self._waiting, self._running):
            for sequence in [sequence for sequence in line if sequence.job.id == id]:
                line.remove(sequence)
                self.blocks.release(sequence.held)
                return [sequence.truth(aborted=True)]
        return []

    def _schedule(self, start: int) -> tuple[list[_Share], list[_Sequence]]:
        crowd = len(self._running) + len(self._waiting)
        cap = self.limits.long_prefill if self.limits.long_prefill and crowd > 1 else self.limits.budget
        shares, preempted = self._continue(cap)
        if not preempted:
            self._admit(start, cap, shares)
        return shares, preempted

    def _continue(self, cap: int) -> tuple[list[_Share], list[_Sequence]]:
        """Rules 2 and 3."""
        room, shares, preempted = self.limits.budget, list[_Share](), list[_Sequence]()
        while room and len(shares) < len(self._running):
            sequence = self._running[len(shares)]
            tokens = min(sequence.lacks, cap, room)
            preempted += self._make_room(sequence, tokens)
            if sequence in preempted:
                break
            shares.append(self._give(sequence, tokens))
            room -= tokens
        return shares, preempted

    def _make_room(self, sequence: _Sequence, tokens: int) -> list[_Sequence]:
        """Preempt from the end until `sequence` can grow by `tokens`; it may be the victim itself."""
        victims: list[_Sequence] = []
        while self._needs(sequence, sequence.computed + tokens) > self.blocks.free:
            victim = self._running.pop()
            self.blocks.release(victim.held)
            victim.held, victim.computed, victim.named = [], 0, 0
            victim.preemptions += 1
            self._waiting.appendleft(victim)
            victims.append(victim)
            if victim is sequence:
                break
        return victims

    def _admit(self, start: int, cap: int, shares: list[_Share]) -> None:
        """Rule 4."""
        room = self.limits.budget - sum(share.tokens for share in shares)
        while self._waiting and room and len(self._running) < self.limits.sequences:
            sequence = self._waiting[0]
            hits = self._look_up(sequence)
            cached = len(hits) * self.limits.block
            tokens = min(sequence.length - cached, cap, room)
            reach = sequence.length if self.limits.whole_fits else cached + tokens
            if self._needs(sequence, reach) - len(hits) + self.blocks.idle(hits) > self.blocks.free:
                return
            self._running.append(self._waiting.popleft())
            self.blocks.hold(hits)
            sequence.held, sequence.computed, sequence.named = hits, cached, len(hits)
            if sequence.scheduled_ns is None:
                sequence.scheduled_ns, sequence.cached = start, cached
            shares.append(self._give(sequence, tokens))
            room -= tokens

    def _look_up(self, sequence: _Sequence) -> list[int]:
        """Cached blocks of its longest known prefix; one token at least is left to compute."""
        if not self.limits.caching:
            return []
        most = (sequence.length - 1) // self.limits.block
        return self.blocks.find(sequence.names(most, self.limits.block)[:most])

    def _needs(self, sequence: _Sequence, tokens: int) -> int:
        """Blocks that `sequence` lacks to hold `tokens`."""
        return max(0, -(-tokens // self.limits.block) - len(sequence.held))

    def _give(self, sequence: _Sequence, tokens: int) -> _Share:
        """Hand `sequence` the blocks for `tokens` more; the full ones can be found at once."""
        size, reach = self.limits.block, sequence.computed + tokens
        sequence.held += self.blocks.take(self._needs(sequence, reach))
        if self.limits.caching and reach // size > sequence.named:
            names = sequence.names(reach // size, size)
            for index in range(sequence.named, reach // size):
                self.blocks.name(sequence.held[index], names[index])
            sequence.named = reach // size
        return _Share(sequence, tokens, not sequence.emitted, sequence.decoding)

    def _finish(self, shares: list[_Share], end: int, lost: int) -> tuple[tuple[Token, ...], tuple[Truth, ...]]:
        """Rule 5."""
        tokens = []
        for sequence, count, _, decode in shares:
            sequence.computed += count
            sequence.lost_ns += lost if decode else 0
            if not sequence.lacks:
                tokens.append(sequence.emit(end))
        ended = [share.sequence for share in shares if share.sequence.done]
        for sequence in ended:
            self._running.remove(sequence)
            self.blocks.release(sequence.held)
        return tuple(tokens), tuple(sequence.truth() for sequence in ended)
