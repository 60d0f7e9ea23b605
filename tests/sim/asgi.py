"""A client without a socket: one ASGI call, what was sent in order, and a way to leave."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from proxy.sim.jobs import Truth
from proxy.sim.plan import Plan
from proxy.sim.server import Server, build
from tests.support.clock import VirtualLoop, run

CHAT = {"model": "m", "messages": [{"role": "user", "content": "tell me of the sea"}], "max_tokens": 4}


class HurriedClock:
    """A clock on which every look takes a while, so that whatever is scheduled is soon due."""

    def __init__(self, stride_ns: int = 20_000_000) -> None:
        self.stride_ns, self.at_ns = stride_ns, 0

    def now_ns(self) -> int:
        self.at_ns += self.stride_ns
        return self.at_ns

    def wall_s(self) -> float:
        return 1_700_000_000.0


class Exchange:
    """State: the messages the application sent, whether an answer has begun, and whether the client has left."""

    def __init__(self, server: Server, method: str, path: str, body: Any = b"", id: str = "rid") -> None:
        self.sent: list[MutableMapping[str, Any]] = []
        self.left, self.begun = asyncio.Event(), asyncio.Event()
        self._server = server
        self._body = [body if isinstance(body, bytes) else json.dumps(body).encode()]
        self._scope = {"type": "http", "method": method, "path": path, "headers": [(b"x-request-id", id.encode())]}

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)
        if len(self.sent) == 3:
            self.begun.set()

    async def run(self) -> "Exchange":
        await self._server(self._scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def writes(self) -> list[bytes]:
        return [message["body"] for message in self.sent[1:]]

    @property
    def body(self) -> Any:
        return json.loads(b"".join(self.writes))

    @property
    def events(self) -> list[Any]:
        lines = b"".join(self.writes).split(b"\n\n")
        return [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in b"".join(self.writes).splitlines()]


class Lifespan:
    """Runs an application's lifespan around a block."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._end, self._ready = asyncio.Event(), asyncio.Event()
        self.said: list[str] = []
        self._asked = False

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._asked:
            await self._end.wait()
        self._asked = True
        return {"type": "lifespan"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.said.append(message["type"])
        self._ready.set()

    async def __aenter__(self) -> "Lifespan":
        self._task = asyncio.create_task(self._server({"type": "lifespan"}, self._receive, self._send))
        await self._ready.wait()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._end.set()
        await self._task


def vllm(**more: Any) -> Plan:
    return Plan(models=("m",), **more)


def ollama(**more: Any) -> Plan:
    return Plan(kind="ollama", models=("m", "other"), load_s=0.05, **more)


def play(plan: Plan, scene: Callable[[Any, list[Truth]], Awaitable[Any]]) -> Any:
    """Run `scene(server, truths)` inside the server's lifespan."""

    async def played(loop: VirtualLoop) -> Any:
        truths: list[Truth] = []
        server = build(plan, HurriedClock(), truths.append)
        async with Lifespan(server):
            return await asyncio.wait_for(scene(server, truths), 10)

    return run(played)


def ask(plan: Plan, path: str, body: Any, method: str = "POST") -> Exchange:
    async def scene(server: Any, truths: list[Truth]) -> Exchange:
        return await Exchange(server, method, path, body).run()

    result: Exchange = play(plan, scene)
    return result
