"""The steps of a case, played in virtual time. `sockets` plays them in real time over the same order of things."""

import asyncio
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.cases.case import Case, Step
from tests.cases.exposition import Exposition
from tests.cases.inprocess import InProcess, engine_urls
from tests.cases.product import Product
from tests.cases.seen import Exchange, Record
from tests.support.client import Request, ScriptedClient
from tests.support.clock import CLIENT, WALL, VirtualLoop
from tests.support.engine import ScriptedEngine
from tests.support.script import NOT_FOUND, Call, Read, Script

SETTLE_NS = 120_000_000_000
"""What passes in virtual time between the last step and the checks after it."""


@dataclass(slots=True)
class Played:
    """All that a case has shown."""

    exchanges: list[Exchange] = field(default_factory=list)
    looks: dict[int, Exposition] = field(default_factory=dict)
    """The exposition at the time of steps without a client, by step."""
    exposition: Exposition = field(default_factory=Exposition)
    """After all."""
    memory_growth_bytes: int | None = None
    product: Product | None = None
    """Stopped, and still able to say what it knows."""


class Stage(ABC):
    """Plays steps in order, or at their times; how time passes and bytes travel is the subclass's."""

    def __init__(self, case: Case) -> None:
        # All state: exchanges by id (of those that share one, the latest), how many requests of a step came, the
        # engine's metrics, and what was seen.
        self.case = case
        self.played = Played()
        self._exchanges: dict[str, Exchange] = {}
        self._came = [0] * len(case.steps)
        self._metrics: dict[str, float] | None = None
        self._began_ns = 0

    # --- what differs ---

    @abstractmethod
    def now_ns(self) -> int:
        """The time, monotonic."""

    @abstractmethod
    async def until(self, when_ns: int) -> None:
        """Wait for a time."""

    @abstractmethod
    async def speak(self, exchange: Exchange) -> None:
        """Play the client's side of one exchange to its end."""

    @abstractmethod
    async def exposition(self) -> Exposition:
        """The product's metrics now."""

    @abstractmethod
    def authority(self) -> str:
        """host:port of the first engine."""

    # --- what does not ---

    def prepare(self, host: str) -> list[list[Exchange]]:
        """All exchanges of the case, requests built: what the script itself costs is not the product's."""
        return [[self._exchange(step, i, host) for i in range(step.repeat)] for step in self.case.steps]

    def _exchange(self, step: Step, i: int, host: str) -> Exchange:
        id = f"{self.case.id}-{step.index}-{i}"
        request = Request() if step.raw else step.request(i, host, id)
        id = next((value for name, value in request.headers if name == "x-request-id"), id)
        return Exchange(id, step, i, request, engine=self.authority())

    async def play(self, prepared: list[list[Exchange]]) -> None:
        """All steps. A step starts at its time, or when the one before it has ended."""
        self._began_ns = self.now_ns()
        self.played.exchanges = [exchange for step in prepared for exchange in step]
        steps: list[asyncio.Task[None]] = []
        for step, exchanges in zip(self.case.steps, prepared, strict=True):
            steps.append(asyncio.create_task(self._step(step, exchanges, steps[-1] if steps else None)))
        await _all(steps)

    async def _step(self, step: Step, exchanges: list[Exchange], before: asyncio.Task[None] | None) -> None:
        if step.at_ns is not None:
            await self.until(self._began_ns + step.at_ns)
        elif before is not None:
            await asyncio.wait({before})
        if step.engine_metrics is not None:
            self._metrics = step.engine_metrics
        if "metrics" in step.check:
            self.played.looks[step.index] = await self.exposition()
        await self.repeat(step, exchanges)

    async def repeat(self, step: Step, exchanges: list[Exchange]) -> None:
        """The exchanges of a step, one after the other or so far apart."""
        if step.every_ns is None:
            for exchange in exchanges:
                await self._begin(exchange)
            return
        start_ns = self.now_ns()
        each = (self._later(start_ns + exchange.i * step.every_ns, exchange) for exchange in exchanges)
        await _all([asyncio.create_task(one) for one in each])

    async def _later(self, when_ns: int, exchange: Exchange) -> None:
        await self.until(when_ns)
        await self._begin(exchange)

    async def _begin(self, exchange: Exchange) -> None:
        self._exchanges[exchange.id] = exchange
        await self.speak(exchange)

    def give_records(self, ids: Callable[[Exchange], list[str]], records: Callable[[str], list[Record]]) -> None:
        """Each exchange gets its records. Where a case uses one id again, they come in the order of the exchanges."""
        left: dict[str, list[Record]] = {}
        for exchange in self.played.exchanges:
            for id in ids(exchange):
                waiting = left.setdefault(id, list(records(id)))
                last = self._exchanges.get(id) in (exchange, None)
                exchange.records += waiting if last else waiting[:1]
                del waiting[: len(waiting) if last else 1]

    def choose(self, call: Call) -> Script:
        """The engine's script for a request: its exchange's, or what a look-up of the product gets."""
        exchange = self.exchange_of(call)
        if exchange is None:
            return self._look_up(call)
        number = self._came[exchange.step.index]
        self._came[exchange.step.index] += 1
        script = exchange.step.script(number, exchange.i)
        if script.ending != "refuse":
            exchange.calls.append(call)
        return script

    def exchange_of(self, call: Call) -> Exchange | None:
        """Whose request this is; None: the product's own."""
        return self._exchanges.get(call.header("x-request-id") or "")

    def _look_up(self, call: Call) -> Script:
        if call.target != "/metrics" or self._metrics is None:
            return NOT_FOUND
        text = "".join(f"{name} {value}\n" for name, value in self._metrics.items())
        return Script(headers=(("content-type", "text/plain; version=0.0.4"),), reads=(Read(0, text.encode()),))


async def _all(tasks: list[asyncio.Task[None]]) -> None:
    """Wait for all; the first failure is raised, and ends the others."""
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


class VirtualStage(Stage):
    """Scripted transports, no sockets; time stands still while the product works."""

    def __init__(self, case: Case, loop: VirtualLoop, folder: Path) -> None:
        super().__init__(case)
        self._loop = loop
        self._engine = ScriptedEngine(loop, self.choose)
        self._product = InProcess(case, loop, self._engine, folder)
        self._client = ScriptedClient(loop, self._product.app)

    def now_ns(self) -> int:
        return self._loop.clock.now_ns()

    async def until(self, when_ns: int) -> None:
        await self._loop.until(when_ns, CLIENT)

    async def speak(self, exchange: Exchange) -> None:
        exchange.answers = [await self._client.ask(exchange.request)]

    async def exposition(self) -> Exposition:
        return self._product.exposition()

    def authority(self) -> str:
        return engine_urls(self.case)[0].removeprefix("http://")

    async def run(self) -> Played:
        """The case from a fresh product to the time of its last checks."""
        prepared = self.prepare("proxy.test")
        await self._product.start()
        for at_ns, by_s in self.case.wall_jumps:
            self._loop.at(self.now_ns() + at_ns, WALL, partial(self._loop.clock.jump_wall, by_s))
        if "memory_growth_bytes" in self.case.check:
            await self._weigh(prepared)
        else:
            await self.play(prepared)
        await self.until(self.now_ns() + SETTLE_NS)
        self.played.exposition = self._product.exposition()
        await self._product.stop()
        self.give_records(lambda exchange: [exchange.id], self._product.records)
        self.played.product = self._product
        return self.played

    async def _weigh(self, prepared: list[list[Exchange]]) -> None:
        """Play, and note the peak of memory above what was there; what the script keeps itself is taken off."""
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            await self.play(prepared)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        kept = sum(len(exchange.body) for exchange in self.played.exchanges)
        self.played.memory_growth_bytes = max(0, peak - before - kept)
