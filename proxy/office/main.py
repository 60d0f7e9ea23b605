"""The office as a process: everything put together, and one loop around it.

It lives as long as its end of the socketpair: when that closes it settles what waits, writes, and ends.
"""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import structlog
import uvicorn
from starlette.types import ASGIApp

from proxy.attribution.ladder import attribute
from proxy.clock import Clock, SystemClock
from proxy.exporters.exporter import Exporter
from proxy.exporters.jsonl import JsonlExporter
from proxy.exporters.prometheus import Exposition
from proxy.exporters.series import Series
from proxy.exporters.sqlite import SqliteExporter
from proxy.messages import Hello, Message
from proxy.office import app, logs
from proxy.office.channel import Receiver
from proxy.office.guard import Guard
from proxy.office.live import LiveExporter
from proxy.office.office import Office

TICK_S = 0.5
"""Between two ticks: a record is in its file after half a second."""

log = structlog.get_logger("phasegate.office")


def main(fd: int) -> None:
    """Runs the office on an inherited socket until the other end closes."""
    for name in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group; the keeper says when it is over
        signal.signal(name, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there are files to reopen
    asyncio.run(serve(socket.socket(fileno=fd), SystemClock()))


async def serve(end: socket.socket, clock: Clock) -> None:
    """Takes messages until the data process closes its end; the first one is `Hello`."""
    with end:
        messages = Receiver(end).messages()
        hello = await anext(messages, None)
        if isinstance(hello, Hello):
            await _serve(hello, messages, clock)


async def _serve(hello: Hello, messages: AsyncIterator[Message], clock: Clock) -> None:
    logs.configure(hello.log_level, as_json=hello.log_json)
    office, exposition = build(hello)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, office.reopen)
    helpers = [asyncio.create_task(_tick(office, clock))]
    listener = listen(hello.admin_host, hello.admin_port)
    if listener is not None:
        guard = Guard.of(hello.admin_host, hello.admin_token, hello.admin_hosts)
        admin = app.create(office, exposition, guard, hello.config.encode(), {})
        helpers.append(asyncio.create_task(_answer(admin, listener)))
    try:
        async for message in messages:
            office.take(message, clock.now_ns())
    finally:
        await _end(helpers)
        office.close()


def build(hello: Hello) -> tuple[Office, Exposition]:
    """The office with the exporters that were asked for, and its metrics."""
    series = Series(models=hello.models, tenants=hello.tenants)
    exporters: dict[str, Exporter] = {"prometheus": series}
    if hello.records:
        exporters["records"] = JsonlExporter(Path(hello.records))
    if hello.store:
        exporters["store"] = SqliteExporter(Path(hello.store), days=hello.store_days, megabytes=hello.store_mb)
    if hello.live:
        exporters["live"] = LiveExporter(sys.stdout)
    office = Office(attribute, exporters, pulsed=series.pulse)
    return office, Exposition(series, lambda: office.pulse, office.lost, office.failures)


def listen(host: str, port: int) -> socket.socket | None:
    """The admin listener's socket; None, and an error in the log, where the address cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        log.error("admin_not_listening", address=f"{host}:{port}", error=error.strerror or str(error))
        return None


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: whoever started us sends the signals, and not to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _answer(admin: ASGIApp, listener: socket.socket) -> None:
    config = uvicorn.Config(
        admin, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False, date_header=False
    )
    with listener:
        await _Server(config).serve(sockets=[listener])


async def _tick(office: Office, clock: Clock) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        office.tick(clock.now_ns())


async def _end(helpers: list[asyncio.Task[None]]) -> None:
    for helper in helpers:
        helper.cancel()
    await asyncio.wait(helpers)
