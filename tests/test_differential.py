"""The same random requests through the proxy and straight to an engine that echoes: bytes differ only as declared.

The engine answers with what it got, and with headers and a body that the request asked for. A difference that no
declaration explains fails the test with the request's number and seed.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvloop

from proxy.app import DataApp
from proxy.cli.listener import Listener
from proxy.clock import SystemClock
from proxy.config import Settings, Upstream
from proxy.declared import answer_headers, request_headers
from proxy.transport import Wire
from tests.support.loopback import Peer, engine

Pair = tuple[bytes, bytes]

REQUESTS = 2000
CLIENTS = 8
SEED = 20261129

TARGET = bytes(c for c in range(0x21, 0x7F) if c not in b" #")
METHODS = (b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"PROPFIND")
PATHS = (b"/", b"//", b"/v1/models", b"/api/tags", b"/metrics", b"/files/", b"/a/../b/./", b"/%2F%zz", b"/v1/files/f?x")
INFERENCE = b"/v1/chat/completions"
NAMES = (b"accept", b"user-agent", b"x-forwarded-for", b"forwarded", b"via", b"range", b"if-none-match", b"x-a",
         b"authorization", b"accept-encoding", b"origin", b"traceparent", b"te", b"proxy-connection", b"keep-alive",
         b"x-b")  # fmt: skip


def settings(engine_url: str) -> Settings:
    return Settings(upstream=(Upstream(url=engine_url, kind="openai"),), quiet=True)


def application(engine_url: str) -> Any:
    """What stands between: the one line to change for another application."""
    return DataApp(settings(engine_url), clock=SystemClock(), transport=Wire(), send=lambda _: None)


@dataclass(frozen=True)
class Ask:
    """One request, and the answer it asks for."""

    number: int
    method: bytes
    target: bytes
    headers: tuple[Pair, ...]
    body: bytes
    chunks: bool

    def bytes(self, host: bytes) -> bytes:
        lines = [b"%b %b HTTP/1.1" % (self.method, self.target), b"Host: " + host, b"x-number: %d" % self.number]
        lines += [name + b": " + value for name, value in self.headers]
        if self.chunks:
            half = len(self.body) // 2
            parts = [part for part in (self.body[:half], self.body[half:]) if part]
            framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
            lines.append(b"transfer-encoding: chunked")
        else:
            framed = self.body
            lines += [b"content-length: %d" % len(self.body)] if self.body or self.number % 2 else []
        return b"\r\n".join((*lines, b"", framed))


def random_ask(number: int, rng: random.Random) -> Ask:
    inference = rng.random() < 0.1
    path = INFERENCE if inference else rng.choice(PATHS) + bytes(rng.choices(TARGET, k=rng.randrange(12)))
    query = b"?" + bytes(rng.choices(TARGET, k=rng.randrange(12))) if rng.random() < 0.5 else b""
    headers = [(rng.choice(NAMES), random_value(rng)) for _ in range(rng.randrange(9))]
    body = rng.randbytes(rng.choice((0, 0, 1, 17, 3000, 70_000)))
    method = b"POST" if inference else rng.choice(METHODS)
    return Ask(number, method, path + query, tuple(headers), body, rng.random() < 0.3)


def random_value(rng: random.Random) -> bytes:
    value = bytes(rng.choices([c for c in range(0x20, 0x100) if c != 0x7F], k=rng.randrange(20)))
    return value.strip(b" \t")


@dataclass(frozen=True)
class Message:
    """One HTTP message as read from a socket, by a reader of the test's own."""

    start: bytes
    headers: tuple[Pair, ...]
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name]


async def read_message(reader: asyncio.StreamReader) -> Message:
    start, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    headers = tuple((name, value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines))
    head = Message(start, headers, b"")
    body = b""
    if head.values(b"transfer-encoding"):
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    elif length := head.values(b"content-length"):
        body = await reader.readexactly(int(length[0]))
    return Message(start, headers, body)


def random_answer(seen: Message) -> bytes:
    """What the engine says to request `x-number`: the same to everyone who asks."""
    rng = random.Random(int(seen.values(b"x-number")[0]) + SEED)
    body = rng.randbytes(rng.choice((0, 1, 900, 80_000)))
    headers = [
        (rng.choice((b"X-One", b"x-two", b"ETag", b"Server")), random_value(rng)) for _ in range(rng.randrange(6))
    ]
    headers.append((b"Set-Cookie", b"n=%d" % rng.randrange(10**9)))
    lines = [b"HTTP/1.1 %d Whatever" % rng.choice((200, 201, 299, 404, 418, 500)), *map(b": ".join, headers)]
    if rng.random() < 0.5:
        return b"\r\n".join((*lines, b"content-length: %d" % len(body), b"", body))
    framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return b"\r\n".join((*lines, b"transfer-encoding: chunked", b"", framed + b"0\r\n\r\n"))


class Echo:
    """The engine: keeps what it saw, by number."""

    def __init__(self) -> None:
        self.seen: dict[int, list[Message]] = {}

    async def __call__(self, peer: Peer) -> None:
        while True:
            message = await read_message(peer.reader)
            self.seen.setdefault(int(message.values(b"x-number")[0]), []).append(message)
            peer.say(random_answer(message))


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[int]:
    listener = Listener(app, "127.0.0.1", 0)
    await listener.start()
    try:
        yield listener.addresses[0][1]
    finally:
        listener.stop_accepting()
        listener.abort()
        await app.aclose()


async def asked(port: int, asks: list[Ask]) -> list[Message]:
    """The answers, over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    answers = []
    for ask in asks:
        writer.write(ask.bytes(b"127.0.0.1:%d" % port))
        answers.append(await read_message(reader))
    writer.close()
    await writer.wait_closed()
    return answers


def kept(message: Message, without: frozenset[bytes]) -> list[Pair]:
    return [pair for pair in message.headers if pair[0].lower() not in without]


def compare_requests(ask: Ask, direct: Message, proxied: Message, host: bytes) -> None:
    inference = ask.target.partition(b"?")[0] == INFERENCE
    declared = request_headers(settings("http://x:1"), inference=inference)
    assert proxied.values(b"accept-encoding") == [b"identity"] or not inference, ask
    assert proxied.start == direct.start, ask
    assert proxied.body == direct.body, ask
    assert kept(proxied, declared) == kept(direct, declared), ask
    assert proxied.values(b"host") == [host], ask
    assert len(proxied.values(b"x-request-id")) == 1, ask
    assert len(proxied.values(b"content-length")) + len(proxied.values(b"transfer-encoding")) <= 1, ask


def compare_answers(ask: Ask, direct: Message, proxied: Message) -> None:
    assert proxied.start.split()[:2] == direct.start.split()[:2], ask
    assert proxied.body == direct.body, ask
    declared = answer_headers(settings("http://x:1"))
    assert kept(proxied, declared) == kept(direct, declared), ask
    assert len(proxied.values(b"x-request-id")) == 1, ask


@pytest.mark.slow
def test_bytes_differ_only_as_declared() -> None:
    async def main() -> None:
        rng = random.Random(SEED)
        asks = [random_ask(number, rng) for number in range(REQUESTS)]
        shares = [asks[share::CLIENTS] for share in range(CLIENTS)]
        echo = Echo()
        async with engine(echo) as port, listening(application(f"http://127.0.0.1:{port}")) as front:
            direct = await asyncio.gather(*(asked(port, share) for share in shares))
            through = await asyncio.gather(*(asked(front, share) for share in shares))
        for share, straight, proxied in zip(shares, direct, through, strict=True):
            for ask, one, other in zip(share, straight, proxied, strict=True):
                first, *rest = echo.seen[ask.number]
                assert len(rest) == 1, f"attempts at the engine: {len(rest)}, {ask}"
                compare_requests(ask, first, rest[0], b"127.0.0.1:%d" % port)
                compare_answers(ask, one, other)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
