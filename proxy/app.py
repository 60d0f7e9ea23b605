"""The composition root of the data process: builds the rooms and hands them to exchanges.

`DataApp` is a raw ASGI application: no middleware, no router, and nothing of ours lives on the data listener.
"""

import asyncio
import uuid
from collections.abc import Callable

import httpx
import structlog

from proxy import headers
from proxy.client import Client, Headers, Receive, Scope, Send
from proxy.clock import Clock
from proxy.config import Settings, Timeouts
from proxy.errors import Draining, ProxyError
from proxy.exchange import Exchange, Request, Rooms
from proxy.fleet import Engine, Fleet, Together
from proxy.lookout import Lookout, look
from proxy.messages import EngineState, Message, Pulse
from proxy.records import AdmissionVerdict, Finished, PrefixVerdict, RequestFacts, TokenCount, Usage
from proxy.relay import Answer, Body, Relay
from proxy.tap import Tap
from proxy.timeline import Recorder
from proxy.wire import errors, usage
from proxy.wire.dialects import reader_for
from proxy.wire.framing import framing_for, media_type, streams
from proxy.wire.request import read_facts
from proxy.wire.routes import Route, classify

log = structlog.get_logger("phasegate")


class OpenPermit:
    """Leave that nobody had to give."""

    verdict = AdmissionVerdict()

    def first_token(self) -> None:
        """Nothing is held."""

    def ended(self, how: str, usage: Usage | None) -> None:
        """Nothing was held."""


class OpenDoor:
    """Lets everybody in at once."""

    async def admit(
        self, facts: RequestFacts, count: TokenCount | None, prefix: PrefixVerdict | None, tenant: str | None
    ) -> OpenPermit:
        """A permit."""
        return OpenPermit()


class DataApp:
    """What clients talk to."""

    # State: the exchanges that have arrived and not ended, who waits for the last of them, and whether the proxy is
    # going away.
    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        transport: httpx.AsyncBaseTransport,
        send: Callable[[Message], None],
        configured: bool = True,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.relay = Relay(transport)
        engines = [Engine(upstream, self.relay, OpenDoor(), None, configured) for upstream in settings.upstream]
        self.fleet = Fleet(engines, Together(engines, self.relay, OpenDoor()), look)
        self.lookout = Lookout(self.fleet)
        for engine in engines:
            engine.on_trouble = self.lookout.trouble
        self.draining = False
        self._publish = send
        self._exchanges: set[Exchange] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._rooms = self._build_rooms()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        client = Client(scope, receive, send)
        id = headers.request_id(client.headers, _new_id)
        exchange = Exchange(self._rooms, self.fleet, self.clock, client, id, self.settings.body_limit_bytes)
        self._exchanges.add(exchange)
        self._idle.clear()
        try:
            await exchange.run()
        finally:
            self._exchanges.discard(exchange)
            if not self._exchanges:
                self._idle.set()

    @property
    def in_flight(self) -> int:
        """Exchanges that have arrived and not ended."""
        return len(self._exchanges)

    async def idle(self) -> None:
        """Returns when no exchange is left."""
        await self._idle.wait()

    def cut(self) -> None:
        """Ends what is still running: the drain limit is reached."""
        for exchange in tuple(self._exchanges):
            exchange.guard.cancel(Draining("the proxy is shutting down"))

    async def aclose(self) -> None:
        """Closes idle connections to engines."""
        await self.relay.aclose()

    # --- the rooms, as exchanges know them ---

    def _build_rooms(self) -> Rooms:
        return Rooms(
            classify=_classify,
            authorize=self._authorize,
            buffers=_buffers,
            read=_read,
            count=self._count,
            prepare=self._prepare,
            timeouts=self._timeouts,
            tap=self._tap,
            reply=_reply,
            refuse=_refuse,
            settle=self._settle,
            publish=self._publish,
            fault=_fault,
        )

    def _authorize(self, client: Client, facts: RequestFacts) -> str | None:
        return None

    async def _count(self, engine: Engine, facts: RequestFacts) -> TokenCount | None:
        return None

    def _prepare(self, engine: Engine, facts: RequestFacts, client: Client, id: str, body: Body) -> Request:
        spliced = None
        if (
            self.settings.ask_usage
            and engine.bears_splice
            and isinstance(body, bytes)
            and usage.asks(engine.kind, facts)
        ):
            spliced = usage.ask_usage(facts, body)
        outgoing = headers.to_engine(
            client.headers,
            authority=engine.authority,
            request_id=id,
            identity=facts.route == "inference",
            key=engine.key,
        )
        if spliced is None:
            return Request(outgoing, body)
        assert isinstance(body, bytes)
        return Request(outgoing, spliced, own=body, filter=usage.UsageFilter())

    def _timeouts(self, facts: RequestFacts) -> Timeouts:
        limits = self.settings.timeouts
        # A pull or a create works for minutes between two lines: the limits are made for answers.
        return Timeouts(connect_s=limits.connect_s, first_byte_s=0, idle_s=0) if facts.route == "manage" else limits

    def _tap(self, answer: Answer, facts: RequestFacts, recorder: Recorder) -> tuple[Tap, bool]:
        content_type = _header(answer.headers, b"content-type")
        framing = framing_for(content_type, self.settings.event_limit_bytes)
        reader = reader_for(facts, content_type, answer.status)
        return Tap(recorder, framing, reader, _header(answer.headers, b"content-encoding")), streams(content_type)

    def _settle(self, engine: Engine, facts: RequestFacts, finished: Finished) -> Finished:
        return finished

    def state(self) -> Pulse:
        """The data process at this moment, for the office."""
        return Pulse(
            at_s=self.clock.wall_s(),
            in_flight=self.in_flight,
            engines=tuple(_state(engine) for engine in self.fleet.engines),
            draining=self.draining,
        )


def _classify(method: str, path: str) -> RequestFacts:
    route = classify(method, path)
    return RequestFacts(route.dialect, route.kind, route.route)


def _read(facts: RequestFacts, content_type: str, body: bytes) -> RequestFacts:
    return read_facts(Route(facts.dialect, facts.kind, facts.route), content_type, body) if body else facts


def _buffers(facts: RequestFacts, content_type: str) -> bool:
    """Bodies that are read: those of inference, which are JSON whatever their type says (curl -d names none)."""
    kind = media_type(content_type)
    return facts.route == "inference" and not kind.startswith(("multipart/", "audio/", "image/", "application/octet"))


def _reply(answer: Answer, request: Request, id: str) -> Headers:
    return headers.to_client(answer.headers, request_id=id, resized=request.filter is not None)


def _refuse(error: ProxyError, facts: RequestFacts, client: Client, id: str) -> tuple[int, Headers, bytes]:
    status, ours, body = errors.render(facts.dialect, error)
    ours += [(headers.REQUEST_ID, id.encode("ascii")), (b"x-phasegate-outcome", error.outcome.encode("ascii"))]
    origin = client.header(b"origin")
    if origin is not None:
        # A page that may read the engine's answers may read why there is none.
        ours += [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
    return status, ours, body


def _fault(id: str, bug: BaseException) -> None:
    """A traceback without the exception's text, which may quote a prompt."""
    places = []
    trace = bug.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    log.error("proxy_fault", request=id, error=type(bug).__name__, at=" < ".join(reversed(places)))


def _header(pairs: Headers, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in pairs if key.lower() == name), "")


def _new_id() -> str:
    return uuid.uuid4().hex


def _state(engine: Engine) -> EngineState:
    return EngineState(
        name=engine.name,
        kind=engine.kind,
        version=engine.fingerprint.version,
        authority=engine.authority.decode("ascii"),
        answers=bool(engine.answers),
        models=tuple(engine.models),
        slots=engine.upstream.slots or engine.fingerprint.slots,
        in_flight=len(engine.inflight),
    )
