"""The admin listener: metrics, health, JSON for every panel, and the wish to reload. Whatever happens here, traffic
goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import islice

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.exporters.contract import to_dict
from proxy.exporters.prometheus import Exposition
from proxy.office.guard import Guard
from proxy.office.office import Office
from proxy.records import Outcome, RequestRecord

Details = Callable[[str], Mapping[str, object]]
"""What else is known of an engine, by its name."""

Panel = Callable[[], object]
"""What a panel shows, as plain values."""

LIMIT = 100
"""Records per answer, unless asked otherwise."""
LIMIT_DIGITS = 9
"""Of a limit that is asked for: far more than the office holds, far less than what a machine counts with."""

FILTERS: dict[str, Callable[[RequestRecord], str | None]] = {
    "id": lambda record: record.finished.id,
    "engine": lambda record: record.finished.engine,
    "model": lambda record: record.finished.facts.model,
    "kind": lambda record: record.finished.facts.kind,
    "route": lambda record: record.finished.facts.route,
    "tenant": lambda record: record.finished.tenant,
    "outcome": lambda record: record.finished.outcome.value,
    "family": lambda record: record.finished.prefix.family if record.finished.prefix is not None else None,
}
"""Query parameters of `/api/requests` beside `limit`; each is compared as a whole."""

CHOICES: dict[str, Sequence[str]] = {"outcome": tuple(Outcome), "route": ("inference", "read", "manage")}
"""Of parameters whose values are few: what a slip would find none of."""

NOWHERE = (
    "nothing is here: this is phasegate's admin listener, whose paths GET / lists; clients talk to the data listener "
    "(setting listen, 127.0.0.1:8800 by default)"
)
UNAUTHORIZED = 401

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Asked by probes, which know no token and call by the pod's address or any name; they tell nothing but up or down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Whom the pages ask."""

    office: Office
    exposition: Exposition
    config: Callable[[], bytes]
    """The settings as JSON, secrets masked."""
    panels: Mapping[str, Panel]
    details: Details = lambda engine: {}
    reload: Callable[[], None] = lambda: None
    """Passes the wish on."""


def create(sources: Sources, guard: Guard) -> ASGIApp:
    """The listener's application."""
    pages = _Pages(sources)
    routes = [
        Route("/metrics", pages.metrics),
        Route("/healthz", pages.healthz),
        Route("/readyz", pages.readyz),
        Route("/api/requests", pages.requests),
        Route("/api/engines", pages.engines),
        Route("/api/config", pages.config),
        Route("/api/reload", pages.reload, methods=["GET", "POST"]),
        *(Route(f"/api/{name}", pages.panel) for name in sources.panels),
    ]
    index = PlainTextResponse("phasegate\n\n" + "".join(f"{route.path}\n" for route in routes))
    routes.append(Route("/", index, methods=["GET"]))
    return _Guarded(Starlette(routes=routes, exception_handlers={HTTPException: _stray}), guard)


class _Guarded:
    """Lets in whom the guard lets in."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            refusal = self._guard.check(Headers(scope=scope))
            if refusal is not None:
                asks = {"www-authenticate": "Bearer"} if refusal.status == UNAUTHORIZED else None  # RFC 9110 11.6.1
                await PlainTextResponse(refusal.reason + "\n", refusal.status, asks)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class _Pages:
    """The answers. Those that take milliseconds to make take turns, one in each turn of the loop: whoever asks for many
    at once makes no health check wait for more than one of them.

    State: whose turn it is.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._turn = asyncio.Lock()

    async def metrics(self, request: Request) -> Response:
        async with self._my_turn():
            body, content_type = self._sources.exposition.render(request.headers.get("accept", ""))
            return Response(body, headers={"content-type": content_type})

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Ready while one engine answers, new work is taken, and the data process is heard of."""
        pulse = self._sources.office.pulse
        engines = {engine.name: engine.answers for engine in pulse.engines}
        ready = any(engines.values()) and not pulse.draining and not self._sources.office.silent
        return JSONResponse(
            {"ready": ready, "draining": pulse.draining, "engines": engines}, status_code=200 if ready else 503
        )

    async def requests(self, request: Request) -> Response:
        """Recent records, newest first, in the form of the contract."""
        if wrong := _wrong(request.query_params):
            return JSONResponse({"error": wrong, "parameters": ["limit", *FILTERS]}, status_code=400)
        wanted = dict(request.query_params)
        limit = wanted.pop("limit", str(LIMIT))
        async with self._my_turn():
            return _json([to_dict(record) for record in islice(self._matching(wanted), int(limit))])

    async def engines(self, request: Request) -> Response:
        """As the data process sees them; the engine's own figures and its means beside ours, where it has some."""
        engines = self._sources.office.pulse.engines
        return _json([{**asdict(engine), **self._sources.details(engine.name)} for engine in engines])

    async def config(self, request: Request) -> Response:
        return Response(self._sources.config(), media_type="application/json")

    async def reload(self, request: Request) -> Response:
        """POST: limits and keys are read anew, files opened anew. GET: what became of the last time."""
        if request.method == "POST":
            self._sources.reload()
            return JSONResponse({"asked": True, "outcome": "GET /api/reload, a second later"}, status_code=202)
        pulse = self._sources.office.pulse
        return JSONResponse({"last": pulse.reloaded, "at": pulse.reloaded_s})

    async def panel(self, request: Request) -> Response:
        name = request.url.path.removeprefix("/api/")
        async with self._my_turn():
            return _json(self._sources.panels[name]())

    @asynccontextmanager
    async def _my_turn(self) -> AsyncIterator[None]:
        async with self._turn:
            await asyncio.sleep(0)  # what has come meanwhile comes first
            yield

    def _matching(self, wanted: Mapping[str, str]) -> Iterator[RequestRecord]:
        for record in self._sources.office.records():
            if all(FILTERS[name](record) == value for name, value in wanted.items()):
                yield record


def _wrong(query: QueryParams) -> str:
    """What is wrong with a query for records; empty: nothing."""
    for name, value in query.multi_items():
        if name != "limit" and name not in FILTERS:
            return f"unknown parameter {name}"
        if len(query.getlist(name)) > 1:
            return f"{name} is given more than once"
        if name == "limit" and not (value.isascii() and value.isdigit() and len(value) <= LIMIT_DIGITS):
            return f"limit is a whole number of at most {LIMIT_DIGITS} digits"
        if value not in CHOICES.get(name, [value]):
            return f"{name} is one of {', '.join(CHOICES[name])}"
    return ""


async def _stray(request: Request, error: Exception) -> Response:
    """The answer to whoever asks for what is not here, or in a way that it cannot be asked for."""
    assert isinstance(error, HTTPException)
    says = NOWHERE
    if error.headers is not None and (methods := error.headers.get("Allow")):
        says = f"this path is asked with {' or '.join(sorted(methods.split(', ')))}"
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": says}, error.status_code, error.headers)
    return PlainTextResponse(says + "\n", error.status_code, error.headers)


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
