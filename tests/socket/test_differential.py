"""The same random requests through the proxy and straight to an engine that echoes: bytes differ only as declared.

The engine answers with what it got, and with headers and a body that the request asked for. A difference that no
declaration explains fails the test with the request's number and seed.
"""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvloop

from proxy.app import DataApp
from proxy.cli.listener import Listener
from proxy.clock import SystemClock
from proxy.config import Kind, Prefixes, Settings, Upstream
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


def settings(engine_url: str, kind: Kind = "openai", **more: Any) -> Settings:
    return Settings(upstream=(Upstream(url=engine_url, kind=kind),), quiet=True, **more)


def application(engine_url: str, kind: Kind = "openai", **more: Any) -> Any:
    """What stands between: the one line to change for another application."""
    return DataApp(settings(engine_url, kind, **more), clock=SystemClock(), transport=Wire(), send=lambda _: None)


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


# --- what engines are asked for beside the client, and what clients are told of time ---

TALKS = 300
TALK_TARGETS = (b"/v1/chat/completions", b"/v1/completions")
COMMENT = re.compile(rb": phasegate [^\r\n]+;dur=[0-9.]+\n\n")
WORDS = (
    "a",
    "token_ids",
    '"token_ids":[1]',
    '"usage"',
    "[DONE]",
    "\u65e5\u672c",
    '\\"',
    "{}",
    "data: x\n\n",
    ": y\n",
    "",
)


def talk(number: int, rng: random.Random) -> Ask:
    """A chat or completion in some spelling; what it says of streams, usage, ids and times differs from one to one."""
    target = rng.choice(TALK_TARGETS)
    body: dict[str, Any] = {"model": "m", "temperature": 0}
    if target.endswith(b"chat/completions"):
        body["messages"] = [{"role": "user", "content": rng.choice(WORDS)} for _ in range(rng.randrange(3))]
    else:
        body["prompt"] = rng.choice((rng.choice(WORDS), [1, 2, 3], ["a", "b"]))
    optional = {
        "stream": (True, True, False), "n": (1, 2), "logprobs": (None, 1), "echo": (False, True),
        "return_token_ids": (True, False, None), "return_meta_info": (True, False),
        "stream_options": ({"include_usage": True}, {"include_usage": False}, None, {}),
    }  # fmt: skip
    for name, values in optional.items():
        if rng.random() < (0.7 if name == "stream" else 0.15):
            body[name] = rng.choice(values)
    text = json.dumps(body, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 0, 2))).encode()
    return Ask(number, b"POST", target, ((b"content-type", b"application/json"),), text, chunks=False)


class Answers:
    """What an engine says to one talk: as it would to anybody, and what the members in the body ask for beside."""

    def __init__(self, kind: Kind, seen: Message) -> None:
        self.asked = json.loads(seen.body)
        self.rng = random.Random(int(seen.values(b"x-number")[0]) + SEED)
        self.vllm = kind == "vllm"
        self.ids = self.vllm and self.asked.get("return_token_ids") is True
        self.meta = kind == "sglang" and self.asked.get("return_meta_info") is True
        self.compact = (",", ":") if self.rng.random() < 0.8 else None
        self.end = self.rng.choice((b"\n", b"\n", b"\r\n"))

    def message(self) -> bytes:
        streamed = self.asked.get("stream") is True
        body = b"".join(self.events()) if streamed else self.whole()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n" % (b"text/event-stream" if streamed else b"application/json")
        if not streamed and self.rng.random() < 0.5:
            return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)
        cuts = sorted(self.rng.choices(range(len(body) + 1), k=3))
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if a < b]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        return head + b"transfer-encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"

    def spelt(self, *ids: int) -> list[int] | None:
        return list(ids) if self.ids else None

    def choice(self, index: int, said: dict[str, Any], finish: str | None) -> dict[str, Any]:
        info = {"meta_info": {"id": "x", "e2e_latency": 0.5}} if self.meta and "message" in said else {}
        ids = {"token_ids": self.spelt(index, 7)} if self.vllm else {}
        return {"index": index, **said, "logprobs": None, "finish_reason": finish, **ids, **info}

    def whole(self) -> bytes:
        says = {"message": {"role": "assistant", "content": self.rng.choice(WORDS)}}
        choices = [self.choice(index, says, "stop") for index in range(self.asked.get("n") or 1)]
        usage = {"prompt_tokens": 3, "completion_tokens": 2}
        prompt = {"prompt_token_ids": self.spelt(1, 2, 3)} if self.vllm else {}
        body = {"id": "c", "choices": choices, "usage": usage, **prompt}
        return json.dumps(body, separators=self.compact).encode()

    def event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        data = json.dumps({"id": "c", "choices": choices, **more}, separators=self.compact).encode()
        return b"data: " + data + 2 * self.end

    def events(self) -> Iterator[bytes]:
        yield self.event([self.choice(0, {"delta": {"role": "assistant"}}, None)], prompt_token_ids=self.spelt(1, 2, 3))
        for index in range(self.asked.get("n") or 1):
            for _ in range(self.rng.randrange(4)):
                word, waits = self.rng.choice(WORDS), self.rng.random() < 0.3
                if waits and self.ids:
                    yield self.event([self.choice(index, {"delta": {}}, None)])
                if self.rng.random() < 0.2:
                    yield b": keep-alive" + 2 * self.end
                yield self.event([self.choice(index, {"delta": {"content": word}}, None)])
            yield self.event([self.choice(index, {"delta": {}}, "stop")])
        if (self.asked.get("stream_options") or {}).get("include_usage") is True:
            yield self.event([], usage={"prompt_tokens": 3, "completion_tokens": 2})
        if self.rng.random() < 0.9:
            yield b"data: [DONE]" + 2 * self.end


class Telling(Echo):
    """An engine of this kind that answers talks, and has no tokenizer to ask."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self._kind = kind

    async def __call__(self, peer: Peer) -> None:
        while True:
            message = await read_message(peer.reader)
            if not message.values(b"x-number"):
                peer.say(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                continue
            self.seen.setdefault(int(message.values(b"x-number")[0]), []).append(message)
            peer.say(Answers(self._kind, message).message())


def spliced(own: bytes) -> Iterator[bytes]:
    """Every body that may go out for this one, in the plainest way to write them."""
    usage = b'{"include_usage":true}'
    bodies = [own, own.replace(b"{", b'{"stream_options":' + usage + b",", 1)]
    bodies += [own.replace(b'"stream_options": ' + said, b'"stream_options": ' + usage, 1) for said in (b"null", b"{}")]
    for body in bodies:
        yield body
        yield from (body.replace(b"{", b'{"%b":true,' % name, 1) for name in (b"return_token_ids", b"return_meta_info"))


@pytest.mark.slow
@pytest.mark.parametrize("timing", [False, True], ids=["no times", "times"])
@pytest.mark.parametrize("kind", ["vllm", "sglang", "openai"])
def test_what_is_asked_for_beside_the_client_is_cut_out_to_the_byte(kind: Kind, timing: bool) -> None:
    more = {"prefixes": Prefixes(exact_ids=True), "ask_meta_info": True, "server_timing": timing}
    declared = answer_headers(settings("http://x:1", kind, **more))

    async def main() -> tuple[int, int]:
        rng = random.Random(SEED)
        talks = [talk(number, rng) for number in range(TALKS)]
        engine_side = Telling(kind)
        async with (
            engine(engine_side) as port,
            listening(application(f"http://127.0.0.1:{port}", kind, **more)) as front,
        ):
            direct = await asked(port, talks)
            through = await asked(front, talks)
        changed = cut = 0
        for ask, one, other in zip(talks, direct, through, strict=True):
            first, second = engine_side.seen[ask.number]
            streamed = one.values(b"content-type") == [b"text/event-stream"]
            told = COMMENT.findall(other.body)
            assert len(told) == (timing and streamed), ask
            assert COMMENT.sub(b"", other.body) == one.body, ask
            assert len(other.values(b"server-timing")) == (timing and not streamed), ask
            assert kept(other, declared) == kept(one, declared), ask
            assert first.body == ask.body, ask
            assert second.body in spliced(ask.body), ask
            changed += second.body != ask.body
            cut += len(Answers(kind, second).message()) != len(Answers(kind, first).message())
        return changed, cut

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        changed, cut = runner.run(main())
    assert min(changed, cut) > TALKS / 10, "most of this is about what was spliced, and came for it"
