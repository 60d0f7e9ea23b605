"""The admin listener: metrics, health, JSON for every panel, and the wish to reload. Whatever happens here, traffic
goes on."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
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


def create(
    office: Office,
    exposition: Exposition,
    guard: Guard,
    config: Callable[[], bytes],
    panels: Mapping[str, Panel],
    details: Details = lambda engine: {},
    reload: Callable[[], None] = lambda: None,
) -> ASGIApp:
    """The listener's application. `config` gives JSON with its secrets masked; `reload` passes the wish on."""
    pages = _Pages(office, exposition, config, panels, details, reload)
    routes = [
        Route("/", pages.index),
        Route("/metrics", pages.metrics),
        Route("/healthz", pages.healthz),
        Route("/readyz", pages.readyz),
        Route("/api/requests", pages.requests),
        Route("/api/engines", pages.engines),
        Route("/api/config", pages.config),
        Route("/api/reload", pages.reload, methods=["GET", "POST"]),
        *(Route(f"/api/{name}", pages.panel) for name in panels),
    ]
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

    def __init__(
        self,
        office: Office,
        exposition: Exposition,
        config: Callable[[], bytes],
        panels: Mapping[str, Panel],
        details: Details,
        reload: Callable[[], None],
    ) -> None:
        self._office = office
        self._exposition = exposition
        self._config = config
        self._panels = panels
        self._details = details
        self._reload = reload
        self._turn = asyncio.Lock()

    async def index(self, request: Request) -> Response:
        names = ["metrics", "healthz", "readyz", "api/requests", "api/engines", "api/config", "api/reload"]
        paths = "\n".join(f"/{name}" for name in (*names, *(f"api/{name}" for name in self._panels)))
        return PlainTextResponse(f"phasegate\n\n{paths}\n")

    async def metrics(self, request: Request) -> Response:
        async with self._my_turn():
            body, content_type = self._exposition.render(request.headers.get("accept", ""))
            return Response(body, headers={"content-type": content_type})

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Ready while one engine answers, new work is taken, and the data process is heard of."""
        pulse = self._office.pulse
        engines = {engine.name: engine.answers for engine in pulse.engines}
        ready = any(engines.values()) and not pulse.draining and not self._office.silent
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
        engines = self._office.pulse.engines
        return _json([{**dataclasses.asdict(engine), **self._details(engine.name)} for engine in engines])

    async def config(self, request: Request) -> Response:
        return Response(self._config(), media_type="application/json")

    async def reload(self, request: Request) -> Response:
        """POST: limits and keys are read anew, files opened anew. GET: what became of the last time."""
        if request.method == "POST":
            self._reload()
            return JSONResponse({"asked": True, "outcome": "GET /api/reload, a second later"}, status_code=202)
        pulse = self._office.pulse
        return JSONResponse({"last": pulse.reloaded, "at": pulse.reloaded_s})

    async def panel(self, request: Request) -> Response:
        name = request.url.path.removeprefix("/api/")
        async with self._my_turn():
            return _json(self._panels[name]())

    @asynccontextmanager
    async def _my_turn(self) -> AsyncIterator[None]:
        async with self._turn:
            await asyncio.sleep(0)  # what has come meanwhile comes first
            yield

    def _matching(self, wanted: Mapping[str, str]) -> Iterator[RequestRecord]:
        for record in self._office.records():
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
