"""A listening address on the loopback: it starts, stops taking requests, and breaks off what is left."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from proxy.cli.listener import Listener

GET = b"GET / HTTP/1.1\r\nHost: p\r\n\r\n"


@contextlib.asynccontextmanager
async def connected(listener: Listener) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*listener.addresses[0])
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


def test_it_serves_until_it_is_told_to_stop() -> None:
    async def main() -> None:
        listener = Listener(hello, "127.0.0.1", 0)
        assert listener.addresses == []
        listener.stop_accepting()
        await listener.start()
        ((host, port),) = listener.addresses
        async with connected(listener) as (reader, writer), connected(listener) as (idle, idle_writer):
            writer.write(GET)
            assert (await reader.readuntil(b"hi")).startswith(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
            writer.write(b"nonsense\r\n\r\n")
            assert b"400 Bad Request" in await reader.read()
            assert listener.malformed == 1
            idle_writer.write(GET)
            await idle.readuntil(b"hi")
            listener.stop_accepting()
            assert await idle.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, port)

    asyncio.run(main())


def test_abort_breaks_off_what_still_runs() -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def forever(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            begun.set()
            while (await receive())["type"] != "http.disconnect":
                pass

        listener = Listener(forever, "127.0.0.1", 0)
        await listener.start()
        async with connected(listener) as (reader, writer):
            writer.write(GET)
            await begun.wait()
            listener.stop_accepting()
            listener.abort()
            assert (await reader.read()).endswith(b"chunked\r\n\r\n")

    asyncio.run(main())


def test_an_address_that_is_taken_is_an_oserror() -> None:
    async def main() -> None:
        first = Listener(hello, "127.0.0.1", 0)
        await first.start()
        with pytest.raises(OSError, match="in use"):
            await Listener(hello, *first.addresses[0]).start()
        first.stop_accepting()

    asyncio.run(main())
