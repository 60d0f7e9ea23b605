"""The office as a process: everything put together, and one loop around it.

It lives as long as its end of the socketpair: when that closes it settles what waits, writes, and ends.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

import httpx
from starlette.types import ASGIApp

from proxy.attribution.ladder import attribute
from proxy.clock import Clock, SystemClock
from proxy.errors import ProxyError
from proxy.exporters.books import BooksExporter
from proxy.exporters.carry import dump, load
from proxy.exporters.exporter import Exporter
from proxy.exporters.jsonl import JsonlExporter
from proxy.exporters.prometheus import Exposition, Says, silent
from proxy.exporters.series import Series
from proxy.exporters.sqlite import SqliteExporter
from proxy.interpreter import calm
from proxy.messages import EngineAddress, Hello, Message, PromptSeen
from proxy.office import app, logs
from proxy.office.channel import Receiver
from proxy.office.guard import Guard
from proxy.office.listener import answer, listen
from proxy.office.live import LiveExporter, missing
from proxy.office.memory import Memory
from proxy.office.office import NOTHING, Office
from proxy.office.outlet import Outlet
from proxy.office.research import Research
from proxy.office.scrape import Fetch, Scraper
from proxy.office.trends import trends
from proxy.office.windows import nowhere
from proxy.records import Finished
from proxy.relay import Relay
from proxy.transport import Wire, trust

TICK_S = 0.5
"""Between two ticks: a record is in its file after half a second."""

WISH_S = 0.2
"""From a wish to reload to the reading, which holds up the data process for some milliseconds (6 with 1,000 keys)."""

SCRAPE_S = 2.0
"""For one look at an engine's metrics; one in the middle of a long batch answers late."""


def main(fd: int, memory_fd: int) -> None:
    """Runs the office on an inherited socket until the other end closes; goes on from what `memory_fd` holds."""
    for name in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group; the keeper says when it is over
        signal.signal(name, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there are files to reopen
    calm()
    asyncio.run(serve(socket.socket(fileno=fd), Memory(memory_fd), SystemClock()))


async def serve(end: socket.socket, memory: Memory, clock: Clock) -> None:
    """Takes messages until the data process closes its end; the first one is `Hello`."""
    with end:
        batches = Receiver(end).batches()
        first: list[Message] = await anext(batches, [])
        if first and isinstance(first[0], Hello):
            outlet = logs.to_stderr(first[0].log_level, as_json=first[0].log_json, clock=clock)
            try:
                await _Desk(first[0], memory, clock).work(first, batches)
            finally:
                outlet.close(logs.FLUSH_S)


class _Desk:
    """The office at work. State: its parts, the latest `Hello`, and a wish to reload that is about to be passed on."""

    def __init__(self, hello: Hello, memory: Memory, clock: Clock) -> None:
        self._hello = hello
        self._wish: asyncio.TimerHandle | None = None
        self._memory = memory
        self._clock = clock
        self._series = Series(models=hello.models, tenants=hello.tenants)
        saved = memory.load()
        former = {} if saved is None else load(self._series, saved)
        self._relay = Relay(Wire(trust(hello.engines)))
        store = store_of(hello)
        self._scraper = Scraper(fetcher(hello.engines, self._relay), nowhere if store is None else store.keep)
        self._books, self._since_s = BooksExporter(), clock.wall_s()
        self._research = Research(hello.audit_key, hello.capture_text)
        beside: dict[str, Exporter] = {"scrape": self._scraper, "books": self._books, "research": self._research}
        self._office, self._exposition = build(hello, self._series, store, beside, self._scraper.inside, former)

    async def work(self, first: list[Message], batches: AsyncIterator[list[Message]]) -> None:
        """Takes everything that comes, and does the rest beside it. When one of them is over all are, and it writes:
        the data process has closed its end, or there is a bug, and a new office is worth more than the rest of this.
        """
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._office.reopen)
        parts = {
            "take": self._take_all(first, batches),
            "tick": self._tick(),
            "research": self._research.run(self._clock, self._office.guarding),
        }
        listener = listen(self._hello.admin_host, self._hello.admin_port)
        if listener is not None:
            parts["admin"] = answer(self._admin(), listener)
        if self._hello.scrape_s:
            parts["scrape"] = self._scrape(self._hello.scrape_s)
        tasks = [asyncio.create_task(part, name=name) for name, part in parts.items()]
        for task in tasks:
            task.add_done_callback(logs.died)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._relay.aclose()
            self._office.close()

    async def _take_all(self, first: list[Message], batches: AsyncIterator[list[Message]]) -> None:
        self._take(first)
        async for batch in batches:
            self._take(batch)

    def _take(self, batch: list[Message]) -> None:
        for message in batch:
            if isinstance(message, Hello):
                self._hello = message  # limits and keys were read anew: `/api/config` shows them
            elif isinstance(message, PromptSeen):
                self._office.guarded("research", self._research.take, message)
            else:
                known = self._research.named(message) if isinstance(message, Finished) else message
                self._office.take(known, self._clock.now_ns())
        self._save()

    def _save(self) -> None:
        self._memory.save(dump(self._series, self._office.owed()))

    def _admin(self) -> ASGIApp:
        guard = Guard.of(self._hello.admin_host, self._hello.admin_token, self._hello.admin_hosts)
        panels: dict[str, app.Panel] = {
            "findings": lambda: trends(self._office.records()),
            "admission": lambda: json.loads(self._office.pulse.admission),
            "prefixes": lambda: {"since": self._since_s, **self._books.report(), **self._research.report},
        }
        sources = app.Sources(
            office=self._office,
            exposition=self._exposition,
            config=lambda: self._hello.config.encode(),
            panels=panels,
            details=self._scraper.details,
            reload=self._ask_reload,
        )
        return app.create(sources, guard)

    def _ask_reload(self) -> None:
        """Passes the wish on; those that come in a crowd are one."""
        if self._wish is None:
            self._wish = asyncio.get_running_loop().call_later(WISH_S, self._pass_on)

    def _pass_on(self) -> None:
        self._wish = None
        os.kill(self._hello.pid, signal.SIGHUP)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._office.tick(self._clock.now_ns())
            self._save()

    async def _scrape(self, every_s: float) -> None:
        while True:
            with self._office.guarding("scrape"):
                await self._scraper.look(self._office.pulse.engines, self._clock.now_ns(), self._clock.wall_s())
            await asyncio.sleep(every_s)


def store_of(hello: Hello) -> SqliteExporter | None:
    """The store, where one was asked for."""
    if not hello.store:
        return None
    return SqliteExporter(Path(hello.store), days=hello.store_days, megabytes=hello.store_mb)


def build(
    hello: Hello,
    series: Series,
    store: SqliteExporter | None,
    also: Mapping[str, Exporter],
    inside: Says = silent,
    former: Mapping[str, int] = NOTHING,
) -> tuple[Office, Exposition]:
    """The office with these exporters and those that were asked for, and its metrics. `inside`: what engines say of
    themselves; `former`: records that earlier offices lost."""
    exporters: dict[str, Exporter] = {"prometheus": series, **also}
    if hello.records:
        exporters["records"] = JsonlExporter(Path(hello.records))
    if store is not None:
        exporters["store"] = store
    if hello.live:
        exporters["live"] = LiveExporter(Outlet.of(sys.stdout, missing), lambda: len(office.pulse.engines) > 1)
    office = Office(attribute, exporters, pulsed=series.pulse, former=former)
    return office, Exposition(series, lambda: office.pulse, office.lost, office.failures, inside, office.waiting)


def fetcher(engines: Iterable[EngineAddress], relay: Relay) -> Fetch:
    """How the scraper asks engines: with their keys, within SCRAPE_S; a failure of any kind is no page."""
    places = {engine.name: engine for engine in engines}

    async def fetch(name: str, target: str) -> bytes | None:
        engine = places.get(name)
        if engine is None:
            return None
        key = [(b"authorization", b"Bearer " + engine.api_key.encode())] if engine.api_key else []
        try:
            status, _, body = await relay.fetch(httpx.URL(engine.url), target, SCRAPE_S, key)
        except ProxyError:
            return None
        return body if status == 200 else None

    return fetch
