"""The scripted engine plays its script to the nanosecond, and says how each call ended."""

import asyncio

import httpx
import pytest

from tests.support.clock import START_NS, VirtualLoop, run
from tests.support.engine import ScriptedEngine
from tests.support.script import OK, Call, Read, Script

MS = 1_000_000
STREAM = Script(headers=(("content-type", "text/event-stream"),), reads=(Read(5 * MS, b"a"), Read(9 * MS, b"b")))


async def call(engine: ScriptedEngine, method: str = "POST") -> tuple[httpx.Response, list[tuple[int, bytes]]]:
    request = httpx.Request(method, "http://engine.test/x?a=%20b", content=b"body" if method == "POST" else None)
    response = await engine.handle_async_request(request)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    got = [(engine.loop.clock.now_ns() - START_NS, chunk) async for chunk in response.stream]
    await response.stream.aclose()
    return response, got


def test_reads_come_at_their_times() -> None:
    async def main(loop: VirtualLoop) -> None:
        engine = ScriptedEngine(loop, lambda call: STREAM)
        response, got = await call(engine)
        assert got == [(5 * MS, b"a"), (9 * MS, b"b")]
        assert response.headers["transfer-encoding"] == "chunked"
        assert (engine.calls[0].target, engine.calls[0].body) == ("/x?a=%20b", b"body")

    run(main)


@pytest.mark.parametrize(
    ("ending", "error"), [("close", httpx.RemoteProtocolError), ("reset", httpx.ReadError)], ids=["close", "reset"]
)
def test_a_broken_body_raises_after_its_bytes(ending: str, error: type[Exception]) -> None:
    async def main(loop: VirtualLoop) -> None:
        script = Script(reads=STREAM.reads, ending=ending, end_ns=20 * MS)  # type: ignore[arg-type]
        engine = ScriptedEngine(loop, lambda call: script)
        with pytest.raises(error):
            await call(engine)
        assert loop.clock.now_ns() - START_NS == 20 * MS
        assert engine.calls[0].body_sent == b"ab"

    run(main)


def test_a_refusal_reaches_no_engine() -> None:
    async def main(loop: VirtualLoop) -> None:
        engine = ScriptedEngine(loop, lambda call: Script(ending="refuse"))
        with pytest.raises(httpx.ConnectError):
            await call(engine)
        assert engine.calls == []

    run(main)


def test_a_call_that_is_given_up_before_the_head_is_closed_then() -> None:
    async def main(loop: VirtualLoop) -> None:
        engine = ScriptedEngine(loop, lambda call: Script(ending="stall"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await call(engine)
        assert engine.calls[0].closed_ns == START_NS + 2000 * MS

    run(main)


def test_a_length_that_is_not_reached_is_a_broken_body() -> None:
    async def main(loop: VirtualLoop) -> None:
        script = Script(headers=(("content-length", "9"),), reads=STREAM.reads)
        with pytest.raises(httpx.RemoteProtocolError):
            await call(ScriptedEngine(loop, lambda call: script))

    run(main)


def test_a_header_may_have_any_byte() -> None:
    async def main(loop: VirtualLoop) -> None:
        script = Script(headers=(("x", "caf\xe9"),), reads=STREAM.reads)
        response, _ = await call(ScriptedEngine(loop, lambda call: script))
        assert (b"x", b"caf\xe9") in response.headers.raw

    run(main)


def test_head_has_no_body() -> None:
    async def main(loop: VirtualLoop) -> None:
        response, got = await call(ScriptedEngine(loop, lambda call: OK), "HEAD")
        assert (response.status_code, got) == (200, [])

    run(main)


def test_usage_is_sent_only_to_who_asks() -> None:
    told = Call("e", "POST", "/", [], b'{"stream_options":{"include_usage": true}}', 0)
    silent = Call("e", "POST", "/", [], b'{"text":"\\"include_usage\\":true"}', 0)
    assert (told.asks_usage, silent.asks_usage) == (True, False)
