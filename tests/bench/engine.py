"""The scripted engine of the relay bench: as cheap as asyncio allows, so that two cores are enough.

A POST whose body says `"max_tokens":N` and `"seed":G` is answered with N server-sent events, G ms apart (0: all in one
write), then `[DONE]`; both are fields that every router knows, for some write the body anew and drop others. Each event
carries the time it was sent, by the machine's monotonic clock, in nanoseconds. A GET is answered 404, save `/health`.

    python -m tests.bench.engine PORT
"""

import asyncio
import re
import sys
import time

import uvloop

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}"
HEALTHY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}"
EVENT = (
    b'data: {"id":"chatcmpl-8f14e45fceea167a5a36dedd4bea2543","object":"chat.completion.chunk","created":1795968415,'
    b'"model":"m","choices":[{"index":0,"delta":{"content":" tok"},"logprobs":null,"finish_reason":%b}],"t":%d}\n\n'
)
DONE = b"data: [DONE]\n\n"
END = b"%x\r\n%b\r\n0\r\n\r\n" % (len(DONE), DONE)
EVENTS, GAP = re.compile(rb'"max_tokens": ?(\d+)'), re.compile(rb'"seed": ?(\d+)')


def event(last: bool) -> bytes:
    data = EVENT % (b'"stop"' if last else b"null", time.monotonic_ns())
    return b"%x\r\n%b\r\n" % (len(data), data)


class Engine(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.held = b""

    def data_received(self, data: bytes) -> None:
        self.held += data
        end = self.held.find(b"\r\n\r\n")
        if end < 0:
            return
        if self.held.startswith(b"GET"):
            healthy = self.held.startswith(b"GET /health")
            self.held = b""
            self.transport.write(HEALTHY if healthy else NOT_FOUND)
            return
        said = re.search(rb"(?i)content-length: *(\d+)", self.held[:end])
        whole = self.held.endswith(b"0\r\n\r\n") if said is None else len(self.held) >= end + 4 + int(said[1])
        if whole:
            events, gap_ms = EVENTS.search(self.held), GAP.search(self.held)
            self.held = b""
            self.answer(int(events[1]) if events else 1, int(gap_ms[1]) if gap_ms else 0)

    def answer(self, events: int, gap_ms: int) -> None:
        if gap_ms == 0:
            self.transport.write(HEAD + b"".join(event(i == events - 1) for i in range(events)) + END)
            return
        self.transport.write(HEAD)
        self.left, self.gap_s = events, gap_ms / 1e3
        self.due = asyncio.get_running_loop().time()
        self.tick()

    def tick(self) -> None:
        if self.transport.is_closing():
            return
        if not self.left:
            self.transport.write(END)
            return
        self.left -= 1
        self.transport.write(event(not self.left))
        self.due += self.gap_s
        asyncio.get_running_loop().call_at(self.due, self.tick)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
