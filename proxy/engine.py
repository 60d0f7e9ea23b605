"""One engine: the owner of what outlives a request.

Its parts (fingerprint, in-flight table, door, prefix shadow) each keep their own state; `Engine` only names them and
tells them what happens.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import httpx

from proxy.admission.ask import OTHERS
from proxy.config import Upstream
from proxy.engines.fingerprint import LOADS, Answers, Fingerprint, answering, told
from proxy.engines.inflight import InFlight
from proxy.engines.runners import Runners
from proxy.errors import ConnectTimeout, EngineFailed, EngineTimeout, EngineUnreachable, ProxyError
from proxy.headers import Pair
from proxy.names import Listed
from proxy.parts import Audit, Desk, Door
from proxy.records import EngineReport, Evidence, Outcome, PrefixVerdict, RequestFacts
from proxy.relay import Answer, Body, Relay
from proxy.wire.caps import heeds

ANY_NAME = ("llamacpp", "sglang")
"""Kinds of engines that do not look at a model's name, or at none that they do not know: some model answers to any."""

CLOCK_S = 1.0
"""A process that began later than known by no more is the same one: clocks are set. One that began earlier is another
behind the same address, which was there all the time."""

Fetched = tuple[int, list[Pair], bytes]
"""Status, headers and body of a look-up."""

Sent = Callable[[], None]

CacheShape = tuple[int | None, int | None]
"""Tokens a block, and tokens in all; None: not known."""


class Engine:
    """One engine and all that is known of it between requests."""

    # State: its parts; whether it answers, whether it was gone since it last did, and whether the last look-up took too
    # long and no more; what the last look found (`fingerprint`, its cache's shape, when it began), in which `epoch`;
    # what it said of itself since it was last silent (`_pages`); the digests of models whose weights are known; whether
    # it bears a splice.
    def __init__(
        self,
        upstream: Upstream,
        relay: Relay,
        door: Callable[["Engine"], Door],
        desk: Callable[["Engine"], Desk],
        configured: bool = True,
    ) -> None:
        """`configured`: else it is only looked for."""
        self.upstream = upstream
        self.counts, self.stranger = configured, False
        """It is one of ours, whether it answers or not: configured, or found. Else what answers there is a stranger."""
        self.name = upstream.label
        self.url = httpx.URL(upstream.url)
        self.authority: bytes = self.url.netloc
        self.key: str | None = upstream.api_key or None
        self.relay = relay
        self.listed = Listed(lambda: self.models)
        self.audit: Audit | None = None
        self.fingerprint = Fingerprint(kind="openai" if upstream.kind == "auto" else upstream.kind)
        self.runners = Runners(self.kind, None, upstream.slots or None)
        self.inflight = InFlight(self.runners)
        self._pages: Answers = {}
        self._weighed: dict[str, str] = {}
        self.epoch = 0
        self.answers: bool | None = None
        self.complaint = ""
        """Why it did not answer, the last time: a look-up had no answer, or one that no engine gives which is ready."""
        self._gone = self._late = False
        self.bears_splice = True
        self.on_trouble: Callable[[], None] = lambda: None
        self.on_change: Callable[[Engine], None] = lambda engine: None
        self._shape: CacheShape = (None, None)
        self._began_s: float | None = None
        self.door = door(self)
        self.desk = desk(self)

    def __repr__(self) -> str:
        return f"<Engine {self.name} {self.kind}, {len(self.inflight)} in flight>"

    @property
    def kind(self) -> str:
        """Engine type; `openai` where nothing more is known."""
        return self.fingerprint.kind

    @property
    def models(self) -> tuple[str, ...]:
        """Models it serves, as configured or as it lists them."""
        return self.upstream.models or self.fingerprint.models

    def served(self, model: str | None) -> Sequence[str]:
        """The models of which one will answer, where it does not look at the name that is asked for."""
        return self.listed.behind(model) if self.kind in ANY_NAME else ()

    def known(self, model: str) -> str:
        """The model that a client calls so, in a name that is the same for all spellings."""
        served = self.served(model)
        return self.listed.spelt(model) if not served else served[0] if len(served) == 1 else OTHERS

    def windows(self, model: str | None) -> tuple[int | None, int | None]:
        """Its context window for a model, by the name that it lists: as it is, and at most. None: not known."""
        return self.fingerprint.window(model), self.fingerprint.longest(model)

    def heeds(self, facts: RequestFacts) -> bool:
        """Whether it heeds a limit of the output that the request states."""
        return heeds(self.kind, facts)

    async def call(
        self, method: str, target: bytes, headers: Sequence[Pair], body: Body, connect_s: float, sent: Sent
    ) -> Answer:
        """The answer's head. Raises EngineFailed; a failure makes the fleet look at the engine again."""
        try:
            answer = await self.relay.call(
                self.url, method, target, headers, body, connect_timeout_s=connect_s or None, sent=sent
            )
        except EngineFailed as error:
            if isinstance(error, EngineUnreachable):  # at once: until somebody has looked, a burst would run into it
                self._heard(answers=False, gone=not isinstance(error, ConnectTimeout))
            self.on_trouble()
            raise
        if method == "POST" and (answer.status < 500 or (answer.status == LOADS and self.kind == "llamacpp")):
            answers = answer.status < 500  # pages prove nothing: some are there before the model is
            if not (answers and self.answers):
                self.on_trouble()  # it comes or goes: it may be another one by now
            self._heard(answers=answers)
        return answer

    async def fetch(
        self, target: str, timeout_s: float, key: Sequence[Pair] = (), body: bytes | None = None
    ) -> Fetched | None:
        """What a look-up of our own gets (GET, or POST of a JSON body); None where the engine does not answer."""
        if self.key is not None:
            key = [(b"authorization", b"Bearer " + self.key.encode())]
        try:
            answer = await self.relay.fetch(self.url, target, timeout_s, key, body)
        except ProxyError as error:
            self.complaint, self._late = str(error), isinstance(error, ConnectTimeout | EngineTimeout)
            return None
        self._late = False
        return answer

    def recall(self, answers: Answers) -> Answers:
        """These answers to look-ups; of pages that it leaves out now, for it may be busy, what they said since it was
        last silent."""
        self._pages = {**self._pages, **told(answers)} if answering(answers) else {}
        return {**answers, **self._pages}

    @property
    def cache_shape(self) -> CacheShape:
        """Tokens a block of its prefix cache, and tokens in all: as configured, or as it says."""
        block, tokens = self._shape
        return self.upstream.block_size or block, self.upstream.cache_tokens or tokens

    def seen(
        self, fingerprint: Fingerprint, shape: CacheShape | None = (None, None), began_s: float | None = None
    ) -> None:
        """A look at the engine has ended. Another engine than before, and one that was started anew, begins an epoch.

        `shape`: None where it did not say it now; `began_s`: when its process began, by its own clock, if it says so.
        """
        self.counts = self.counts or (fingerprint.answers and fingerprint.is_engine)
        self.stranger = fingerprint.answers and not self.counts
        answers = fingerprint.answers and self.counts
        if answers:
            self._gone = self._gone and (began_s is None or began_s != self._began_s)  # else it was out of reach
            self._found(fingerprint, shape, began_s)
        self._heard(answers=answers, gone=not self._late)

    def _found(self, fingerprint: Fingerprint, shape: CacheShape | None, began_s: float | None) -> None:
        if self.upstream.kind != "auto":
            fingerprint = replace(fingerprint, kind=self.upstream.kind)
        new = fingerprint.identity != self.fingerprint.identity
        known_s = self._began_s if self._began_s is not None else began_s
        again = began_s is not None and known_s is not None and began_s > known_s + CLOCK_S
        self.fingerprint = fingerprint
        self.desk.serves(fingerprint.kind)
        if new:
            self.bears_splice = True
        if new or again:
            self._anew()
            known_s = began_s
        self._began_s = known_s
        shape = shape or ((None, None) if new else self._shape)
        if new or shape != self._shape:
            self._shape = shape
            self.on_change(self)

    def _heard(self, *, answers: bool, gone: bool = True) -> None:
        """It answers, or does not. One that was gone, and is back, was started anew: in its cache there is nothing.
        `gone`: whether not to answer means that; what takes too long may be the network, or a process that is busy."""
        if answers and self._gone:
            self._anew()
        self.answers, self._gone = answers, not answers and (gone or self._gone)

    def _anew(self) -> None:
        self._gone, self._began_s = False, None
        self.epoch += 1
        found = self.fingerprint
        self.runners.restarted(found.kind, found.version, self.upstream.slots or found.slots)
        if self.audit is not None:
            self.audit.restarted()

    def unweighed(self) -> Sequence[str]:
        """Models of which it is not known whether they share their weights with another: Ollama's new ones."""
        if self.kind != "ollama":
            return ()
        return [model for model, digest in self.fingerprint.digests if self._weighed.get(model) != digest]

    def weighed(self, model: str, weights: str, options: Sequence[tuple[str, str]]) -> None:
        """Models with the same weights and options share a runner and its slots."""
        self._weighed[model] = dict(self.fingerprint.digests).get(model, "")
        self.runners.made_of(model, weights, options)

    # --- the life of an exchange, as the parts hear of it ---

    def predict(self, id: str, facts: RequestFacts, now_ns: int, ids: Sequence[int] = ()) -> PrefixVerdict | None:
        """Which prompt tokens the engine's cache could give. `ids`: the prompt in the engine's own tokens."""
        return self.audit.predict(id, facts, now_ns, ids) if self.audit is not None else None

    def began(self, id: str, facts: RequestFacts, now_ns: int) -> None:
        """An exchange has chosen this engine."""
        self.inflight.began(id, now_ns, facts)

    def dispatched(self, id: str, facts: RequestFacts, now_ns: int, *, audited: bool) -> None:
        """Its request is on the way. `audited`: its reuse was predicted."""
        self.inflight.dispatched(id, now_ns)
        if audited and self.audit is not None:
            self.audit.dispatched(id, facts, now_ns)

    def first_token(self, id: str, now_ns: int) -> None:
        """Its prompt has been read."""
        self.inflight.first_token(id, now_ns)

    def ended(self, id: str, answered_ns: int, report: EngineReport | None, outcome: Outcome) -> Evidence:
        """The engine has answered, or is asked no more: what was known of it meanwhile."""
        return self.inflight.ended(id, answered_ns, waited_ns(report), served=outcome is Outcome.COMPLETED)


def waited_ns(report: EngineReport | None) -> int | None:
    """From dispatch to the start of the prompt, where the engine's own durations say so."""
    if report is None or report.total_ns is None or report.prefill_ns is None or report.decode_ns is None:
        return None
    return max(0, report.total_ns - report.prefill_ns - report.decode_ns)
