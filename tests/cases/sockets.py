"""Steps over real sockets in real time: the product as shipped, its server in front, engines on ports of their own."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

from tests.cases.case import Case
from tests.cases.exposition import Exposition
from tests.cases.seen import Exchange
from tests.cases.shipped import Shipped
from tests.cases.stage import Played, Stage
from tests.support.client import Request, SocketClient
from tests.support.engine import SocketEngine
from tests.support.http1 import Body, Head, Messages, request_length
from tests.support.script import Call

LOCAL = "127.0.0.1"
SETTLE_S = 3.0
"""How long records may take to be there after the last answer."""
CLOSE_S = 2.0
"""How long the closing of a call may take to be seen by the engine after its client left."""


def impossible(case: Case) -> str | None:
    """Why this machine cannot play the case; None: it can."""
    if case.wall_jumps:
        return "the machine's wall clock is not ours to move"
    host = engine_address(case)
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
    except OSError as error:
        return f"this machine has no {host}: {error.strerror}"
    return None


def play(case: Case, folder: Path) -> Played:
    """The case from a fresh product."""
    return asyncio.run(SocketStage(case).run(folder))


def engine_address(case: Case) -> str:
    """Where engines listen: an IPv6 literal's address, else 127.0.0.1 alone."""
    host = case.config.get("engine_host", LOCAL)
    return host.strip("[]") if host.startswith("[") else LOCAL


class SocketStage(Stage):
    """Real time, real bytes."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        idle_ms = case.config.get("engine_idle_close_ms")
        idle_s = None if idle_ms is None else idle_ms / 1e3
        address, called = engine_address(case), case.config.get("engine_host")
        replicas = range(case.config.get("replicas", 1))
        self._engines = [SocketEngine(self.choose, host=address, called=called, idle_close_s=idle_s) for _ in replicas]
        self._raw: Exchange | None = None
        self._refusing = 0
        self._product: Shipped

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def until(self, when_ns: int) -> None:
        await asyncio.sleep(max(0.0, (when_ns - time.monotonic_ns()) / 1e9))

    async def exposition(self) -> Exposition:
        return await self._product.scrape()

    def authority(self) -> str:
        return self._engines[0].name

    async def run(self, folder: Path) -> Played:
        """The case, from starting the product to its end."""
        for engine in self._engines:
            await engine.start()
        self._product = Shipped(self.case, [f"http://{engine.name}" for engine in self._engines], folder)
        try:
            await self._product.start()
            prepared = self.prepare(f"{LOCAL}:{self._product.port}")
            before = self._product.memory_mark()
            await self.play(prepared)
            self.played.memory_growth_bytes = self._product.memory_peak() - before
            await self._settle()
            self.played.exposition = await self._product.quiet()
        finally:
            await self._product.stop()
            for engine in self._engines:
                await engine.stop()
        self.give_records(self._claims(), self._product.records)
        self.played.product = self._product
        return self.played

    async def speak(self, exchange: Exchange) -> None:
        step = exchange.step
        if step.script(self._came[step.index], exchange.i).ending != "refuse":
            await self._speak(exchange)
            return
        self._came[step.index] += 1
        async with self._refused():
            await self._speak(exchange)

    @contextlib.asynccontextmanager
    async def _refused(self) -> AsyncIterator[None]:
        """No engine listens meanwhile."""
        self._refusing += 1
        for engine in self._engines:
            await engine.stop()
        yield
        self._refusing -= 1
        for engine in () if self._refusing else self._engines:
            await engine.start()

    async def _speak(self, exchange: Exchange) -> None:
        client = SocketClient(LOCAL, self._product.port)
        if not exchange.step.raw:
            exchange.answers = [await client.ask(exchange.request)]
            return
        self._raw = exchange
        pieces = exchange.step.raw_pieces(exchange.i)
        requests = _requests(pieces)
        exchange.request = requests[-1]
        methods = tuple(request.method for request in requests)
        exchange.answers = await client.speak(pieces, methods, exchange.step.leaves_ns)
        # What follows a request that closes the connection is no request: nobody owes it an answer.
        while len(exchange.answers) > max(1, len(exchange.calls)) and exchange.answers[-1].head_ns is None:
            exchange.answers.pop()

    def _claims(self) -> Callable[[Exchange], list[str]]:
        """The ids of each exchange. A raw client that saw no answer, and whose request no engine saw, gets the first
        record that is nobody's."""
        known = {id for exchange in self.played.exchanges for id in _ids(exchange)}
        nobodys = [id for id in self._product.ids() if id not in known]

        def ids(exchange: Exchange) -> list[str]:
            own = _ids(exchange)
            return own if own or not nobodys else [nobodys.pop(0)]

        return ids

    def exchange_of(self, call: Call) -> Exchange | None:
        """A raw client's request has an id that the product made; the product's own look-ups have none."""
        known = super().exchange_of(call)
        return known or (self._raw if call.header("x-request-id") else None)

    async def _settle(self) -> None:
        """Until every exchange has its record, or time is up; then until engines have seen clients' leaving."""
        exchanges = self.played.exchanges
        wanted = sum(len(exchange.answers) for exchange in exchanges)
        await _until(lambda: len(self._product.ids()) >= wanted, SETTLE_S)
        left = [call for exchange in exchanges if exchange.answers[-1].left_ns is not None for call in exchange.calls]
        await _until(lambda: all(call.closed_ns is not None for call in left), CLOSE_S)


async def _until(holds: Callable[[], bool], limit_s: float) -> None:
    """Look every 50 ms; what is looked at is another process's work, so nobody can tell us."""
    for _ in range(round(limit_s / 0.05)):
        if holds():
            return
        await asyncio.sleep(0.05)


def _requests(pieces: tuple[tuple[int, bytes, bool], ...]) -> list[Request]:
    """The requests that a raw client sends; what is no HTTP counts as one GET."""
    requests: list[Request] = []
    try:
        events = Messages(request_length).feed(b"".join(data for _, data, _ in pieces))
    except ValueError:
        events = []
    for event in events:
        if isinstance(event, Head):
            requests.append(Request(event.start[0], event.start[1], tuple(event.headers)))
        elif isinstance(event, Body):
            requests[-1] = replace(requests[-1], pieces=((0, requests[-1].body + event.data),))
    return requests or [Request("GET")]


def _ids(exchange: Exchange) -> list[str]:
    """The exchange's id, or those that a raw client's requests were given, as answers and engines show them."""
    if not exchange.step.raw:
        return [exchange.id]
    answers = (value for answer in exchange.answers for name, value in answer.headers if name == "x-request-id")
    calls = (call.header("x-request-id") or "" for call in exchange.calls)
    return list(dict.fromkeys((*answers, *calls)))
