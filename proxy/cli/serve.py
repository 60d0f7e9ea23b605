"""`phasegate serve`: both processes, from the first look at the engines to the last record.

The data process (this one) relays; the office is its child. SIGTERM and SIGINT drain, and a second one cuts; SIGHUP
opens the record files anew.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec
import uvloop

from proxy.app import DataApp
from proxy.cli import USAGE
from proxy.cli.config import FILE, loaded
from proxy.cli.listener import Listener
from proxy.clock import SystemClock
from proxy.config import Settings, Upstream, masked, split_address
from proxy.fleet import Engine
from proxy.messages import Hello, Pulse
from proxy.office.channel import Sender
from proxy.office.logs import configure
from proxy.office.process import OfficeProcess
from proxy.pulse import beat, memory_bytes
from proxy.transport import Wire

USUAL = {11434: "Ollama", 8000: "vLLM", 8080: "llama.cpp", 30000: "SGLang"}
"""Where engines listen by default; looked at when no engine is configured."""

CUT_S = 2.0
"""How long exchanges that were cut may take to end; each needs one turn of the loop."""


@click.command()
@click.option("--upstream", multiple=True, metavar="URL", help="Engine; may be given several times.")
@click.option("--listen", metavar="HOST:PORT", help="What clients talk to.  [127.0.0.1:8800]")
@click.option("--admin", metavar="HOST:PORT", help="Metrics, health, records.  [127.0.0.1:8801]")
@click.option("--records", metavar="FILE.jsonl", help="Append one JSON line per request.")
@click.option("--store", metavar="FILE.db", help="Keep one SQLite row per request.")
@click.option("--config", "file", type=FILE, help="TOML file with every setting.")
@click.option("--quiet", is_flag=True, default=None, help="No line per request.")
def serve(
    upstream: tuple[str, ...],
    listen: str | None,
    admin: str | None,
    records: str | None,
    store: str | None,
    file: Path | None,
    quiet: bool | None,
) -> None:
    """Relay requests to engines and tell where their time goes."""
    engines = [{"url": url} for url in upstream] or None
    flags = {"upstream": engines, "listen": listen, "admin": admin, "records": records, "store": store, "quiet": quiet}
    settings = loaded(file, flags).settings
    configure(settings.log_level, as_json=settings.log_json)
    sys.exit(uvloop.run(Service(settings).run()))


class Service:
    """Everything that runs."""

    # State: its parts, and the wish to stop (`_stops` counts the signals).
    def __init__(self, settings: Settings) -> None:
        self._searching = not settings.upstream
        if self._searching:
            usual = tuple(Upstream(url=f"http://localhost:{port}") for port in USUAL)
            settings = msgspec.structs.replace(settings, upstream=usual)
        self._settings = settings
        self._sender = Sender(hello(settings))
        self._office = OfficeProcess(self._sender)
        self._app = DataApp(
            settings,
            clock=SystemClock(),
            transport=Wire(trust(settings.upstream)),
            send=self._sender.send,
            configured=not self._searching,
        )
        self._listener = Listener(self._app, *split_address(settings.listen, "listen"))
        self._stops = asyncio.Queue[None]()

    async def run(self) -> int:
        """Serves until told to stop. The exit code."""
        try:
            await self._listener.start()
        except OSError as error:
            click.echo(f"phasegate: cannot listen on {self._settings.listen}: {error.strerror or error}", err=True)
            return USAGE
        self._on_signals()
        office = asyncio.create_task(self._office.run())
        await self._app.lookout.look_at_all()
        click.echo("\n".join(self.banner()), err=True)
        tasks = [
            asyncio.create_task(self._app.lookout.watch()),
            asyncio.create_task(beat(SystemClock(), self._state, self._sender.send)),
        ]
        await self._stops.get()
        await self._drain()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._office.stop()
        await office
        return 0

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

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stops.put_nowait, None)
        loop.add_signal_handler(signal.SIGHUP, self._office.reopen)

    def _state(self) -> Pulse:
        return replace(
            self._app.state(),
            malformed=self._listener.malformed,
            frames_lost=self._sender.lost,
            memory_bytes=memory_bytes(),
        )

    def banner(self) -> Iterable[str]:
        """What was found, and what to export in the client."""
        data, engines = self._settings.listen, [engine for engine in self._app.fleet.engines if engine.answers]
        yield f"phasegate {version('phasegate')} listens on http://{data}, admin on http://{self._settings.admin}"
        for engine in engines:
            yield f"  {_engine_line(engine)}"
        silent = [engine for engine in self._app.fleet.engines if not engine.answers]
        if silent and (engines == [] or not self._searching):
            yield f"  no answer yet from {', '.join(map(_place, silent))}; looking again until there is"
        yield "  point clients here:"
        yield f"    OpenAI clients   export OPENAI_BASE_URL=http://{data}/v1"
        yield f"    Ollama clients   export OLLAMA_HOST=http://{data}"


def hello(settings: Settings) -> Hello:
    """What the office must know."""
    host, port = split_address(settings.admin, "admin")
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
    )


def trust(engines: Iterable[Upstream]) -> dict[str, str]:
    """CA files by authority."""
    return {urlsplit(engine.url).netloc: engine.ca_file for engine in engines if engine.ca_file}


def _engine_line(engine: Engine) -> str:
    found, models = engine.fingerprint, engine.models
    listed = ", ".join(models[:4]) + (f" and {len(models) - 4} more" if len(models) > 4 else "")
    return f"{engine.name}  {found.kind} {found.version or ''}  {listed}".rstrip()


def _place(engine: Engine) -> str:
    usual = USUAL.get(engine.url.port or 0)
    return f"{engine.name} ({usual})" if usual and not engine.configured else engine.name
