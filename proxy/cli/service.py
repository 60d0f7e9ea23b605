"""Both processes at work, from the first look at the engines to the last record.

The data process (this one) relays; the office is its child. SIGTERM and SIGINT drain, and a second one cuts; SIGHUP
reads limits and keys anew and opens the record files anew.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.metadata import version

import msgspec
import structlog

from proxy.app import DataApp
from proxy.cli import USAGE
from proxy.cli.footing import claim, near, ourselves, unclaimed
from proxy.cli.listener import Listener
from proxy.clock import SystemClock
from proxy.config import Settings, Upstream, masked
from proxy.engine import Engine
from proxy.flaws import ConfigError
from proxy.grammar import split_address
from proxy.messages import EngineAddress, Hello, Pulse
from proxy.office.channel import Sender
from proxy.office.logs import died
from proxy.office.process import OfficeProcess
from proxy.plain import printable
from proxy.policy import deferred
from proxy.pulse import beat, memory_bytes
from proxy.transport import Wire, trust

USUAL = {11434: "Ollama", 8000: "vLLM", 8080: "llama.cpp", 30000: "SGLang"}
"""Where engines listen by default; looked at when no engine is configured."""

CLIENTS = (
    (
        frozenset({"openai", "vllm", "sglang", "llamacpp", "ollama"}),
        "OpenAI clients      export OPENAI_BASE_URL=http://{}/v1",
    ),
    (frozenset({"ollama", "vllm", "llamacpp"}), "Anthropic clients   export ANTHROPIC_BASE_URL=http://{}"),
    (frozenset({"ollama"}), "Ollama clients      export OLLAMA_HOST=http://{}"),
)
"""Kinds of engines, and how clients are pointed to them; each is said too while no engine was found."""

CUT_S = 2.0
"""How long exchanges that were cut may take to end; each needs one turn of the loop."""

KEEP_S = 30.0
"""Between two writings of what outlives a restart: what a crash may lose of a budget."""

log = structlog.get_logger("phasegate")


class Service:
    """Everything that runs. `reread` gives the settings anew; it raises ConfigError where they cannot stand. `say`
    takes lines for whoever started us, and never waits for them to be read.

    Raises ConfigError for settings that name files which cannot be read.
    """

    # State: its parts, the settings as they were given, whether engines are looked for, the wishes to stop (one for
    # each signal), and what became of the last reload.
    def __init__(self, settings: Settings, reread: Callable[[], Settings], say: Callable[[str], None]) -> None:
        self._reread = reread
        self._say = say
        self._given = settings
        self._searching = not settings.upstream
        if self._searching:
            usual = [f"http://localhost:{port}" for port in USUAL]
            mine = (settings.listen, settings.admin)
            found = tuple(Upstream(url=url) for url in usual if not any(ourselves(url, one) for one in mine))
            settings = msgspec.structs.replace(settings, upstream=found)
        self._settings = settings
        self._app = DataApp(
            settings,
            clock=SystemClock(),
            transport=Wire(trust(settings.upstream)),
            send=lambda message: self._sender.send(message),
            configured=not self._searching,
        )
        self._sender = Sender(hello(settings, self._app.auditing.secret))
        self._office = OfficeProcess(self._sender)
        self._listener = Listener(self._app, *split_address(settings.listen))
        self._stops = asyncio.Queue[None]()
        self._reloaded: tuple[str, float] | tuple[None, None] = (None, None)

    async def run(self) -> int:
        """Serves until told to stop. The exit code."""
        self._app.remember()
        if not await self._listen():
            return USAGE
        self._on_signals()
        office = asyncio.create_task(self._office.run(), name="office")
        await self._app.lookout.look_at_all()
        self._say("\n".join(map(printable, self.banner())))  # an engine says its version and its models
        tasks = [
            asyncio.create_task(self._app.lookout.watch(), name="lookout"),
            asyncio.create_task(beat(SystemClock(), self._state, self._sender.send), name="pulse"),
            asyncio.create_task(self._keep(), name="keep"),
        ]
        for task in (office, *tasks):
            task.add_done_callback(died)
        await self._stops.get()
        log.info("draining", in_flight=self._app.in_flight)
        await self._drain()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._write_state()
        await self._office.stop()
        await asyncio.wait((office,))
        return 0

    async def _listen(self) -> bool:
        """Whether both addresses can be had; the office, which is yet to start, finds its own free."""
        key, address = "listen", self._settings.listen
        try:
            await self._listener.start()
            key, address = "admin", self._settings.admin
            claim(address)  # after ours is bound: the two may overlap without being the same
        except OSError as error:
            self._say(
                f"phasegate: {key}: cannot listen on {address}: {unclaimed(error)}; --{key} gives another address"
            )
            self._listener.stop_accepting()
            return False
        return True

    async def _drain(self) -> None:
        """Not ready at once; running streams may finish; what is left is cut."""
        self._app.draining = True
        self._sender.send(self._state())
        self._listener.stop_accepting()
        limit = self._settings.timeouts.drain_s
        ended, again = asyncio.ensure_future(self._app.idle()), asyncio.ensure_future(self._stops.get())
        await asyncio.wait((ended, again), timeout=limit or None, return_when=asyncio.FIRST_COMPLETED)
        self._app.cut()
        await asyncio.wait((ended,), timeout=CUT_S)
        again.cancel()
        ended.cancel()
        self._listener.abort()
        await self._app.aclose()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEEP_S)
            await self._write_state()

    async def _write_state(self) -> None:
        try:
            await self._app.keep()
        except OSError as error:
            log.error("state_not_kept", file=self._settings.state, error=error.strerror)

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stops.put_nowait, None)
        loop.add_signal_handler(signal.SIGHUP, self._reload)

    def _reload(self) -> None:
        """Limits and keys anew, files anew. Settings that cannot stand are refused whole: the old ones stay."""
        self._office.reopen()
        try:
            settings = self._reread()
            self._app.reload(settings)
            self._settings = self._app.settings
            self._sender.greet(hello(self._settings, self._app.auditing.secret))
        except ConfigError as error:
            last = str(error)
            log.error("reload_refused", reason=last)
        else:
            late = ", ".join(deferred(self._given, settings))
            last = f"ok, but for what needs a restart: {late}" if late else "ok"
            tell = log.warning if late else log.info
            tell("reloaded", limits=len(settings.limit), scope="limits and keys alone", needs_restart=late or "nothing")
        self._reloaded = last, SystemClock().wall_s()
        self._sender.send(self._state())  # who asked for it looks now

    def _state(self) -> Pulse:
        return replace(
            self._app.state(),
            malformed=self._listener.malformed,
            records_lost=self._sender.lost,
            memory_bytes=memory_bytes(),
            reloaded=self._reloaded[0],
            reloaded_s=self._reloaded[1],
        )

    def banner(self) -> Iterable[str]:
        """What was found, and what to export in the client."""
        engines = [engine for engine in self._app.fleet.engines if engine.answers]
        data, admin = self._settings.listen, self._settings.admin
        for _, port in self._listener.addresses[:1]:  # where a free one was asked for
            data = f"{data.rpartition(':')[0]}:{port}"
        yield f"phasegate {version('phasegate')} listens on {_site(data)}, admin on {_site(admin)}"
        for engine in engines:
            yield f"  {_engine_line(engine)}"
        for engine in engines:
            if engine.fingerprint.barred:
                key = "refuses its upstream.api_key" if engine.key else "wants a key: set upstream.api_key"
                yield f"  {_place(engine)} {key}; until then its slots, models and version may be unknown"
        for engine in self._app.fleet.engines:
            if engine.stranger:
                yield f"  {engine.name} lists no models: not used; if it is an engine, --upstream {engine.upstream.url}"
        silent = [engine for engine in self._app.fleet.engines if not (engine.answers or engine.stranger)]
        if silent and not (engines and self._searching):
            yield f"  no answer yet from {', '.join(map(_place, silent))}; looking again until one comes"
            yield from (f"    {engine.complaint}" for engine in silent if engine.counts and engine.complaint)
        yield "  point clients here:"
        kinds = {engine.kind for engine in engines}
        here, family = near(data)
        yield from (f"    {line.format(here)}" for fitting, line in CLIENTS if not kinds or kinds & fitting)
        if family:
            yield f"    on other machines   this one's name or address in place of {here.rpartition(':')[0]}"


def hello(settings: Settings, audit_key: bytes) -> Hello:
    """What the office must know."""
    host, port = split_address(settings.admin)
    return Hello(
        pid=os.getpid(),
        version=version("phasegate"),
        config=json.dumps(masked(settings)),
        admin_host=host,
        admin_port=port,
        admin_token=settings.admin_token,
        admin_hosts=settings.admin_hosts,
        records=settings.records,
        store=settings.store,
        store_days=settings.store_days,
        store_mb=settings.store_mb,
        models=settings.metrics.models,
        tenants=settings.metrics.tenants,
        live=not settings.quiet,
        log_level=settings.log_level,
        log_json=settings.log_json,
        engines=tuple(
            EngineAddress(name=engine.label, url=engine.url, api_key=engine.api_key, ca_file=engine.ca_file)
            for engine in settings.upstream
        ),
        scrape_s=settings.scrape_s,
        audit_key=audit_key,
        capture_text=settings.prefixes.capture_text,
    )


def _site(address: str) -> str:
    here, family = near(address)
    return f"http://{here}" + (f" and all other {family} addresses" if family else "")


def _engine_line(engine: Engine) -> str:
    found, models = engine.fingerprint, engine.models
    listed = ", ".join(models[:4]) + (f" and {len(models) - 4} more" if len(models) > 4 else "")
    return f"{engine.name}  {found.kind} {found.version or ''}  {listed}".rstrip()


def _place(engine: Engine) -> str:
    usual = USUAL.get(engine.url.port or 0)
    return f"{engine.name} ({usual})" if usual and not engine.counts else engine.name
