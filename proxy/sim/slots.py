"""One llama.cpp server process in virtual time: slots, and batches that they share.

The rules, in the order of a batch:

1. New work is looked for between batches only. A job takes the free slot whose memory begins most like its prompt (the
   least recently used of equals); the rest waits, first come first served.
2. What the prompt and the slot's memory have in common is not computed again, but for one token at least.
3. Every generating slot adds one token. What is left of the batch is filled with prompts, in the order of slots.
4. A prompt that is read whole makes its first token in the same batch.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from proxy.sim.cost import Cost, Pace, Work
from proxy.sim.jobs import Job, Step, Token, Truth
from proxy.sim.progress import Progress

BATCH = 512
"""Tokens a batch: what Ollama asks of llama.cpp (`n_batch`)."""


@dataclass(slots=True, eq=False)
class _Slot:
    """One place. State: what its KV memory holds, when it was last used, and the job it works on."""

    memory: tuple[int, ...] = ()
    used_ns: int = 0
    work: Progress | None = None


class _Share(NamedTuple):
    """What one slot gets of a batch."""

    slot: _Slot
    work: Progress
    tokens: int
    prefill: bool


class Runner:
    """One loaded model. State: its slots, who waits for one, and what has come in since the last batch."""

    def __init__(self, slots: int, cost: Cost, batch: int = BATCH, seed: int = 0) -> None:
        self.batch = batch
        self._pace = Pace(cost, seed)
        self._slots = [_Slot() for _ in range(slots)]
        self._inbox: deque[tuple[int, Job | str]] = deque()
        self._waiting: deque[Progress] = deque()
        self._free_at = 0

    def __repr__(self) -> str:
        return f"<Runner {self.running} of {len(self._slots)} slots busy, {self.waiting} waiting>"

    @property
    def running(self) -> int:
        """Slots with a job."""
        return sum(slot.work is not None for slot in self._slots)

    @property
    def waiting(self) -> int:
        """Jobs without a slot."""
        return len(self._waiting) + sum(isinstance(item, Job) for _, item in self._inbox)

    def idle_at(self) -> int | None:
        """Since when it has nothing to do; None: it has."""
        return None if self.running or self._waiting or self._inbox else self._free_at

    def submit(self, t: int, job: Job) -> None:
        """Hand in a job at `t`; it waits without limit."""
        self._inbox.append((t, job))

    def abort(self, t: int, id: str) -> None:
        """The client left; takes effect between two batches."""
        self._inbox.append((t, id))

    def due(self) -> int | None:
        """When the next batch can start; None: nothing to do."""
        if self.running or self._waiting:
            return self._free_at
        return max(self._free_at, self._inbox[0][0]) if self._inbox else None

    def step(self, t: int) -> Step | None:
        """Start the batch that is due at or before `t`, at the moment it is due; None: none is."""
        start = self.due()
        if start is None or start > t:
            return None
        dropped = self._take_in(start)
        self._launch(start)
        shares = self._fill()
        taken, lost = self._pace.step([Work(s.tokens, s.work.computed, s.work.decoding) for s in shares])
        self._free_at = start + taken
        tokens, ended = self._finish(shares, self._free_at, lost)
        return Step(
            start,
            taken,
            tuple((share.work.job.id, share.tokens) for share in shares),
            sum(share.tokens for share in shares if share.prefill),
            tokens,
            ended=(*dropped, *ended),
        )

    def _take_in(self, start: int) -> list[Truth]:
        dropped = []
        while self._inbox and self._inbox[0][0] <= start:
            t, item = self._inbox.popleft()
            if isinstance(item, str):
                dropped += self._drop(item)
            else:
                self._waiting.append(Progress(item, t, t))
        return dropped

    def _drop(self, id: str) -> list[Truth]:
        for work in [work for work in self._waiting if work.job.id == id]:
            self._waiting.remove(work)
            return [work.truth(aborted=True)]
        for slot in self._slots:
            if slot.work is not None and slot.work.job.id == id:
                truth = slot.work.truth(aborted=True)
                self._vacate(slot, slot.work)
                return [truth]
        return []

    def _launch(self, start: int) -> None:
        """Rules 1 and 2."""
        while self._waiting and (free := [slot for slot in self._slots if slot.work is None]):
            work = self._waiting.popleft()
            alike = {id(slot): common(slot.memory, work.job.prompt) for slot in free}
            slot = max(free, key=lambda slot: (alike[id(slot)], -slot.used_ns))
            work.scheduled_ns = slot.used_ns = start
            work.cached = work.computed = min(alike[id(slot)], len(work.job.prompt) - 1)
            slot.work = work

    def _fill(self) -> list[_Share]:
        """Rule 3."""
        busy = [(slot, slot.work) for slot in self._slots if slot.work is not None]
        shares = [_Share(slot, work, 1, prefill=False) for slot, work in busy if work.emitted]
        room = self.batch - len(shares)
        for slot, work in busy:
            tokens = min(work.lacks, room)
            if tokens and not work.emitted:
                shares.append(_Share(slot, work, tokens, prefill=True))
                room -= tokens
        return shares

    def _finish(self, shares: list[_Share], end: int, lost: int) -> tuple[tuple[Token, ...], tuple[Truth, ...]]:
        """Rule 4."""
        tokens, ended = [], []
        for slot, work, count, prefill in shares:
            work.computed += count
            work.lost_ns += 0 if prefill else lost
            if not work.lacks:
                tokens.append(work.emit(end))
            if work.done:
                ended.append(work.truth())
                slot.used_ns = end
                self._vacate(slot, work)
        return tuple(tokens), tuple(ended)

    def _vacate(self, slot: _Slot, work: Progress) -> None:
        slot.memory, slot.work = work.tokens(0, work.computed), None


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))
