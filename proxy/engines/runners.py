"""Runners: what works on requests inside an engine. Slots belong to a runner, not to a model's name."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from proxy.names import shortest
from proxy.records import Evidence, RequestFacts

_V = TypeVar("_V")

SLOTTED = ("ollama", "llamacpp")
"""Kinds that work in slots. Others batch what fits: who is ahead says nothing there."""

LEARNT_LIMIT = 256
"""Runners whose slots are remembered, and names whose weights are known; far more than fit one machine."""


class Runner(NamedTuple):
    """One loaded model: its weights and the options it was loaded with."""

    weights: str
    """The weights' digest where it is known, else the model's shortest name; empty: the engine's only runner."""
    options: tuple[tuple[str, str], ...] = ()


Rivals = Mapping[Runner, int]
"""Other runners that a request may have waited for: until when, in nanoseconds from dispatch."""


class Runners:
    """What is known of an engine's runners, and the engine's own kind and version, which every exchange's evidence has.

    State: the engine's identity, by name the runner that a model has where nothing else is asked for, slots learnt by
    weights.
    """

    def __init__(self, kind: str = "openai", version: str | None = None, slots: int | None = None) -> None:
        self._own: dict[str, Runner] = {}
        self.restarted(kind, version, slots)

    def restarted(self, kind: str, version: str | None, slots: int | None) -> None:
        """The engine is (again) this one: `slots` from settings or its own word; what was learnt is void."""
        self._kind, self._version, self._set = kind, version, slots
        self._learnt: dict[str, int] = {}

    @property
    def slotted(self) -> bool:
        """Requests wait for a slot here."""
        return self._kind in SLOTTED

    @property
    def orderly(self) -> bool:
        """Requests are served as they come. Ollama's wait for a model side by side, and any of them may be next."""
        return self._kind != "ollama"

    def made_of(self, name: str, weights: str, options: Sequence[tuple[str, str]] = ()) -> None:
        """A model's weights, by their digest, and its own options: names with the same of both share a runner."""
        _remember(self._own, shortest(name), Runner(weights, tuple(options)))

    def of(self, facts: RequestFacts) -> Runner:
        """The runner that will work on this request."""
        if self._kind != "ollama" or facts.model is None:
            return Runner("")
        own = self._runner(shortest(facts.model))
        # Its `/v1` routes do not read options.
        asked = facts.options if facts.dialect == "ollama" else ()
        return Runner(own.weights, tuple(sorted({**dict(own.options), **dict(asked)}.items())))

    def waited_for(self, rivals: Rivals, facts: RequestFacts, resident: frozenset[str]) -> int | None:
        """How long this request waited for `rivals` that had to go for it, or for others before it; None: none had.

        `resident`: models that are in memory now, each in one runner: of several with the same weights the last. Its
        own weights with other options had to go in any case.
        """
        stayed = {self._runner(shortest(name)).weights for name in resident} - {self.of(facts).weights}
        last = {self._runner(one.weights).weights: one for one in sorted(rivals, key=lambda one: rivals[one])}
        gone = rivals.keys() - {last.get(weights) for weights in stayed}
        return max((rivals[one] for one in gone), default=None)

    def slots(self, runner: Runner) -> int | None:
        """Requests that it works on at once; None: not known, or not the engine's way of working."""
        return self._set if self._set is not None else self._learnt.get(runner.weights)

    @property
    def learns(self) -> bool:
        """Slots are learnt: Ollama does not say them."""
        return self._kind == "ollama" and self._set is None

    def learn(self, runner: Runner, held: int) -> None:
        """So many requests were seen to be worked on at once."""
        if self.learns:
            _remember(self._learnt, runner.weights, max(held, self._learnt.get(runner.weights, 0)))

    def evidence(self, runner: Runner | None) -> Evidence:
        """The engine's part of an exchange's evidence."""
        slots = self._set if runner is None else self.slots(runner)
        return Evidence(kind=self._kind, version=self._version, slots=slots)

    def _runner(self, name: str) -> Runner:
        return self._own.get(name) or Runner(name)


def _remember(table: dict[str, _V], key: str, value: _V) -> None:
    if key not in table and len(table) >= LEARNT_LIMIT:
        del table[next(iter(table))]
    table[key] = value
