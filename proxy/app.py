"""The composition root of the data process: builds the rooms and hands them to exchanges.

`DataApp` is a raw ASGI application: no middleware, no router, and nothing of ours lives on the data listener.
"""

import asyncio
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import structlog

from proxy import headers
from proxy.admission.door import Door
from proxy.admission.limits import Limits
from proxy.auditing import Auditing
from proxy.client import Client, Receive, Scope, Send
from proxy.clock import Clock
from proxy.config import Settings
from proxy.counting import Desks
from proxy.engine import Engine
from proxy.errors import Draining
from proxy.exchange import Exchange
from proxy.fleet import Fleet
from proxy.household import Household
from proxy.lookout import Lookout, look
from proxy.memory import keep, recall, spell
from proxy.messages import EngineState, Message, Pulse
from proxy.parting import ASK_S, Parting
from proxy.parts import Desk
from proxy.policy import reloaded, rules, tenants
from proxy.relay import Relay
from proxy.together import Together
from proxy.tokens.exact import Question

log = structlog.get_logger("phasegate")


class DataApp:
    """What clients talk to."""

    # State: the rules and the tenants in force, the exchanges that have arrived and not ended, the key of the next, who
    # waits for the last of them, records that wait for a look at their engine, and whether the proxy is going away.
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
        self.draining = False
        self.door = Door(clock, Limits(rules(settings)))
        self._desks = Desks(settings.tokens, spells=settings.prefixes.asks_ids)
        self.auditing = Auditing(settings.prefixes, self._desks.encode, self._desks.executor)
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="phasegate-keep")  # the last word is written last
        self._relay = Relay(transport)
        self._send = send
        engines = [
            Engine(upstream, self._relay, self.door.at, self._desk, configured) for upstream in settings.upstream
        ]
        self.fleet = Fleet(engines, Together(engines), look)
        self.lookout = Lookout(self.fleet, _tell)
        for engine in engines:
            engine.on_trouble = self.lookout.trouble
            engine.on_change = self.auditing.attach
            self.auditing.attach(engine)
        self._exchanges: set[Exchange] = set()
        self._keys = map(str, count())
        self._idle = asyncio.Event()
        self._idle.set()
        self._parting = Parting(self.auditing, send, _fault)
        self._household = Household(settings, tenants(settings), self.door, self.auditing, clock.now_ns)
        self._rooms = self._household.rooms(self._parting, _fault)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        client = Client(scope, receive, send)
        id = headers.request_id(client.headers, _new_id)
        exchange = Exchange(
            self._rooms, self.fleet, self.clock, client, id, self.settings.body_limit_bytes, next(self._keys)
        )
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
        """Exchanges that have arrived and not ended; one whose body is still on its way has not arrived."""
        return sum(exchange.arrived for exchange in self._exchanges)

    async def idle(self) -> None:
        """Returns when no exchange is left, and every record has left."""
        await self._idle.wait()
        await self._parting.idle()

    def cut(self) -> None:
        """Ends what is still running: the drain limit is reached."""
        for exchange in tuple(self._exchanges):
            exchange.guard.cancel(Draining("the proxy is shutting down"))

    async def aclose(self) -> None:
        """Closes idle connections to engines."""
        await self._relay.aclose()

    def reload(self, settings: Settings) -> None:
        """Other limits and keys from now on, and nothing else; what runs goes on. Raises ConfigError and changes
        nothing."""
        ruled, known = rules(settings), tenants(settings)
        self.settings, self._household.tenants = reloaded(self.settings, settings), known
        self.door.replace(ruled)

    def remember(self) -> None:
        """Go on from what the last process kept (`state`), as far as it can be read."""
        kept = recall(Path(self.settings.state)) if self.settings.state else {}
        odd = self._restore(kept) if kept is not None else 1
        if odd:
            log.warning("state_odd", file=self.settings.state, left_out=odd)

    def _restore(self, kept: dict[str, Any]) -> int:
        """How many things in it were odd, and left out."""
        counting = kept.get("counting", {})
        odd = self.door.limits.restore(kept.get("limits", {}))
        if not isinstance(counting, dict):
            return odd + 1
        return odd + sum(engine.desk.restore(counting.get(engine.name, {})) for engine in self.fleet.engines)

    async def keep(self) -> None:
        """Keep what must outlive a restart; the file is written off the loop. Raises OSError."""
        if self.settings.state:
            counting = {engine.name: engine.desk.to_dict() for engine in self.fleet.engines}
            text = await spell({"v": 1, "limits": {"budgets": self.door.limits.kept()}, "counting": counting})
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._keeper, keep, Path(self.settings.state), text)

    def state(self) -> Pulse:
        """The data process at this moment, for the office."""
        return Pulse(
            at_s=self.clock.wall_s(),
            in_flight=self.in_flight,
            engines=tuple(_state(engine) for engine in self.fleet.present),
            draining=self.draining,
            admission=json.dumps(self._admission()),
        )

    def _admission(self) -> dict[str, Any]:
        counting = {engine.name: engine.desk.snapshot() for engine in self.fleet.present}
        return {**self.door.snapshot(), "counting": counting}

    # --- what is built once ---

    def _desk(self, engine: Engine) -> Desk:
        return self._desks.desk(partial(_asked, engine), engine.known)


async def _asked(engine: Engine, question: Question) -> bytes | None:
    answer = await engine.fetch(question.target, ASK_S, body=question.body)
    return answer[2] if answer is not None and answer[0] == 200 else None


def _tell(engine: Engine) -> None:
    if engine.answers:
        found, models = engine.fingerprint, ", ".join(engine.models[:4])
        log.info("engine_answers", engine=engine.name, kind=engine.kind, version=found.version, models=models)
        if found.barred:
            log.warning("engine_wants_key", engine=engine.name, setting="upstream.api_key")
    else:
        log.warning("engine_silent", engine=engine.name, reason=engine.complaint)


def _fault(id: str, bug: BaseException) -> None:
    """A traceback without the exception's text, which may quote a prompt."""
    places = []
    trace = bug.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    log.error("proxy_fault", request=id, error=type(bug).__name__, at=" < ".join(reversed(places)))


def _new_id() -> str:
    """32 hexadecimal digits, as a W3C trace id has. It names a request and keeps no secret: `random` will do, and does
    not ask the operating system each time."""
    return f"{random.getrandbits(128):032x}"


def _state(engine: Engine) -> EngineState:
    return EngineState(
        name=engine.name,
        kind=engine.kind,
        version=engine.fingerprint.version,
        authority=engine.authority.decode("ascii"),
        answers=bool(engine.answers),
        models=tuple(engine.models),
        slots=engine.upstream.slots or engine.fingerprint.slots,
        in_flight=len(engine.inflight) - engine.door.waiting,
        queued=engine.door.waiting,
    )
