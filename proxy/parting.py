"""After the end: the rooms learn from an exchange, and its record leaves, at once or when all is known."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from proxy.attribution.findings import cold_load, context_truncated, prompt_of_one
from proxy.attribution.ladder import attribute
from proxy.attribution.ollama import counts_fresh_only
from proxy.auditing import LONG, Auditing
from proxy.endings import unread
from proxy.engine import Engine
from proxy.engines.fingerprint import resident
from proxy.engines.runners import Rivals
from proxy.events import Said
from proxy.messages import Message, PromptSeen
from proxy.parts import Audit
from proxy.records import COLD_LOAD_NS, Finished, Inferred, Outcome, PrefixVerdict, RequestFacts
from proxy.rooms import Ended
from proxy.tap import FAULTS

ASK_S = 2.0
"""How long a look-up beside an exchange may take: what is in memory, how long a prompt is."""


class Parting:
    """Where exchanges go when they are over."""

    # State: records that wait for a look at their engine, or for a long answer's tokens.
    def __init__(
        self, auditing: Auditing, send: Callable[[Message], None], fault: Callable[[str, BaseException], None]
    ) -> None:
        self._auditing = auditing
        self.send = send
        self._fault = fault
        self._late: set[asyncio.Task[None]] = set()

    async def idle(self) -> None:
        """Returns when every record has left."""
        while self._late:  # one may leave another behind
            await asyncio.gather(*self._late)

    def leave(self, ended: Ended) -> None:
        """The one record leaves, and the rooms learn from it (`rooms.Rooms.leave`)."""
        said = ended.said
        if ended.finished.prefix is not None and (len(said.text) >= LONG or said.prompt):
            self._later(self._after_listening(ended))
        else:
            self._settle(ended)

    async def _after_listening(self, ended: Ended) -> None:
        """A long answer is tokenised off the loop first, and the prompt's own tokens are read."""
        spelt: Sequence[int] = ()
        try:
            spelt = await self._auditing.overhear(ended.engine, ended.said)
        except FAULTS as fault:
            self._fault(ended.finished.id, fault)
        finally:
            self._settle(ended, spelt)

    def _settle(self, ended: Ended, spelt: Sequence[int] = ()) -> None:
        finished = ended.finished
        try:
            finished = self._learnt(ended, spelt)
        except FAULTS as fault:
            self._fault(finished.id, fault)
        if ended.rivals and _may_have_swapped(finished):
            self._later(self._after_a_look(ended.engine, finished, ended.rivals))
        else:
            self.send(finished)

    def _learnt(self, ended: Ended, spelt: Sequence[int]) -> Finished:
        """The record with every prompt token in its bin."""
        engine, key, facts, finished, said, _ = ended
        # A count of fresh tokens alone, or of one prompt of several, teaches nothing about a prompt's size.
        part = counts_fresh_only(finished.evidence) or prompt_of_one(finished)
        if finished.outcome is Outcome.COMPLETED and not part:
            engine.desk.learn(facts, finished.counted, finished.usage)
        if engine.audit is None or facts.prompt is None:
            return finished
        if unread(finished.outcome, finished.status):
            engine.audit.unread(key)
            return finished
        usage = None if counts_fresh_only(finished.evidence) else finished.usage
        loaded_s = _loaded_s(finished)
        settled = engine.audit.ended(key, said, usage, spelt, loaded_s, context_truncated(finished))
        # Of a prompt that the engine read differently (tools left out, turns cut), or not at all, nothing is learnt.
        if settled is not None and settled.infinite is not None:
            self._show(engine, facts, finished, said)
        if settled is None or finished.prefix is None:
            return finished
        # Behind a load nothing is left to infer, and a prompt that is read by a new process tells of no other.
        inferred = _inferred(engine.audit, settled, finished) if loaded_s is None else None
        return finished._replace(prefix=settled if inferred is None else settled._replace(inferred=inferred))

    def _show(self, engine: Engine, facts: RequestFacts, finished: Finished, said: Said) -> None:
        """Gives the office's search a sample of the prompts."""
        at_s = finished.timeline.at_s
        stands_for = self._auditing.samples(facts.prompt, said.text, at_s)
        if facts.prompt is not None and stands_for:
            model = engine.known(facts.model or "")
            seen = PromptSeen(
                id=finished.id,
                at_s=at_s,
                engine=engine.name,
                model=model,
                prompt=facts.prompt,
                answer=said.text,
                stands_for=stands_for,
            )
            self.send(seen)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _after_a_look(self, engine: Engine, finished: Finished, rivals: Rivals) -> None:
        """A long load beside another model: what is in memory now tells whether that one had to go first."""
        try:
            answer = await engine.fetch("/api/ps", ASK_S)
            if answer is not None and answer[0] == 200:
                waited_ns = engine.runners.waited_for(rivals, finished.facts, resident(answer[2]))
                evidence = finished.evidence._replace(swapped=waited_ns is not None, others_done_ns=waited_ns)
                finished = finished._replace(evidence=evidence)
        finally:
            self.send(finished)


def _loaded_s(finished: Finished) -> float | None:
    """When the engine had loaded the model for this exchange, which emptied the model's cache; None: it did not."""
    line, load_ns = finished.timeline, _load_ns(finished)
    sent_ns = line.dispatched_ns or 0
    if line.finish == "load":  # and did nothing else
        load_ns = line.total_ns - sent_ns
    if load_ns < COLD_LOAD_NS or not cold_load(attribute(finished)):
        return None
    return line.at_s + (sent_ns + load_ns) / 1e9


def _load_ns(finished: Finished) -> int:
    return 0 if finished.report is None else finished.report.load_ns or 0


def _inferred(audit: Audit, settled: PrefixVerdict, finished: Finished) -> Inferred | None:
    """Cached tokens by prefill time, where the engine says the time and all of the prompt's tokens, and not these."""
    usage, report = finished.usage, finished.report
    if usage is None or usage.prompt_tokens is None or usage.cached_tokens is not None:
        return None
    if report is None or report.prefill_ns is None or not report.covers_all or counts_fresh_only(finished.evidence):
        return None
    if settled.infinite is None:
        return None
    model, known, there = finished.facts.model or "", settled.infinite, dict(settled.bins)["hit"]
    return audit.inferred(model, usage.prompt_tokens, report.prefill_ns, known, there)


def _may_have_swapped(finished: Finished) -> bool:
    evidence = finished.evidence
    waited = evidence.swapped is None and evidence.others_done_ns is not None
    return waited and _load_ns(finished) >= COLD_LOAD_NS
