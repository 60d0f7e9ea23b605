"""The client of the relay bench: raw connections, a count of events, and how long each was under way.

    python -m tests.bench.load PORT streams STREAMS SECONDS GAP_MS [MODELS]
    python -m tests.bench.load PORT requests REQUESTS CONNECTIONS [MODELS]
    python -m tests.bench.load PORT connects REQUESTS CONNECTIONS [MODELS]      a connection for each request

Prints one JSON object: `done` (events or requests), `failed`, and of what it timed `p50_ms` and `p99_ms`: for streams
the way of an event from the engine to here, for requests the time to the first byte of the answer.
"""

import asyncio
import itertools
import json
import re
import sys
import time
from functools import partial

import uvloop

STAMP = re.compile(rb'"t":(\d+)}')
FILLER = "The quick brown fox jumps over the lazy dog. " * 42
"""About 1.9 KB: a request of 2 KB with what stands around it."""


def request(events: int, gap_ms: int, model: str) -> bytes:
    said = {"model": model, "stream": True, "messages": [{"role": "user", "content": FILLER}]}
    body = json.dumps(said | {"max_tokens": events, "seed": gap_ms}, separators=(",", ":")).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\naccept: */*\r\n"
        b"accept-encoding: gzip, deflate\r\nuser-agent: bench/1\r\nauthorization: Bearer sk-bench\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    ) + body


class Client(asyncio.Protocol):
    """One connection: asks `times` times, one request after the other."""

    def __init__(self, ask: bytes, times: int, stamps: bool) -> None:
        self.ask, self.times, self.stamps = ask, times, stamps
        self.took_ns: list[int] = []
        self.events = self.answers = 0
        self.over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.begin()

    def begin(self) -> None:
        self.tail = b""
        self.first = True
        self.at_ns = time.monotonic_ns()
        self.transport.write(self.ask)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self.tail and not data.startswith(b"HTTP/1.1 200"):
            self.finish(False)  # an error's end is not looked for
        if self.stamps:
            self.took_ns += [now - int(stamp) for stamp in STAMP.findall(data)]
        elif self.first:
            self.took_ns.append(now - self.at_ns)
        self.first = False
        self.events += data.count(b'"t":')
        self.tail = (self.tail + data)[-32:]
        if self.tail.endswith(b"0\r\n\r\n") and b"[DONE]" in self.tail:
            self.answers += 1
            if self.answers < self.times:
                self.begin()
            else:
                self.finish(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self.finish(False)

    def finish(self, good: bool) -> None:
        if not self.over.done():
            self.over.set_result(good)
            self.transport.close()


async def connected(port: int, ask: bytes, times: int, stamps: bool) -> Client:
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(partial(Client, ask, times, stamps), "127.0.0.1", port))[1]


async def one_by_one(port: int, ask: bytes, times: int) -> list[Client]:
    """So many clients that ask once, each after the last."""
    made = []
    for _ in range(times):
        made.append(await connected(port, ask, 1, False))
        await made[-1].over
    return made


async def run(port: int, count: int, asks: list[bytes], times: int, kind: str) -> dict[str, float]:
    stamps, places = kind == "streams", list(itertools.islice(itertools.cycle(asks), count))
    if kind == "connects":
        made = list(itertools.chain(*await asyncio.gather(*(one_by_one(port, ask, times) for ask in places))))
    else:
        made = [await connected(port, ask, times, stamps) for ask in places]
    good = await asyncio.gather(*(client.over for client in made))
    took = sorted(ns for client in made for ns in client.took_ns) or [0]
    return {
        "done": sum(client.events if stamps else client.answers for client in made),
        "failed": good.count(False),
        "p50_ms": took[len(took) // 2] / 1e6,
        "p99_ms": took[len(took) * 99 // 100] / 1e6,
    }


def named(models: list[int]) -> list[str]:
    return [f"m{n}" for n in range(models[0])] if models else ["m"]


def main(port: str, kind: str, *numbers: str) -> None:
    if kind == "streams":
        streams, seconds, gap_ms, *models = map(int, numbers)
        asks = [request(seconds * 1000 // gap_ms, gap_ms, name) for name in named(models)]
        result = uvloop.run(run(int(port), streams, asks, 1, kind))
    else:
        requests, connections, *models = map(int, numbers)
        asks = [request(1, 0, name) for name in named(models)]
        result = uvloop.run(run(int(port), connections, asks, requests // connections, kind))
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
