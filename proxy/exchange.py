"""One request, straight through: the only place that knows the order of life.

    receive -> choose -> weigh -> enter -> dispatch -> pass on -> end

Whatever happens on the way, `run` leaves exactly one record with exactly one outcome. What a step means is the rooms'
business: this file names no dialect, no policy and no metric.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

from proxy.admission.permit import LEFT_THE_LINE
from proxy.claims import sift
from proxy.client import Client, Headers, Watch
from proxy.clock import Clock
from proxy.endings import answered, charged, complaint, judge, permit_end, unadmitted
from proxy.engine import Engine
from proxy.engines.runners import Rivals
from proxy.errors import ClientGone, EngineFailed, Fault, ProxyError, UpgradeRefused
from proxy.fleet import Fleet
from proxy.guard import Guard
from proxy.parts import Permit
from proxy.passing import Passing
from proxy.records import (
    AdmissionVerdict,
    Evidence,
    Finished,
    Outcome,
    PrefixVerdict,
    TokenCount,
)
from proxy.relay import Answer, Body
from proxy.rooms import Ended, Request, Rooms
from proxy.tap import FAULTS, Hearing, Tap
from proxy.timeline import Recorder

REFUSALS = (400, 422)
"""How an engine may answer a member that it does not know: the client's own body goes once then."""

LINGER_S = 0.25
"""A client that leaves between the answer's finish and its usage is not waited for, but the numbers are: this long."""

LAST_S = 1.0
"""How long a client may take to read an error of ours: its connection may be full of an earlier answer, and no limit of
the exchange is left. Less than a shutdown waits for exchanges that it cut."""

UNHEARD = (Outcome.CLIENT_GONE, Outcome.TRUNCATED, Outcome.ENGINE_STALLED, Outcome.ENGINE_TIMEOUT)
"""What becomes of an engine that is heard for its numbers alone is nothing to a client that has left with all of its
answer."""

LEFT = "the client left"

NOBODY: Rivals = {}


class Exchange:
    """One request and its response.

    `id` is what the world calls it, and may be the client's own word, said of many at once; `key` is unique in this
    process: engines and audits know the exchange by it.
    """

    # State: how far it has come. What happened is the recorder's; the rest is set once, in the order of life.
    __slots__ = (
        "_body_limit", "_clock", "_count", "_engine", "_fleet", "_hearing", "_ids", "_left_ns", "_left_whole",
        "_permit", "_prefix", "_refused", "_rooms", "_tap", "_tenant", "_watch", "arrived", "client", "facts", "guard",
        "id", "key", "recorder",
    )  # fmt: skip

    def __init__(
        self, rooms: Rooms, fleet: Fleet, clock: Clock, client: Client, id: str, body_limit: int, key: str
    ) -> None:
        self._rooms = rooms
        self._fleet = fleet
        self._clock = clock
        self._body_limit = body_limit
        self.client = client
        self.id = id
        self.key = key
        self.guard = Guard(clock.now_ns)
        self.recorder = Recorder(clock.wall_s(), clock.now_ns())
        self.facts = rooms.classify(client.method, client.path)
        self._watch: Watch | None = None
        self._tenant: str | None = None
        self._engine: Engine | None = None
        self._count: TokenCount | None = None
        self._prefix: PrefixVerdict | None = None
        self._permit: Permit | None = None
        self._refused: AdmissionVerdict | None = None
        self._tap: Tap | None = None
        self._hearing = Hearing()
        self._ids: Sequence[int] | None = None
        self._left_ns: int | None = None
        self._left_whole = False
        self.arrived = False

    def __repr__(self) -> str:
        return f"<Exchange {self.id} {self.facts.dialect} {self.facts.kind}, {self.recorder!r}>"

    async def run(self) -> None:
        """Live, and leave one record, whatever happens."""
        outcome: Outcome = Outcome.PROXY_ERROR
        why: str | None = "cancelled"
        try:
            try:
                outcome = await self._live()
                why = complaint(self.client.status, self.recorder.error)
            except asyncio.CancelledError:
                if self.guard.reason is None:
                    raise
                _uncancel()
                outcome, why = self.guard.reason.outcome, str(self.guard.reason)
                self._left_whole = self._left_whole or (outcome is Outcome.CLIENT_GONE and self._all_said())
                await self._tell(self.guard.reason)
            except ProxyError as failure:
                outcome, why, self._refused = self._failed(failure)
                await self._tell(failure)
            finally:
                if self._tap is not None:
                    self._tap.catch_up()
            if self._left_whole and outcome in UNHEARD:
                why = why if outcome is Outcome.CLIENT_GONE else LEFT
                outcome = Outcome.COMPLETED
        except Exception as bug:
            # The outermost boundary: a bug of ours costs one exchange, and its record says so.
            outcome, why = Outcome.PROXY_ERROR, type(bug).__name__
            self._rooms.fault(self.id, bug)
            await self._tell(Fault("the proxy failed; its log says why"))
        finally:
            self._end(outcome, why)

    def _failed(self, failure: ProxyError) -> tuple[Outcome, str, AdmissionVerdict | None]:
        """What the record says of it. The error gets no other name in `run`, whose frame it knows: all of an exchange
        that was refused would wait for the collector, which stops every stream."""
        error = failure
        if self.client.gone:
            error = ClientGone(LEFT if self._left_ns else "the client left while sending its body")
        self._tenant = self._tenant or failure.tenant
        return error.outcome, str(error), error.verdict

    async def _live(self) -> Outcome:
        body = await self._receive()
        engine = await self._choose()
        await self._weigh(engine, body)
        permit = await self._enter(engine)
        request = await self._rooms.prepare(engine, self.facts, self.client, self.id, body, permit)
        answer, asked = await self._dispatch(engine, request)
        del body, request  # an answer takes minutes
        try:
            return await self._pass_on(engine, permit, answer, asked)
        except EngineFailed:
            engine.on_trouble()  # an engine that died in the middle of an answer may come back as another
            raise
        finally:
            await answer.aclose()

    # --- the steps, in order ---

    async def _receive(self) -> Body:
        """Who asks, and for what. The exchange arrives when the body is read, or with the head of a streamed one."""
        client, rooms = self.client, self._rooms
        if client.upgrade is not None:
            raise UpgradeRefused(f"the proxy speaks HTTP only; an upgrade to {client.upgrade[:40]!r} cannot pass")
        self._tenant = rooms.authorize(client, self.facts)
        content_type = (client.header(b"content-type") or b"").decode("latin-1")
        if client.has_body and not rooms.buffers(self.facts, client):
            self.arrived = True
            return self._upload()
        self.guard.body(rooms.timeouts(self.facts).body_s)
        body = await client.body(self._body_limit, self.guard.heard)
        self.guard.arrived()
        self.arrived = True
        self.recorder.arrived(self._clock.wall_s(), self._clock.now_ns(), len(body))
        self._watch = Watch(client, self._left)
        self.facts = await rooms.read(self.facts, content_type, body)
        return body if client.has_body else None

    async def _upload(self) -> AsyncIterator[bytes]:
        async for piece in self.client.stream():
            self.recorder.bytes_in += len(piece)
            yield piece
        self._watch = Watch(self.client, self._left)

    async def _choose(self) -> Engine:
        engine = self._engine = await self._fleet.choose(self.facts)
        engine.began(self.key, self.facts, self._clock.now_ns())
        return engine

    async def _weigh(self, engine: Engine, body: Body) -> None:
        """Numbers of the prompt. A fault in making them spoils a number, never the request."""
        try:
            known = body if isinstance(body, bytes) else b""
            self._count = await engine.desk.count(self.facts, known, self._hearing.spell)
            self._ids = await self._rooms.acquaint(engine, self.facts, self._hearing)
        except FAULTS as fault:
            self._rooms.fault(self.id, fault)
        self._expect(engine)

    def _expect(self, engine: Engine) -> None:
        """Predict reuse, where that can be done."""
        try:
            if self._ids is not None:
                self._prefix = engine.predict(self.key, self.facts, self._clock.now_ns(), self._ids)
        except FAULTS as fault:
            self._rooms.fault(self.id, fault)

    async def _enter(self, engine: Engine) -> Permit:
        start = self._clock.now_ns()
        try:
            permit = self._permit = await engine.door.admit(self.facts, self._count, self._prefix, self._tenant)
        except asyncio.CancelledError:
            self._refused = LEFT_THE_LINE._replace(waited_ns=self._clock.now_ns() - start)
            raise
        self.recorder.admitted(self._clock.now_ns(), permit.verdict.waited_ns)
        if permit.verdict.waited_ns:
            self._expect(engine)  # others were served meanwhile: the cache is another one
        return permit

    async def _dispatch(self, engine: Engine, request: Request) -> tuple[Answer, Sequence[str]]:
        """The answer, and what was asked for in it beside the client."""
        limits = self._rooms.timeouts(self.facts)
        self.guard.first_byte(limits.first_byte_s)
        self.guard.total(limits.total_s)
        answer = await self._call(engine, request.headers, request.body, limits.connect_s)
        if answer.status in REFUSALS and request.own is not None:
            await answer.aclose()
            request = Request(request.headers, request.own)
            answer = await self._call(engine, request.headers, request.body, limits.connect_s)
            engine.bears_splice = answer.status >= 400  # else it was the splice that it could not bear
        self.guard.head()
        self.guard.idle(limits.idle_s)
        return answer, request.asked

    async def _call(self, engine: Engine, headers: Headers, body: Body, connect_s: float) -> Answer:
        sent = partial(self._sent, engine)
        return await engine.call(self.client.method, self.client.target, headers, body, connect_s, sent)

    async def _pass_on(self, engine: Engine, permit: Permit, answer: Answer, asked: Sequence[str]) -> Outcome:
        recorder, now = self.recorder, self._clock.now_ns
        passage = self._rooms.tap(answer, asked, self.facts, recorder, self._hearing)
        self._tap = passage.tap
        recorder.head(now(), answer.status, passage.streamed)
        headers = self._rooms.reply(answer, passage, recorder, self.id, self._quota())
        passing = Passing(self.client, recorder, self.guard, now, passage, partial(self._first_token, engine, permit))
        await passing.head(answer.status, headers)
        await passing.body(answer)
        return judge(answer.status, recorder.error, passage.tap.complete)

    # --- what comes between ---

    def _quota(self) -> Headers:
        """What is left of the client's limits, where it has any."""
        return self._engine.door.headers(self.facts, self._tenant) if self._engine is not None else []

    def _sent(self, engine: Engine) -> None:
        """The engine gets it now, and not before: a connection that is refused leaves nothing in a cache or a line."""
        engine.dispatched(self.key, self.facts, self._clock.now_ns(), audited=self._prefix is not None)
        self.recorder.dispatched(self._clock.now_ns())

    def _first_token(self, engine: Engine, permit: Permit, t: int) -> None:
        engine.first_token(self.key, t)
        permit.first_token()

    def _left(self) -> None:
        """The client is gone: the engine stops working for nobody, save that the numbers of a whole answer are due."""
        gone = ClientGone(LEFT)
        self._left_ns = self._clock.now_ns()
        said = False
        try:
            said = self._left_whole = self._all_said()
        except Exception as bug:  # we are called by the connection: it must go on, and the engine must be told
            self._rooms.fault(self.id, bug)
        if said:
            asyncio.get_running_loop().call_later(LINGER_S, self.guard.cancel, gone)
        else:
            self.guard.cancel(gone)

    def _all_said(self) -> bool:
        """The terminal event, or the finish of every choice, has been sent."""
        if self._tap is not None:
            self._tap.catch_up()
        return self.recorder.done or len(self.recorder.finished) >= self.facts.n * self.facts.prompts

    # --- the end ---

    async def _tell(self, error: ProxyError) -> None:
        """Our own error: whole where the head is unsent and the client reads, else by breaking the answer off, never by
        a made-up end."""
        self.guard.close()
        client = self.client
        if client.gone or client.ended:
            return
        if client.status is not None:
            client.abort()
        else:
            try:
                async with asyncio.timeout(LAST_S):
                    await client.answer(*self._rooms.refuse(error, self.facts, client, self.id, self._quota()))
            except TimeoutError:
                client.abort()

    def _end(self, outcome: Outcome, why: str | None) -> None:
        """The one record, and everybody who must hear of the end hears of it."""
        self._close()
        now, recorder, engine, permit = self._clock.now_ns(), self.recorder, self._engine, self._permit
        if permit is None and self._refused is not None:
            recorder.admitted(now, self._refused.waited_ns)  # the wait was ours, whatever it ended in
        # Who has left waits no longer: what is heard of the engine after that is nobody's time.
        ended = now if self._left_ns is None else self._left_ns
        timeline = recorder.end(ended)
        evidence, rivals = Evidence(), NOBODY
        if engine is not None:
            rivals = engine.inflight.rivals(self.key)
            evidence = engine.ended(self.key, answered(now, ended, timeline), recorder.report, outcome)
        said = self._hearing.said()
        usage, report, doubts = sift(self.facts, timeline, recorder.usage, recorder.report)
        if permit is not None:
            written = max(recorder.token_events, said.tokens)
            charge = charged(self.facts, usage, report, written, streamed=timeline.streamed)
            permit.ended(permit_end(outcome, timeline, self.client.status), charge, written)
        finished = Finished(
            id=self.id,
            engine=engine.name if engine is not None else "",
            facts=self.facts.promptless(),
            outcome=outcome,
            status=self.client.status,
            timeline=timeline,
            evidence=evidence,
            usage=usage,
            report=report,
            counted=self._count,
            admission=permit.verdict if permit is not None else self._refused or unadmitted(outcome),
            prefix=self._prefix,
            tenant=self._tenant,
            error=why or None,
            findings=doubts if self._tap is None or self._tap.blind is None else ("not_observed", *doubts),
        )
        if engine is None:
            self._rooms.send(finished)
        else:
            self._rooms.leave(Ended(engine, self.key, self.facts, finished, said, rivals))

    def _close(self) -> None:
        """Nobody is watched any more."""
        self.guard.close()
        watch, self._watch = self._watch, None  # it knows us: an exchange that is over is freed at once
        if watch is not None:
            watch.close()


def _uncancel() -> None:
    """The cancellation was the guard's and has done its work (`asyncio.timeout` does the same)."""
    task = asyncio.current_task()
    assert task is not None, "an exchange runs in a task"
    task.uncancel()
