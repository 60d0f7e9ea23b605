"""All engines, and which of them a request goes to."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

from proxy.engine import Engine
from proxy.errors import EngineUnreachable, ProxyError, UnknownModel
from proxy.names import serves, takes
from proxy.records import RequestFacts

FRESH_S = 1.0
"""How old the lists of models may be that say that no engine serves a name."""

ROOTED = ("llamacpp", "sglang", "ollama")
"""Kinds that have a page at their root: one to chat on first, then those that only say that they run."""


class Fleet:
    """All engines."""

    # State: the engines, where the round robin stands, and the latest look that a strange name caused.
    def __init__(self, engines: Sequence[Engine], together: Engine, look: Callable[[Engine], Awaitable[None]]) -> None:
        self.engines = tuple(engines)
        self._together = together
        self._look = look
        self._turn = itertools.count()
        self._looking: asyncio.Future[list[None]] | None = None
        self._looked_s = 0.0

    @property
    def present(self) -> Sequence[Engine]:
        """The engines that count: those configured, and of those only looked for the ones that ever answered. One that
        is gone is not forgotten: its requests are no other engine's."""
        return [engine for engine in self.engines if engine.counts] or self.engines

    async def choose(self, facts: RequestFacts) -> Engine:
        """The engine for this request: by model, then one that answers, then fewest in flight, then in turn.

        One engine serves whatever it is asked: the name is its business. A request that names no model goes to the
        first that has such a route. Raises UnknownModel when no engine lists the model, after all lists were read
        afresh, and EngineUnreachable when none was ever found of those that are looked for.
        """
        engines = self.present
        if not engines[0].counts:
            engines = await self._found()
        if len(engines) == 1:
            return engines[0]
        if facts.kind == "models":
            return self._together
        if facts.model is None:
            return answering(having(engines, facts))[0]
        if facts.dialect == "ollama" and facts.route != "inference":
            return await self._keeper(engines, facts, facts.model)
        if not (found := serving(self.present, facts.model)):
            await self._look_afresh(engines)
            found = serving(self.present, facts.model)
        if not found:
            raise self._nobody(facts.model)
        able, turn = answering(found), next(self._turn)
        order = (*able[turn % len(able) :], *able[: turn % len(able)])
        return min(order, key=lambda engine: len(engine.inflight))

    async def _keeper(self, engines: Sequence[Engine], facts: RequestFacts, model: str) -> Engine:
        """Of those that may have such a route who has the model, to look it up or change it; else the first: it may be
        about to come, and that nobody has it is the engine's to say."""
        able = having(engines, facts)
        if not serving(able, model):
            await self._look_afresh(engines)
            able = having(engines, facts)
        return answering(serving(able, model) or able)[0]

    async def _found(self) -> Sequence[Engine]:
        """Those that count now. What else answers where engines are looked for is not for it."""
        await self._look_afresh(self.engines)
        if not self.present[0].counts:
            raise EngineUnreachable(f"no engine was found at {', '.join(engine.name for engine in self.engines)}")
        return self.present

    async def _look_afresh(self, engines: Sequence[Engine]) -> None:
        """One look for all who wait for one: strange names cost the engines little, however many come."""
        loop = asyncio.get_running_loop()
        if self._looking is None or (self._looking.done() and loop.time() - self._looked_s > FRESH_S):
            self._looking, self._looked_s = asyncio.gather(*(self._look(engine) for engine in engines)), loop.time()
        await asyncio.shield(self._looking)

    def _nobody(self, model: str) -> ProxyError:
        silent = [engine.name for engine in self.present if not engine.models]
        if silent:
            return EngineUnreachable(f"no engine that answers lists this model; no list from {', '.join(silent)}")
        known = sorted({name for engine in self.present for name in engine.models})
        return UnknownModel(f"no engine serves the model {model[:80]!r}; there are {', '.join(known[:20])}")


def serving(engines: Sequence[Engine], model: str) -> Sequence[Engine]:
    """Those that list the model; else the Ollamas that take this name for one of theirs."""
    found = [engine for engine in engines if serves(engine.models, model)]
    return found or [engine for engine in engines if engine.kind == "ollama" and takes(engine.models, model)]


def answering(engines: Sequence[Engine]) -> Sequence[Engine]:
    """Those that answered last, if any did: a dead one has the fewest in flight, and would draw all requests."""
    return [engine for engine in engines if engine.answers is not False] or engines


def having(engines: Sequence[Engine], facts: RequestFacts) -> Sequence[Engine]:
    """Those that may have such a route, for a request that names no model; all, where none seems to.

    An engine's own language is for engines of that kind. What may be a form is for any: the model in it was not read.
    The root is for who has a page there. All else is for any but Ollama, which speaks OpenAI's and Anthropic's language
    too, but wants a model there."""
    if facts.dialect in {engine.kind for engine in engines} - {"openai"}:
        fitting = [engine for engine in engines if engine.kind == facts.dialect]
    elif (facts.dialect, facts.route) == ("passthrough", "inference"):
        return engines
    elif facts.path == "/":
        fitting = [engine for kind in ROOTED for engine in engines if engine.kind == kind]
    else:
        fitting = [engine for engine in engines if engine.kind != "ollama"]
    return fitting or engines
