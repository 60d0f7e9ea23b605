"""Slow, greedy and many clients of the admin listener. Real sockets, short limits."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from proxy.office import listener as module
from proxy.office.listener import answer, listen
from tests.support.patience import run

GET = b"GET /%b HTTP/1.1\r\nhost: localhost\r\n\r\n"
LARGE = 8 * 1024 * 1024
"""More than sockets hold."""

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def _small(request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok\n")


async def _large(request: Request) -> PlainTextResponse:
    return PlainTextResponse("x" * LARGE)


APP = Starlette(routes=[Route("/small", _small, methods=["GET", "POST"]), Route("/large", _large)])


@asynccontextmanager
async def answering() -> AsyncIterator[Connect]:
    """A listener; connections to it."""
    bound = listen("127.0.0.1", 0)
    assert bound is not None
    port = bound.getsockname()[1]
    task = asyncio.create_task(answer(APP, bound))
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
        writers.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in writers:
            writer.close()
        task.cancel()
        await asyncio.wait([task])


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What came until the end, however the connection ended."""
    seen = b""
    try:
        while part := await reader.read(1 << 16):
            seen += part
    except ConnectionError:
        pass
    return seen


async def asked(connect: Connect) -> bytes:
    """One request of a client that does as it should; the status line."""
    reader, writer = await connect()
    writer.write(GET % b"small")
    return await reader.readline()


def test_a_client_is_answered_on_one_connection_again_and_again() -> None:
    async def test() -> None:
        async with answering() as connect:
            reader, writer = await connect()
            for _ in range(3):
                writer.write(GET % b"small")
                assert await reader.readuntil(b"ok\n")
            writer.write(GET % b"small" * 2)  # the second one waits behind the first
            for _ in range(2):
                assert await reader.readuntil(b"ok\n")

    run(test)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /small HTTP/1.1\r\nhost: loc",
        b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n1",
        GET % b"small" + b"\r\n",
        GET % b"small" + b"GET /sm",
        GET % b"large",
        GET % b"small" + GET % b"large",
    ],
    ids=["silent", "half a head", "half a body", "a line end", "half of the next", "reads nothing", "pipelines so"],
)
def test_whoever_takes_too_long_is_cut(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(module, "REQUEST_S", 0.3)
    monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.3)

    async def test() -> None:
        async with answering() as connect:
            reader, writer = await connect()
            writer.write(sent)
            if b"large" in sent:
                await asyncio.sleep(1)
            assert len(await ended(reader)) < LARGE

    run(test)


def test_an_answer_that_took_its_time_costs_the_next_request_none_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_S", 1.0)

    async def test() -> None:
        async with answering() as connect:
            reader, writer = await connect()
            for _ in range(4):
                writer.write(GET % b"large")
                seen = 0
                while seen < LARGE:
                    seen += len(await reader.read(1 << 20))
                await asyncio.sleep(0.4)

    run(test)


def test_a_head_that_drips_is_cut_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_S", 0.3)

    async def test() -> None:
        async with answering() as connect:
            reader, writer = await connect()
            end = asyncio.create_task(ended(reader))
            while not end.done():
                writer.write(b"x")
                await asyncio.sleep(0.02)

    run(test)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /small HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /small HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /small HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999999\r\n\r\n",
    ],
    ids=["head", "chunks", "length"],
)
def test_a_request_without_an_end_is_cut(head: bytes) -> None:
    part = b"4000\r\n" + b"a" * 0x4000 + b"\r\n" if b"chunked" in head else b"x: " + b"a" * 0x4000 + b"\r\n"

    async def test() -> None:
        async with answering() as connect:
            reader, writer = await connect()
            writer.write(head)
            end = asyncio.create_task(ended(reader))
            sent = 0
            while not end.done():
                writer.write(part)
                sent += len(part)
                await asyncio.sleep(0.001)
            assert sent < 100 * module.REQUEST_BYTES

    run(test)


def test_whoever_squats_all_connections_locks_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 4)

    async def test() -> None:
        async with answering() as connect:
            squatters = [await connect() for _ in range(20)]
            for _, writer in squatters[10:]:
                writer.write(GET % b"large")
            for _ in range(10):
                assert (await asked(connect)).startswith(b"HTTP/1.1 200")
            assert all([await ended(reader) == b"" for reader, _ in squatters[:10]])

    run(test)


def test_of_two_that_are_there_the_one_that_asks_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 2)

    async def test() -> None:
        async with answering() as connect:
            reader, writer = await connect()
            writer.write(GET % b"small")
            await reader.readuntil(b"ok\n")
            silent, _ = await connect()
            writer.write(GET % b"small")
            await reader.readuntil(b"ok\n")
            await asked(connect)
            assert await ended(silent) == b""
            writer.write(GET % b"small")
            assert await reader.readuntil(b"ok\n")

    run(test)


def test_an_answer_that_is_read_slowly_but_in_time_is_whole() -> None:
    async def test() -> None:
        async with answering() as connect:
            reader, writer = await connect()
            writer.write(GET % b"large")
            await asyncio.sleep(0.2)
            seen = 0
            while seen < LARGE:
                seen += len(await reader.read(1 << 16))

    run(test)


def test_when_it_ends_every_connection_is_cut() -> None:
    async def test() -> None:
        async with answering() as connect:
            reader, writer = await connect()
            writer.write(GET % b"small")
            await reader.readuntil(b"ok\n")
        assert await ended(reader) == b""

    run(test)


def test_an_address_that_is_taken_is_an_error_in_the_log_and_no_more() -> None:
    first = listen("127.0.0.1", 0)
    assert isinstance(first, socket.socket)
    with first, capture_logs() as logs:
        assert listen("127.0.0.1", first.getsockname()[1]) is None
    assert logs[0]["event"] == "admin_not_listening"
    assert logs[0]["address"].startswith("127.0.0.1:")
