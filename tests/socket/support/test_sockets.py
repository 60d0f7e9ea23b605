"""Scripted engine and client against one another, over real sockets."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.client import Answer, Request, SocketClient, simple_request
from tests.support.engine import SocketEngine
from tests.support.script import Read, Script

MS = 1_000_000
CHUNKED = Script(headers=(("content-type", "text/plain"),), reads=(Read(0, b"hel"), Read(20 * MS, b"lo")))
Play = Callable[[SocketEngine, SocketClient], Coroutine[Any, Any, None]]


def against(script: Script, play: Play, **more: Any) -> SocketEngine:
    """Play against an engine that does the same to every request."""

    async def main() -> SocketEngine:
        engine = SocketEngine(lambda call: script, **more)
        await engine.start()
        try:
            await play(engine, SocketClient("127.0.0.1", engine.port))
        finally:
            await engine.stop()
        return engine

    return asyncio.run(main())


def ask(script: Script, request: Request) -> tuple[Answer, SocketEngine]:
    answers: list[Answer] = []

    async def play(engine: SocketEngine, client: SocketClient) -> None:
        answers.append(await client.ask(request))

    engine = against(script, play)
    return answers[0], engine


def test_a_chunked_answer_comes_whole_and_in_time() -> None:
    answer, engine = ask(CHUNKED, simple_request(b"{}"))
    assert (answer.status, answer.body, answer.end) == (200, b"hello", "complete")
    assert answer.chunks[-1][0] - answer.began_ns >= 20 * MS
    assert (engine.calls[0].body, engine.calls[0].closed_ns) == (b"{}", None)


def test_a_chunked_request_is_read_whole() -> None:
    pieces = ((0, b"ab"), (10 * MS, b"c"))
    request = Request(headers=(("host", "x"), ("transfer-encoding", "chunked")), pieces=pieces)
    _, engine = ask(CHUNKED, request)
    assert engine.calls[0].body == b"abc"


@pytest.mark.parametrize("ending", ["close", "reset"])
def test_a_broken_answer_is_told_from_a_whole_one(ending: Any) -> None:
    answer, _ = ask(Script(reads=CHUNKED.reads, ending=ending), simple_request(b"{}"))
    assert answer.end == "aborted"


def test_an_engine_may_die_before_its_head() -> None:
    script = Script(reads=CHUNKED.reads, ending="reset", head_ns=5_000 * MS, end_ns=50 * MS)
    answer, engine = ask(script, simple_request(b"{}"))
    assert (answer.status, answer.end, engine.calls[0].sent) == (None, None, [])


def test_a_reset_is_no_end_of_a_body_that_lasts_until_the_close() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhel")
        await writer.drain()
        if endings.pop(0) == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await asyncio.sleep(0.05)
            writer.transport.abort()
        writer.close()

    async def main() -> list[str | None]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = SocketClient("127.0.0.1", server.sockets[0].getsockname()[1])
        ends = [(await client.ask(simple_request())).end for _ in range(2)]
        server.close()
        return ends

    endings = ["reset", "close"]
    assert asyncio.run(main()) == ["aborted", "complete"]


@pytest.mark.parametrize(
    "headers", [(("transfer-encoding", "chunked"),), (("content-length", "35"), ("transfer-encoding", "chunked"))]
)
def test_framing_that_the_script_states_is_stated_once_and_true(headers: Any) -> None:
    answer, _ = ask(Script(headers=headers, reads=CHUNKED.reads), simple_request(b"{}"))
    assert (answer.body, answer.end) == (b"hello", "complete")
    assert [name for name, _ in answer.headers].count("transfer-encoding") == 1


def test_a_client_that_leaves_is_seen_by_the_engine() -> None:
    async def play(engine: SocketEngine, client: SocketClient) -> None:
        answer = await client.ask(simple_request(b"{}", leaves_ns=50 * MS))
        assert (answer.status, answer.end) == (None, None)
        assert answer.left_ns is not None
        await asyncio.sleep(0.05)
        closed_ns = engine.calls[0].closed_ns
        assert closed_ns is not None
        assert closed_ns >= answer.left_ns

    against(Script(ending="stall"), play)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def play(engine: SocketEngine, client: SocketClient) -> None:
        one = b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\n"
        answers = await client.speak(((0, one + one.replace(b"/1", b"/2"), False),), ("GET", "GET"))
        assert [answer.body for answer in answers] == [b"hello", b"hello"]
        assert [call.target for call in engine.calls] == ["/1", "/2"]

    against(CHUNKED, play)


def test_an_idle_connection_is_closed() -> None:
    async def play(engine: SocketEngine, client: SocketClient) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", engine.port)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()

    against(CHUNKED, play, idle_close_s=0.05)


def test_an_engine_that_is_stopped_refuses_and_comes_back_on_its_port() -> None:
    async def play(engine: SocketEngine, client: SocketClient) -> None:
        await engine.stop()
        with pytest.raises(ConnectionRefusedError):
            await client.ask(simple_request())
        await engine.start()
        assert (await client.ask(simple_request())).status == 200

    against(CHUNKED, play)
