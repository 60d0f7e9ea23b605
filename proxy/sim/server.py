"""The embedded engine as an ASGI application: a machine in real time behind an engine's own dialect.

Raw ASGI, because what matters here is the moment at which headers and chunks leave.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from typing import Any
from uuid import uuid4

from proxy.clock import Clock
from proxy.sim.asks import Ask, Face, Rejected, Reply, Voice
from proxy.sim.drive import Drive
from proxy.sim.faces import OllamaFace, VllmFace
from proxy.sim.jobs import Busy, Step, Token, Truth
from proxy.sim.plan import Plan, ollama, vllm

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Server:
    """One embedded engine. State: its drive, run by a task as long as the application lives, and a serial number."""

    def __init__(self, face: Face, drive: Drive) -> None:
        self._face, self._drive, self._serial = face, drive, count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection: the lifespan, or a request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        running = asyncio.create_task(self._drive.run())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path, id = scope["method"], scope["path"], _request_id(scope)
        body = await _body(receive)
        answer = _Answer(send, self._face.headers(id))
        try:
            page = self._face.page(method, path, body)
            asked = self._face.ask(path, body, id) if page is None and method == "POST" else None
            if asked is None:
                await answer.whole(page or self._face.absent(path))
                return
            await _unless_left(receive, self._work(*asked, answer))
        except Rejected as error:
            await answer.whole(self._face.error(path, error))
        except (Busy, ValueError) as error:
            status = 503 if isinstance(error, Busy) else 400
            await answer.whole(self._face.error(path, Rejected(status, str(error))))

    async def _work(self, ask: Ask, voice: Voice, answer: "_Answer") -> None:
        """Do the jobs and say what comes; closes the answer."""
        truths: dict[str, Truth] = {}
        with self._drive.hearing(ask.jobs(next(self._serial))) as heard:
            if ask.stream and voice.early:
                await answer.begin(200, voice.content_type)
            while len(truths) < len(ask.answers):
                item = await heard.get()
                if isinstance(item, Truth):
                    truths[item.id] = item
                elif ask.stream:
                    await _say(answer, voice, item)
        if ask.stream:
            await answer.begin(200, voice.content_type)
            await answer.write(voice.end(truths), more=False)
        else:
            await answer.whole(Reply(voice.body(truths)))


class _Answer:
    """One response. State: whether its head is out."""

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._send, self._headers, self._begun = send, headers, False

    async def begin(self, status: int, content_type: str, *more: tuple[bytes, bytes]) -> None:
        """Send the head, once."""
        if self._begun:
            return
        self._begun = True
        headers = [(b"content-type", content_type.encode()), *more, *self._headers]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, more: bool = True) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def whole(self, reply: Reply) -> None:
        """Send head and body."""
        await self.begin(reply.status, reply.content_type, (b"content-length", str(len(reply.body)).encode()))
        await self.write(reply.body, more=False)


def build(plan: Plan, clock: Clock, told: Callable[[Truth], None] = lambda truth: None) -> Server:
    """The engine that `plan` describes; `told` hears the truth of each request when it ends."""

    def seen(step: Step) -> None:
        for truth in step.ended:
            told(truth)

    if plan.kind == "ollama":
        shelf = ollama(plan)
        return Server(OllamaFace(plan, shelf, clock.wall_s), Drive(shelf, clock, seen))
    machine = vllm(plan)
    face = VllmFace(plan, machine, clock.wall_s)

    def counted(step: Step) -> None:
        face.gauges.take(step)
        seen(step)

    return Server(face, Drive(machine, clock, counted))


def as_line(truth: Truth) -> str:
    """The truth as one JSON line: the request's id, its moments and counts, and the durations between the moments."""
    phases = {f"{name}_ns": getattr(truth, f"{name}_ns") for name in ("step_wait", "queue", "prefill", "decode")}
    return json.dumps({"request": truth.id.rpartition(".")[0], **asdict(truth), **phases}) + "\n"


async def _say(answer: _Answer, voice: Voice, token: Token) -> None:
    data = voice.token(token)
    if data:
        await answer.begin(200, voice.content_type)
        await answer.write(data)


async def _body(receive: Receive) -> bytes:
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _unless_left(receive: Receive, work: Awaitable[None]) -> None:
    """Do `work`, and stop it when the client leaves."""
    doing = asyncio.ensure_future(work)
    left = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({doing, left}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
    finally:
        for task in (doing, left):
            task.cancel()
        await asyncio.gather(doing, left, return_exceptions=True)


def _request_id(scope: Scope) -> str:
    found = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"]
    return found[0] if found else uuid4().hex
