"""Calls to engines: errors are ours, and a body has one true length, whatever transport does the work."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from proxy.errors import ConnectTimeout, EngineBroke, EngineTimeout, EngineUnreachable, Fault, ProxyError
from proxy.relay import Body, Relay

URL = httpx.URL("http://engine:8000")


class Scripted(httpx.AsyncBaseTransport):
    """Answers with one chunk, then fails or ends; keeps the requests."""

    def __init__(self, at_head: Exception | None = None, at_body: Exception | None = None) -> None:
        self.requests: list[httpx.Request] = []
        self.closed = 0
        self._at_head = at_head
        self._at_body = at_body

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self._at_head is not None:
            raise self._at_head
        request.extensions["sent"]()
        return httpx.Response(200, headers=[(b"A", b"\xff")], stream=Chunks(self, self._at_body))

    async def aclose(self) -> None:
        self.closed += 1


class Chunks(httpx.AsyncByteStream):
    def __init__(self, owner: Scripted, failure: Exception | None) -> None:
        self._owner = owner
        self._failure = failure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"one"
        if self._failure is not None:
            raise self._failure

    async def aclose(self) -> None:
        self._owner.closed += 1


async def ask(
    transport: Scripted, body: Body = b"", method: str = "POST", *headers: tuple[bytes, bytes]
) -> list[bytes]:
    answer = await Relay(transport).call(URL, method, b"/t?\xff", headers, body, connect_timeout_s=3)
    assert answer.headers == [(b"A", b"\xff")]
    return [chunk async for chunk in answer]


LEAVES = [
    (httpx.ConnectTimeout("t"), ConnectTimeout, "no connection to the engine at engine:8000 in time"),
    (httpx.ConnectError("refused"), EngineUnreachable, "cannot reach the engine at engine:8000: refused"),
    (httpx.ReadTimeout("t"), EngineTimeout, "the engine at engine:8000 took too long"),
    (httpx.ReadError("said PROMPT"), EngineBroke, "the engine at engine:8000 broke the connection"),
    (httpx.WriteError("said PROMPT"), EngineBroke, "the engine at engine:8000 broke the connection"),
    (httpx.RemoteProtocolError("PROMPT"), EngineBroke, "the answer of the engine at engine:8000 is not HTTP"),
    (httpx.LocalProtocolError("PROMPT"), Fault, "the proxy could not write the request"),
]


@pytest.mark.parametrize(("theirs", "ours", "message"), LEAVES, ids=lambda value: type(value).__name__)
def test_every_error_of_a_transport_is_one_of_ours(theirs: Exception, ours: type[ProxyError], message: str) -> None:
    for transport in (Scripted(at_head=theirs), Scripted(at_body=theirs)):
        with pytest.raises(ours) as caught:
            asyncio.run(ask(transport))
        assert type(caught.value) is ours
        assert str(caught.value) == message
        assert caught.value.__cause__ is theirs


def test_what_the_transport_needs_travels_in_the_extensions() -> None:
    transport = Scripted()
    assert asyncio.run(ask(transport)) == [b"one"]
    (request,) = transport.requests
    assert request.url == URL
    assert request.extensions["target"] == b"/t?\xff"
    assert request.extensions["timeout"] == {"connect": 3}


async def stream() -> AsyncIterator[bytes]:
    yield b"a"


LENGTH = (b"content-length", b"9")


@pytest.mark.parametrize(
    ("method", "body", "given", "framing"),
    [
        ("POST", b"hi", [], [(b"content-length", b"2")]),
        ("POST", b"hi", [LENGTH], [(b"content-length", b"2")]),
        ("GET", b"hi", [], [(b"content-length", b"2")]),
        ("POST", b"", [], [(b"content-length", b"0")]),
        ("GET", b"", [LENGTH], []),
        ("POST", None, [LENGTH], []),
        ("POST", "stream", [LENGTH], [LENGTH]),
        ("POST", "stream", [], [(b"transfer-encoding", b"chunked")]),
    ],
)
def test_a_request_says_its_bodys_length_once(
    method: str, body: Body | str, given: list[tuple[bytes, bytes]], framing: list[tuple[bytes, bytes]]
) -> None:
    transport = Scripted()
    asyncio.run(ask(transport, stream() if isinstance(body, str) else body, method, (b"a", b"b"), *given))
    assert transport.requests[0].headers.raw == [(b"a", b"b"), *framing]


def test_a_streamed_body_is_the_transports_to_read() -> None:
    transport = Scripted()

    async def main() -> list[bytes]:
        await ask(transport, stream())
        assert isinstance(transport.requests[0].stream, httpx.AsyncByteStream)
        return [chunk async for chunk in transport.requests[0].stream]

    assert asyncio.run(main()) == [b"a"]


def test_closing_an_answer_or_the_relay_closes_what_is_below() -> None:
    async def main() -> None:
        transport = Scripted()
        relay = Relay(transport)
        answer = await relay.call(URL, "GET", b"/", [], None, connect_timeout_s=None)
        await answer.aclose()
        assert transport.closed == 1
        await relay.aclose()
        assert transport.closed == 2

    asyncio.run(main())


def test_a_look_up_can_ask_with_a_body_and_a_key() -> None:
    transport = Scripted()
    asyncio.run(Relay(transport).fetch(URL, "/", 1, [(b"authorization", b"k")], b"{}"))
    (request,) = transport.requests
    assert (request.method, b"".join(request.stream)) == ("POST", b"{}")  # type: ignore[arg-type]
    assert request.headers["authorization"] == "k"
    assert request.headers["content-type"] == "application/json"


def test_a_look_up_closes_its_answer() -> None:
    transport = Scripted()
    assert asyncio.run(Relay(transport).fetch(URL, "/", 1)) == (200, [(b"A", b"\xff")], b"one")
    assert transport.closed == 1
