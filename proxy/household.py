"""The rooms as exchanges know them: what `rooms.Rooms` names, made of wire, tenants, counting and audit."""

from collections.abc import Callable, Sequence
from functools import partial

from proxy import headers
from proxy.admission.door import Door
from proxy.admission.tenants import Tenants
from proxy.auditing import Auditing
from proxy.client import Client, Headers
from proxy.config import Settings, Timeouts
from proxy.editing import Editing, askings
from proxy.engine import Engine
from proxy.errors import BadRequest, ProxyError
from proxy.parting import Parting
from proxy.parts import Permit
from proxy.reading import LONG_BODY, Reading
from proxy.records import NAME_CHARS, RequestFacts
from proxy.relay import Answer, Body
from proxy.rooms import Passage, Request, Rooms
from proxy.tap import HELD_READS, Hearing, Tap
from proxy.timeline import Recorder
from proxy.wire import errors, ids
from proxy.wire.asking import ask, wanted
from proxy.wire.caps import cap_output
from proxy.wire.dialects import reader_for
from proxy.wire.framing import framing_for, media_type, streams
from proxy.wire.listening import PromptIds
from proxy.wire.pieces import texts_of
from proxy.wire.request import read_facts
from proxy.wire.routes import NAMING, Route, classify

UPLOADS = ("audio", "image", "other")
"""Kinds of inference whose bodies may be files."""


class Household:
    """Makes the rooms of one data process. `tenants` may be replaced at any time."""

    def __init__(
        self, settings: Settings, tenants: Tenants, door: Door, auditing: Auditing, now_ns: Callable[[], int]
    ) -> None:
        self.tenants = tenants
        self._door = door
        self._auditing = auditing
        self._limits = settings.timeouts
        self._body_limit = settings.body_limit_bytes
        self._event_limit = settings.event_limit_bytes
        self._askings = askings(settings)
        self._reading = Reading()
        self._editing = Editing(now_ns, timing=settings.server_timing)

    def rooms(self, parting: Parting, fault: Callable[[str, BaseException], None]) -> Rooms:
        """All of them. `fault` is told of our own bugs."""
        return Rooms(
            classify=_classify,
            authorize=self._authorize,
            buffers=partial(_buffers, min(LONG_BODY, self._body_limit)),
            read=self._read,
            prepare=self._prepare,
            timeouts=self._timeouts,
            acquaint=self._acquaint,
            tap=self._tap,
            reply=self._reply,
            refuse=_refuse,
            send=parting.send,
            leave=parting.leave,
            fault=fault,
        )

    def _authorize(self, client: Client, facts: RequestFacts) -> str | None:
        # A browser asks leave before it may send a key (Fetch, 3.3.5): preflights have none.
        return None if client.preflight else self.tenants.authorize(client.headers, client.address, facts)

    async def _read(self, facts: RequestFacts, content_type: str, body: bytes) -> RequestFacts:
        return await self._reading.work(body, partial(_read, facts, content_type, body, self._door.looks_closely))

    async def _prepare(
        self, engine: Engine, facts: RequestFacts, client: Client, id: str, body: Body, permit: Permit
    ) -> Request:
        outgoing = headers.to_engine(
            client.headers,
            authority=engine.authority,
            request_id=id,
            identity=facts.route == "inference",
            key=engine.key,
            keyless=self.tenants.on,
        )
        if not isinstance(body, bytes):
            return Request(outgoing, body)
        asks = wanted(self._askings, engine.kind, facts) if engine.bears_splice else ()
        if permit.output_cap is None and not asks:
            return Request(outgoing, body)
        edited = partial(_edited, engine.kind, facts, outgoing, body, permit.output_cap, asks)
        return await self._reading.work(body, edited)

    def _timeouts(self, facts: RequestFacts) -> Timeouts:
        limits = self._limits
        # A pull or a create works for minutes between two lines: the limits are made for answers.
        if facts.route != "manage":
            return limits
        return Timeouts(body_s=limits.body_s, connect_s=limits.connect_s, first_byte_s=0, idle_s=0)

    async def _acquaint(self, engine: Engine, facts: RequestFacts, hearing: Hearing) -> Sequence[int] | None:
        if facts.prompt is None:
            return None
        spelling = hearing.news()
        if spelling and not ("token_ids" in self._askings and ids.asks(engine.kind, facts)):
            spelling = b""
        return await self._auditing.acquaint(engine, facts.prompt, spelling)

    def _tap(
        self, answer: Answer, asked: Sequence[str], facts: RequestFacts, recorder: Recorder, hearing: Hearing
    ) -> Passage:
        content_type = _header(answer.headers, b"content-type")
        framing = framing_for(content_type, self._event_limit)
        reader = reader_for(facts, content_type, answer.status)
        if "token_ids" in asked:
            reader = PromptIds(reader, hearing.spell)
        encoding = _header(answer.headers, b"content-encoding")
        hear = hearing.hear if facts.prompt is not None else None
        hold = 1 if self._editing.timing else HELD_READS  # what a stream's end tells its client must be known by then
        tap = Tap(recorder, framing, reader, encoding, hear, hold=hold, texts=texts_of(framing, reader))
        edit = self._editing.filter(asked, answer.status, content_type, encoding, facts, recorder)
        return Passage(tap, streams(content_type), edit)

    def _reply(self, answer: Answer, passage: Passage, recorder: Recorder, id: str, quota: Headers) -> Headers:
        if self._editing.timing and not passage.streamed:
            quota = [*quota, self._editing.header(recorder)]
        return headers.to_client(answer.headers, request_id=id, resized=passage.filter is not None, also=quota)


def _edited(
    kind: str, facts: RequestFacts, outgoing: Headers, body: bytes, cap: tuple[int, str] | None, asks: tuple[str, ...]
) -> Request:
    """The client's body under its limits, and asking for what it may be asked for beside the client."""
    own = body if cap is None else _capped(kind, facts, body, *cap)
    spliced, asked = ask(own, asks)
    return Request(outgoing, spliced, own if asked else None, asked)


def _capped(kind: str, facts: RequestFacts, body: bytes, tokens: int, rule: str) -> bytes:
    capped = cap_output(facts, body, tokens, kind)
    if capped is None:
        raise BadRequest(
            f"Rule {rule}: output tokens are limited to {tokens:,}, and that cannot be written into this body; ask on "
            "one of the usual routes, in plain JSON, and set `max_tokens`, or what the route calls it, once."
        )
    return capped


def _classify(method: str, path: str) -> RequestFacts:
    route = classify(method, path)
    return RequestFacts(*route, path=path[:NAME_CHARS]) if route.kind == "other" else RequestFacts(*route)


def _read(facts: RequestFacts, content_type: str, body: bytes, closely: bool) -> RequestFacts:
    if not body:
        return facts
    found = read_facts(Route(facts.dialect, facts.kind, facts.route), content_type, body, closely=closely)
    return found._replace(body_bytes=len(body) if facts.route == "inference" else 0, path=facts.path)


def _buffers(small: int, facts: RequestFacts, client: Client) -> bool:
    """Bodies that are read: those of inference, which are JSON whatever their type says (curl -d names none), save that
    audio, images and what nobody knows may be uploads. Of all others what names a model, up to `small` bytes."""
    if facts.route != "inference":
        named = facts.path.rstrip("/") in NAMING
        return named and 0 < headers.stated_length(client.header(b"content-length") or b"") <= small
    if facts.kind not in UPLOADS:
        return True
    type = media_type(_header(client.headers, b"content-type"))
    return not type.startswith(("multipart/", "audio/", "image/", "application/octet"))


def _refuse(
    error: ProxyError, facts: RequestFacts, client: Client, id: str, quota: Headers
) -> tuple[int, Headers, bytes]:
    status, ours, body = errors.render(facts.dialect, error)
    ours += [(headers.REQUEST_ID, id.encode("ascii")), (b"x-phasegate-outcome", error.outcome.encode("ascii")), *quota]
    origin = client.header(b"origin")
    if origin is not None:
        # A page that may read the engine's answers may read why there is none.
        ours += [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
    return status, ours, body


def _header(pairs: Headers, name: bytes) -> str:
    for key, value in pairs:
        if key.lower() == name:
            return value.decode("latin-1")
    return ""
