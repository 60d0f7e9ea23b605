"""Bytes pass in order, at once or in turns, and are observed after they were sent. For exchanges: `test_exchange`."""

import asyncio
import gzip
import random
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from proxy.client import Client
from proxy.errors import EngineBroke
from proxy.guard import Guard
from proxy.line import Line
from proxy.passing import AT_ONCE, Passing
from proxy.records import RequestFacts
from proxy.relay import Answer
from proxy.rooms import Passage
from proxy.tap import Tap
from proxy.timeline import Recorder
from proxy.transport import Call
from proxy.wire.asking import ASKINGS
from proxy.wire.dialects import reader_for
from proxy.wire.edits import Events
from proxy.wire.framing import Sse
from tests.support.clock import START_NS, VirtualLoop, run
from tests.support.http1 import Body, End, Messages
from tests.support.pipe import Deaf, Pipe, Visit, turns
from tests.support.streams import DONE, USAGE, chunk

FACTS = RequestFacts("openai", "chat", "inference")
EVENTS = b"".join(chunk(word) for word in ("to", "be", "or", "not", "to", "be")) + chunk(finish="stop") + DONE


class Side:
    """Both sides of an answer on its way: what the client got, what the recorder had seen at each piece, and when the
    first token was told. `reads`: the client keeps up; else each `send` waits for a turn of the loop.
    """

    def __init__(
        self, loop: VirtualLoop, encoding: str = "", *, client: Client | None = None, edited: Events | None = None
    ) -> None:
        self.loop = loop
        self.reads = True
        self.got: list[bytes] = []
        self.seen: list[int] = []
        self.firsts: list[int] = []
        self.recorder = Recorder(0, START_NS)
        scope = {"method": "POST", "path": "/", "headers": [], "extensions": {"phasegate.room": self.room}}
        self.client = client or Client(scope, self.receive, self.send)
        self.tap = Tap(self.recorder, Sse(1 << 20), reader_for(FACTS, "text/event-stream", 200), encoding)
        self.guard = Guard(loop.clock.now_ns)
        passage = Passage(self.tap, True, edited)
        now = loop.clock.now_ns
        self.passing = Passing(self.client, self.recorder, self.guard, now, passage, self.firsts.append)
        self.recorder.arrived(0, now(), 2)
        self.recorder.admitted(now(), 0)
        self.recorder.dispatched(now())
        self.recorder.head(now(), 200, True)

    async def receive(self) -> Any:
        raise AssertionError("nobody reads the request here")

    async def send(self, message: Any) -> None:
        if not self.reads:
            await asyncio.sleep(0)
        if message.get("body"):
            self.write(message["body"])

    def room(self) -> Callable[[bytes], None] | None:
        return self.write if self.reads else None

    def write(self, data: bytes) -> None:
        self.got.append(data)
        self.seen.append(self.recorder.token_events)


def passed(work: Callable[[Side], Any], encoding: str = "") -> None:
    async def main(loop: VirtualLoop) -> None:
        result = work(Side(loop, encoding))
        if result is not None:
            await result

    run(main)


def test_a_small_read_is_sent_in_the_same_step_and_observed_after() -> None:
    def work(side: Side) -> None:
        assert side.passing.take(chunk("a"))
        assert side.passing.take(chunk("b"))
        assert (side.got, side.seen) == ([chunk("a"), chunk("b")], [0, 1])
        assert side.firsts == [START_NS]
        assert side.guard.heard_ns == START_NS

    passed(work)


@pytest.mark.parametrize("why", ["large", "slow client", "behind"])
def test_a_read_that_must_wait_is_left_as_it_is(why: str) -> None:
    def work(side: Side) -> None:
        side.reads = why != "slow client"
        side.tap.behind = why == "behind"
        assert not side.passing.take(b":" * (AT_ONCE + (why == "large")))
        assert (side.got, side.recorder.bytes_out) == ([], 0)

    passed(work)


def answer_of(loop: VirtualLoop, size: int = len(EVENTS)) -> tuple[Line, Answer]:
    """An answer of `size` bytes whose head is here, and the line that its body will come on."""
    line = Line(loop)
    line.connection_made(Deaf())
    line.expect(bodiless=False)
    line.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
    call = Call(line, lambda line: None)
    return line, Answer(httpx.Response(200, stream=call, extensions={"hand_to": line.hand_to}), call, "engine")


@pytest.mark.parametrize("seed", range(40))
def test_bytes_keep_their_order_however_the_client_reads(seed: int) -> None:
    async def work(side: Side) -> None:
        rng = random.Random(seed)
        line, answer = answer_of(side.loop)
        passing = asyncio.ensure_future(side.passing.body(answer))
        at = 0
        while at < len(EVENTS):
            size = rng.choice((1, 7, 200, len(EVENTS)))
            line.data_received(EVENTS[at : at + size])
            at += size
            for _ in range(rng.randrange(4)):
                side.reads = rng.random() < 0.5
                await asyncio.sleep(0)
            side.reads = rng.random() < 0.5
        await passing
        assert b"".join(side.got) == EVENTS
        timeline = side.recorder.end(START_NS)
        assert (timeline.bytes_out, timeline.token_events) == (len(EVENTS), 6)
        assert (side.firsts, side.tap.complete, side.client.ended) == ([START_NS], True, True)

    passed(work)


def test_no_turn_of_the_loop_lies_between_a_read_and_the_client() -> None:
    async def work(side: Side) -> None:
        line, answer = answer_of(side.loop)
        passing = asyncio.ensure_future(side.passing.body(answer))
        await asyncio.sleep(0)
        line.data_received(EVENTS[:100])
        assert side.got == [EVENTS[:100]]
        line.data_received(EVENTS[100:])
        assert b"".join(side.got) == EVENTS
        await passing

    passed(work)


def test_the_first_token_is_told_though_a_small_read_inflates_to_much_and_none_follows() -> None:
    async def work(side: Side) -> None:
        data = gzip.compress(b"data: {}\n\n" * 2_000 + chunk("a"))
        line, answer = answer_of(side.loop, len(data) + 1)
        passing = asyncio.ensure_future(side.passing.body(answer))
        await asyncio.sleep(0)
        line.data_received(data)
        await turns()
        assert (side.got, side.firsts) == ([data], [START_NS])
        passing.cancel()

    passed(work, "gzip")


class Narrow(Pipe):
    """A client's connection that takes what it is told to take; until then it keeps, and says when that is too much."""

    HIGH, LOW = 1000, 100

    def __init__(self, protocol: asyncio.Protocol, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(protocol, loop)
        self.taken = bytearray()
        self._full = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        if len(self.written) > self.HIGH and not self._full:
            self._full = True
            self._protocol.pause_writing()

    def take(self, size: int) -> None:
        self.taken += self.written[:size]
        del self.written[:size]
        if self._full and len(self.written) <= self.LOW:
            self._full = False
            self._protocol.resume_writing()


@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "broken off"])
@pytest.mark.parametrize("seed", range(40))
def test_a_connection_carries_every_byte_once(seed: int, breaks: bool) -> None:
    """Through the cycle, edited: the usage event that the client did not ask for is taken out, and nothing else."""

    async def main(loop: VirtualLoop) -> None:
        rng = random.Random(seed)
        events = [chunk("x" * rng.choice((1, 40, 3000))) for _ in range(rng.randrange(1, 60))]
        body = b"".join([*events, USAGE, DONE])
        line, answer = answer_of(loop, len(body))
        sides: list[Side] = []
        whole: list[bool] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            side = Side(loop, client=Client(scope, receive, send), edited=Events([ASKINGS["usage"].edit()]))
            sides.append(side)
            await side.passing.head(200, [])
            try:
                await side.passing.body(answer)
                whole.append(True)
            except EngineBroke:
                whole.append(False)
                side.client.abort()

        visit = Visit(app, loop, Narrow)
        pipe = visit.pipe
        assert isinstance(pipe, Narrow)
        visit.door.data_received(b"GET / HTTP/1.1\r\nHost: p\r\n\r\n")
        sent = len(body) - (rng.randrange(1, len(body)) if breaks else 0)
        at = 0
        while at < sent:
            size = min(rng.choice((1, 300, AT_ONCE, 5000)), sent - at)
            line.data_received(body[at : at + size])
            at += size
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
                pipe.take(rng.choice((0, 0, 300, 100_000)))
        if breaks:
            line.connection_lost(None)
        while not whole:
            await asyncio.sleep(0)
            pipe.take(500)
        await turns()
        pipe.take(len(pipe.written))
        found = Messages(lambda head: None).feed(bytes(pipe.taken))
        got, ended = b"".join(event.data for event in found if isinstance(event, Body)), End() in found
        assert got == body[:sent].replace(USAGE, b"")
        assert (whole, ended, sides[0].recorder.bytes_out) == ([not breaks], not breaks, sent)

    run(main)
