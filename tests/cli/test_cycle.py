"""Responses are framed as their client understands, and broken so that it can tell."""

import asyncio
import gc
import socket
import struct
import weakref
from typing import Any

import pytest

from tests.support.clock import VirtualLoop, run
from tests.support.pipe import Visit, turns

Message = dict[str, Any]


def start(*headers: tuple[bytes, bytes], status: int = 200) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes = b"", more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def answered(
    *messages: Message, head: bytes = b"GET / HTTP/1.1\r\nHost: p\r\n\r\n", abort: bool = False
) -> tuple[bytes, Visit]:
    """What a client gets of these messages, and its connection."""

    async def main(loop: VirtualLoop) -> tuple[bytes, Visit]:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            for message in messages:
                await send(message)
            if abort:
                scope["extensions"]["phasegate.abort"]()
                await send(body(b"never sent"))

        it = Visit(app, loop)
        return await it.send(head), it

    return run(main)


HEAD = b"HEAD / HTTP/1.1\r\nHost: p\r\n\r\n"
OLD = b"GET / HTTP/1.0\r\n\r\n"
LENGTH = (b"Content-Length", b"2")


@pytest.mark.parametrize(
    ("messages", "head", "wire", "closes"),
    [
        pytest.param([start(), body(b"hi")], b"", b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", False,
                     id="chunks"),
        pytest.param([start(), body(b"h", True), body(b"", True), body(b"i")], b"",
                     b"transfer-encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", False, id="no empty chunk"),
        pytest.param([start(LENGTH), body(b"hi")], b"", b"Content-Length: 2\r\n\r\nhi", False, id="a length"),
        pytest.param([start(), body(b"hi")], OLD, b"connection: close\r\n\r\nhi", True, id="HTTP/1.0, until the end"),
        pytest.param([start(LENGTH), body(b"hi")], OLD, b"Content-Length: 2\r\nconnection: close\r\n\r\nhi", True,
                     id="HTTP/1.0, a length"),
        pytest.param([start(LENGTH), body()], HEAD, b"Content-Length: 2\r\n\r\n", False,
                     id="HEAD"),
        pytest.param([start(LENGTH), body(b"hi")], HEAD, b"Content-Length: 2\r\n\r\n",
                     False, id="HEAD with a body by mistake"),
        pytest.param([start(LENGTH, status=304), body()], b"", b"304 Not Modified\r\nContent-Length: 2\r\n\r\n", False,
                     id="304"),
        pytest.param([start((b"content-length", b"0"), status=204), body()], b"", b"204 No Content\r\n\r\n", False,
                     id="204 has no length"),
        pytest.param([start((b"connection", b"close")), body()], b"",
                     b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n", True, id="told to close"),
        pytest.param([start((b"X-Mixed", b"\xff"), (b"x-mixed", b"b"), status=799), body()], b"",
                     b"HTTP/1.1 799 \r\nX-Mixed: \xff\r\nx-mixed: b\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
                     False,
                     id="names, bytes and odd statuses as they came"),
    ],
)  # fmt: skip
def test_a_response_is_framed_as_its_client_understands(
    messages: list[Message], head: bytes, wire: bytes, closes: bool
) -> None:
    out, it = answered(*messages, head=head or b"GET / HTTP/1.1\r\nHost: p\r\n\r\n")
    assert out.endswith(wire)
    assert it.pipe.events == (["close"] if closes else [])


@pytest.mark.parametrize(
    ("head", "first", "wire", "reset"),
    [
        (b"GET / HTTP/1.1\r\nHost: p\r\n\r\n", start(), b"\r\n\r\n2\r\nhi\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: p\r\n\r\n", start((b"content-length", b"9")), b"\r\n\r\nhi", False),
        (OLD, start(), b"\r\n\r\nhi", True),
    ],
    ids=["chunks", "a length", "until the end"],
)
def test_an_abort_leaves_the_framing_open(head: bytes, first: Message, wire: bytes, reset: bool) -> None:
    out, it = answered(first, body(b"hi", True), head=head, abort=True)
    assert out.endswith(wire)
    assert it.pipe.events == ["close"]
    assert it.pipe.socket.options == ([(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))] if reset else [])


@pytest.mark.parametrize(
    "messages",
    [
        [start(LENGTH), body(b"h")],
        [start(LENGTH), body(b"hip")],
        [start(LENGTH), start(LENGTH)],
    ],
    ids=["short", "long", "two heads"],
)
def test_a_response_against_the_rules_is_broken_off(messages: list[Message], caplog: pytest.LogCaptureFixture) -> None:
    out, it = answered(*messages)
    assert not out.endswith((b"hi", b"hip"))
    assert it.pipe.events == ["close"]
    assert "Exception in ASGI application" in caplog.text


@pytest.mark.parametrize(
    "first", [body(b"hi"), start((b"a", b"b\r\nc: d")), start((b"a\r\nb", b"c"))], ids=["no head", "value", "name"]
)
def test_a_response_that_cannot_begin_becomes_a_500(first: Message) -> None:
    out, _ = answered(first)
    assert out.startswith(b"HTTP/1.1 500 ")
    assert b"c: d" not in out


def test_a_body_after_the_end_is_refused() -> None:
    async def main(loop: VirtualLoop) -> None:
        failures = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send(start())
            await send(body(b"hi"))
            try:
                await send(body(b"more"))
            except RuntimeError as error:
                failures.append(str(error))

        await Visit(app, loop).send(b"GET / HTTP/1.1\r\nHost: p\r\n\r\n")
        assert failures == ["a body without a head, or after its end"]

    run(main)


def test_expect_is_answered_when_the_body_is_first_read_and_not_before() -> None:
    async def main(loop: VirtualLoop) -> None:
        go = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await go.wait()
            message = await receive()
            await send(start())
            await send(body(message["body"]))

        it = Visit(app, loop)
        head = b"POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        assert await it.send(head) == b""
        go.set()
        assert await it.send() == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert b"\r\n2\r\nhi\r\n" in await it.send(b"hi")

    run(main)


def test_an_answer_before_the_body_was_read_ends_the_connection_without_a_reset() -> None:
    """What follows may be the body or, where the client waited for a 100 in vain, the next request."""

    async def main(loop: VirtualLoop) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send(start(LENGTH, status=413))
            await send(body(b"no"))

        it = Visit(app, loop)
        out = await it.send(
            b"POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 900\r\n\r\n", b"GET / HTTP/1.1\r\nHost: p\r\n\r\n"
        )
        assert out.count(b"HTTP/1.1") == 1
        assert b"connection: close" in out
        assert it.pipe.events == ["eof"]
        await asyncio.sleep(3)
        assert it.pipe.events == ["eof", "close"]

    run(main)


def test_sending_waits_while_the_client_reads_slowly_and_ends_when_it_leaves() -> None:
    async def main(loop: VirtualLoop) -> None:
        done, full = [], []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            full.append(scope["extensions"]["phasegate.room"]() is None)
            await send(start())
            full.append(scope["extensions"]["phasegate.room"]() is None)
            for _ in range(3):
                await send(body(b"x", True))
                done.append(1)

        it = Visit(app, loop)
        it.door.data_received(b"GET / HTTP/1.1\r\nHost: p\r\n\r\n")
        it.door.pause_writing()
        await turns()
        assert (done, bytes(it.pipe.written)) == ([], b"")
        it.door.resume_writing()
        await turns()
        assert (done, full) == ([1, 1, 1], [True, False])

        done.clear()
        slow = Visit(app, loop)
        slow.door.data_received(b"GET / HTTP/1.1\r\nHost: p\r\n\r\n")
        slow.door.pause_writing()
        await turns()
        await slow.leave()
        assert (done, bytes(slow.pipe.written)) == ([1, 1, 1], b"")

    run(main)


def test_head_and_what_follows_at_once_are_one_write() -> None:
    async def main(loop: VirtualLoop) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send(start())
            await send(body(b"hi", True))
            await asyncio.sleep(1)
            await send(body(b"ho", True))
            await send(body())

        it = Visit(app, loop)
        await it.send(b"GET / HTTP/1.1\r\nHost: p\r\n\r\n")
        assert it.pipe.writes == 1
        await asyncio.sleep(2)
        assert it.pipe.writes == 3

    run(main)


def test_a_head_is_not_held_until_there_is_a_body() -> None:
    async def main(loop: VirtualLoop) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send(start())
            await asyncio.Event().wait()

        assert (await Visit(app, loop).send(b"GET / HTTP/1.1\r\nHost: p\r\n\r\n")).endswith(b"chunked\r\n\r\n")

    run(main)


def test_what_is_held_is_dropped_when_the_client_has_left() -> None:
    async def main(loop: VirtualLoop) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send(start())
            it.pipe.close()

        it = Visit(app, loop)
        assert await it.send(b"GET / HTTP/1.1\r\nHost: p\r\n\r\n") == b""

    run(main)


def test_what_belongs_to_a_client_that_left_is_freed_without_the_collector() -> None:
    class Watcher:
        """Knows the scope, and is known to the connection."""

        def __init__(self, scope: Any) -> None:
            self.scope = scope
            self.missed = False

        def left(self) -> None:
            self.missed = True

    async def main(loop: VirtualLoop) -> None:
        kept: list[weakref.ref[Watcher]] = []
        missed: list[bool] = []
        ends = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            watcher = Watcher(scope)
            kept.append(weakref.ref(watcher))
            scope["extensions"]["phasegate.gone"](watcher.left)
            await ends.wait()
            missed.append(watcher.missed)

        it = Visit(app, loop)
        await it.send(b"GET / HTTP/1.1\r\nHost: p\r\n\r\n")
        await it.leave()
        ends.set()
        await turns()
        assert missed == [True]
        assert kept[0]() is None

    gc.disable()
    try:
        run(main)
    finally:
        gc.enable()
