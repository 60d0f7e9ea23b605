"""The data process without its office, whole or in parts, so that a cost can be told from its neighbours'.

python -m tests.bench.relayed PORT ENGINE_URL whole      as shipped; records go nowhere
python -m tests.bench.relayed PORT ENGINE_URL tapped     relay, tap and timeline: no counting, no audit
python -m tests.bench.relayed PORT ENGINE_URL untapped   the same, and answers are relayed unread
python -m tests.bench.relayed PORT ENGINE_URL wire       listener, headers and relay alone
"""

import asyncio
import cProfile
import signal
import sys
from dataclasses import replace
from typing import Any

import httpx
import uvloop

from proxy import headers
from proxy.app import DataApp
from proxy.cli.listener import Listener
from proxy.client import Client
from proxy.clock import SystemClock
from proxy.config import Prefixes, Settings, Tokens, Upstream
from proxy.interpreter import calm
from proxy.relay import Relay
from proxy.tap import Tap
from proxy.transport import Wire


class Untapped(Tap):
    """A tap that reads nothing."""

    complete = True

    def __init__(self) -> None:
        self.blind, self.behind, self.bite = None, False, 1 << 20

    def feed(self, t: int, data: bytes) -> None: ...

    def catch_up(self) -> None: ...

    def close(self, t: int) -> None: ...


def blinded(app: DataApp) -> DataApp:
    """Answers are relayed, and edited, unread."""
    tap = app._rooms.tap
    app._rooms = replace(app._rooms, tap=lambda *said: tap(*said)._replace(tap=Untapped()))
    return app


class WireOnly:
    """An application that relays and does nothing else."""

    def __init__(self, engine: str) -> None:
        self._engine = httpx.URL(engine)
        self._relay = Relay(Wire())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        client = Client(scope, receive, send)
        body = await client.body(1 << 26)
        authority = self._engine.netloc
        ours = headers.to_engine(
            client.headers, authority=authority, request_id="r", identity=True, key=None, keyless=False
        )
        answer = await self._relay.call(self._engine, client.method, client.target, ours, body, connect_timeout_s=5)
        try:
            await client.start(answer.status, headers.to_client(answer.headers, request_id="r"))
            async for chunk in answer:
                await client.send(chunk)
            await client.end()
        finally:
            await answer.aclose()


def application(engine: str, part: str) -> Any:
    if part == "wire":
        return WireOnly(engine)
    rooms = part == "whole"
    settings = Settings(
        upstream=(Upstream(url=engine, kind="openai"),), tokens=Tokens(count=rooms), prefixes=Prefixes(audit=rooms)
    )
    app = DataApp(settings, clock=SystemClock(), transport=Wire(), send=lambda _: None)
    return blinded(app) if part == "untapped" else app


async def main(port: int, engine: str, part: str) -> None:
    listener = Listener(application(engine, part), "127.0.0.1", port)
    await listener.start()
    calm()
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()
    listener.stop_accepting()


if __name__ == "__main__":
    port, engine, part, *profile = sys.argv[1:]
    with cProfile.Profile() if profile else asyncio.Runner() as watched:
        uvloop.run(main(int(port), engine, part))
    if isinstance(watched, cProfile.Profile):
        watched.dump_stats(profile[0])
