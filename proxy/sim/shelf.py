"""Ollama in virtual time: models in memory, each with a runner, and the queue for those that are not.

* A job for a loaded model goes to its runner at once and waits there without limit.
* Any other goes to the pending queue; where that is full it is refused. The queue is served one at a time: with memory
  for another model it is loaded; else the idle model that was used least recently goes; else the queue waits until one
  is idle. Jobs for loaded models pass by meanwhile.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from proxy.sim.jobs import Busy, Job, Step, Truth
from proxy.sim.slots import Runner

MAX_QUEUE = 512
"""Ollama's default `OLLAMA_MAX_QUEUE`."""


class _Load(NamedTuple):
    """A model on its way into memory, for one job."""

    job: Job
    ready_ns: int


class _Visit(NamedTuple):
    """What is known of a job before a runner has it."""

    model: str
    arrived_ns: int
    load_ns: int = 0
    left: bool = False


class Shelf:
    """All models of one Ollama. State: runners by model, the load under way, who is pending, every job not ended."""

    def __init__(
        self,
        runner: Callable[[str], Runner],
        load_ns: Callable[[str], int],
        models: int = 1,
        max_queue: int = MAX_QUEUE,
    ) -> None:
        self._make, self._load_ns, self._models, self._max_queue = runner, load_ns, models, max_queue
        self._runners: dict[str, Runner] = {}
        self._loading: _Load | None = None
        self._pending: deque[tuple[int, Job]] = deque()
        self._gone: list[tuple[int, Truth]] = []
        self._visits: dict[str, _Visit] = {}
        self._now = 0

    def __repr__(self) -> str:
        return f"<Shelf {self._runners}, {len(self._pending)} pending>"

    @property
    def loaded(self) -> tuple[str, ...]:
        """Models in memory."""
        return tuple(self._runners)

    @property
    def running(self) -> int:
        """Slots with a job, over all models."""
        return sum(runner.running for runner in self._runners.values())

    @property
    def waiting(self) -> int:
        """Jobs without a slot, over all models, pending ones included."""
        pending = len(self._pending) + (self._loading is not None)
        return pending + sum(runner.waiting for runner in self._runners.values())

    def submit(self, t: int, job: Job) -> None:
        """Hand in a job at `t`; raises `Busy` where its model is not loaded and the pending queue is full."""
        self._settle(t)
        if job.model not in self._runners and len(self._pending) >= self._max_queue:
            raise Busy("server busy, please try again.  maximum pending requests exceeded")
        self._visits[job.id] = _Visit(job.model, t)
        if job.model in self._runners:
            self._runners[job.model].submit(t, job)
        else:
            self._pending.append((t, job))
            self._settle(t)

    def abort(self, t: int, id: str) -> None:
        """The client left. A load that was begun for it goes on."""
        visit = self._visits.get(id)
        if visit is None:
            return
        self._visits[id] = visit._replace(left=True)
        pending = [entry for entry in self._pending if entry[1].id == id]
        for arrived, job in pending:
            self._pending.remove((arrived, job))
            self._gone.append(
                (t, Truth(id=id, arrived_ns=arrived, prompt_tokens=len(job.prompt), finish="abort", aborted=True))
            )
        if not pending and visit.model in self._runners:
            self._runners[visit.model].abort(t, id)

    def due(self) -> int | None:
        """When something happens next; None: nothing will."""
        moments = [self._next_change(), *(runner.due() for runner in self._runners.values())]
        moments += [t for t, _ in self._gone]
        return min((moment for moment in moments if moment is not None), default=None)

    def step(self, t: int) -> Step | None:
        """Start the batch that is due at or before `t`; None: none is, though a load may have begun or ended."""
        due = self.due()
        if due is None or due > t:
            return None
        if self._gone:
            at, truth = self._gone.pop()
            return Step(at, 0, (), 0, ended=(self._told(truth),))
        self._settle(due)
        for runner in self._runners.values():
            step = runner.step(due)
            if step is not None:
                return replace(step, ended=tuple(self._told(truth) for truth in step.ended))
        return None

    def _told(self, truth: Truth) -> Truth:
        """The truth with what happened before the runner had the job."""
        visit = self._visits.pop(truth.id)
        return replace(truth, arrived_ns=visit.arrived_ns, load_ns=visit.load_ns)

    def _next_change(self) -> int | None:
        """When a load ends, or one can begin."""
        if self._loading is not None:
            return self._loading.ready_ns
        if not self._pending:
            return None
        arrived, job = self._pending[0]
        if job.model in self._runners or len(self._runners) < self._models:
            return max(arrived, self._now)
        idle = self._idle()
        return max(arrived, self._now, idle[0]) if idle is not None else None

    def _idle(self) -> tuple[int, str] | None:
        """The model that has been idle longest, and since when."""
        since = [(runner.idle_at(), name) for name, runner in self._runners.items()]
        return min(((at, name) for at, name in since if at is not None), default=None)

    def _settle(self, t: int) -> None:
        """Let loads end and begin up to `t`."""
        while (at := self._next_change()) is not None and at <= t:
            self._now = at
            if self._loading is not None:
                self._arrive(self._loading, at)
            else:
                self._begin(at)

    def _arrive(self, load: _Load, at: int) -> None:
        model, id = load.job.model, load.job.id
        runner = self._runners[model] = self._make(model)
        runner.submit(at, load.job)
        visit = self._visits[id] = self._visits[id]._replace(load_ns=self._load_ns(model))
        if visit.left:
            runner.abort(at, id)
        self._loading = None

    def _begin(self, at: int) -> None:
        _, job = self._pending.popleft()
        if job.model in self._runners:
            self._runners[job.model].submit(at, job)
            return
        idle = self._idle()
        if len(self._runners) >= self._models and idle is not None:
            del self._runners[idle[1]]
        self._loading = _Load(job, at + self._load_ns(job.model))
