"""The wire to the engines, on real loopback connections: bytes, framing, reuse, endings."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import uvloop

from proxy import idle, line, transport
from proxy.errors import ConnectTimeout, EngineBroke, EngineTimeout, EngineUnreachable, Fault, ProxyError
from proxy.relay import Answer, Body, Relay
from proxy.transport import Wire
from tests.support.loopback import Peer, Play, engine

T = TypeVar("T")

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CERTIFICATE = str(Path(__file__).parent / "engine.pem")


class Session:
    """A relay and one engine's address; counts how often a request went out whole."""

    def __init__(self, port: int, host: str = "127.0.0.1", scheme: str = "http", trust: str | None = None) -> None:
        self.url = httpx.URL(f"{scheme}://{host}:{port}")
        self.relay = Relay(Wire({f"{host}:{port}": trust} if trust else None))
        self.sent = 0

    async def call(
        self, body: Body = b"body", method: str = "POST", target: bytes = b"/t", timeout_s: float = 2
    ) -> Answer:
        return await self.relay.call(
            self.url, method, target, [(b"host", b"e")], body, connect_timeout_s=timeout_s, sent=self._sent
        )

    async def ask(self, body: Body = b"body", method: str = "POST") -> bytes:
        answer = await self.call(body, method)
        return b"".join([chunk async for chunk in answer])

    def _sent(self) -> None:
        self.sent += 1


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """On the loop that is shipped."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def served(test: Callable[[Session], Awaitable[None]], play: Play) -> None:
    """Runs `test` against an engine that does `play`; afterwards no task and no connection is left."""

    async def main() -> None:
        async with asyncio.timeout(10), engine(play) as port:
            session = Session(port)
            await test(session)
            await session.relay.aclose()
            await asyncio.sleep(0)
            ours = [task for task in asyncio.all_tasks() if "proxy/transport" in str(task.get_coro())]
            assert ours == []

    run(main)


async def whole(peer: Peer) -> None:
    """Answers every request of 4 bytes with OK."""
    while True:
        await peer.request(4)
        peer.say(OK)


async def broken(session: Session, body: Body = b"body") -> tuple[list[bytes], ProxyError]:
    """The chunks that came, and why no more."""
    chunks: list[bytes] = []
    try:
        answer = await session.call(body)
        async for chunk in answer:
            chunks.append(chunk)
    except ProxyError as error:
        return chunks, error
    raise AssertionError("a whole answer")


# --- bytes ---


def test_every_byte_of_target_and_headers_goes_out_as_given() -> None:
    target = bytes(c for c in range(0x21, 0x100) if c != 0x7F)
    headers = [(b"host", b"e"), (b"b", b"\xff\xc3 x"), (b"a", b""), (b"b", b"2"), (b"cookie", b"c")]

    async def play(peer: Peer) -> None:
        want = (
            b"PATCH /"
            + target
            + b" HTTP/1.1\r\nhost: e\r\nb: \xff\xc3 x\r\na: \r\nb: 2\r\ncookie: c\r\ncontent-length: 1\r\n\r\nx"
        )
        assert await peer.reader.readexactly(len(want)) == want
        peer.say(OK)

    async def test(session: Session) -> None:
        answer = await session.relay.call(session.url, "PATCH", b"/" + target, headers, b"x", connect_timeout_s=None)
        await answer.aclose()

    served(test, play)


@pytest.mark.parametrize(
    ("method", "body", "framing"),
    [
        ("POST", b"", b"content-length: 0\r\n"),
        ("GET", b"", b""),
        ("POST", None, b""),
        ("DELETE", b"hi", b"content-length: 2\r\n"),
    ],
)
def test_a_body_has_one_true_length(method: str, body: bytes | None, framing: bytes) -> None:
    async def play(peer: Peer) -> None:
        assert await peer.head() == method.encode() + b" /t HTTP/1.1\r\nhost: e\r\n" + framing + b"\r\n"
        assert await peer.reader.readexactly(len(body or b"")) == (body or b"")
        peer.say(OK)

    async def test(session: Session) -> None:
        assert await session.ask(body, method) == b"hi"

    served(test, play)


def test_a_line_end_in_target_or_header_never_reaches_the_engine() -> None:
    async def play(peer: Peer) -> None:
        assert await peer.reader.read() == b""

    async def test(session: Session) -> None:
        for target, value in ((b"/a b", b"c"), (b"/a\r\nX: y", b"c"), (b"/a", b"b\r\nX: y"), (b"/a", b"b\0")):
            with pytest.raises(Fault):
                await session.relay.call(session.url, "GET", target, [(b"a", value)], None, connect_timeout_s=1)

    served(test, play)


def test_an_answers_headers_come_as_they_were() -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(
            b"HTTP/1.1 299 Odd\r\nSet-Cookie: a=1\r\nX-A:  \xff\xc3 \r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n"
        )

    async def test(session: Session) -> None:
        answer = await session.call()
        assert answer.status == 299
        assert answer.headers == [
            (b"Set-Cookie", b"a=1"), (b"X-A", b"\xff\xc3"), (b"Set-Cookie", b"b=2"), (b"Content-Length", b"0"),
        ]  # fmt: skip
        assert [chunk async for chunk in answer] == []

    served(test, play)


def test_a_cookie_set_for_one_call_is_not_sent_with_another() -> None:
    async def play(peer: Peer) -> None:
        for _ in range(2):
            assert b"cookie" not in (await peer.request(4)).lower()
            peer.say(b"HTTP/1.1 200 OK\r\nset-cookie: a=1\r\ncontent-length: 0\r\n\r\n")

    async def test(session: Session) -> None:
        await session.ask()
        await session.ask()

    served(test, play)


# --- chunks ---


def test_a_chunk_is_what_one_read_brought() -> None:
    read = asyncio.Queue[None]()

    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(CHUNKED + b"1\r\na\r\n1\r\nb\r\n")
        await read.get()
        peer.say(b"2\r\ncd\r\n")
        await read.get()
        peer.say(b"1\r\ne\r\n0\r\nTrailer: x\r\n\r\n")

    async def test(session: Session) -> None:
        answer = await session.call()
        chunks = []
        async for chunk in answer:
            chunks.append(chunk)
            read.put_nowait(None)
        assert chunks == [b"ab", b"cd", b"e"]

    served(test, play)


def test_a_client_that_does_not_read_holds_the_engine_back() -> None:
    size = 16 * 1024 * 1024
    filled = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await peer.writer.drain()
                raise AssertionError("not held back")
        filled.set()
        await peer.writer.drain()
        await peer.gone()

    async def test(session: Session) -> None:
        answer = await session.call()
        await filled.wait()
        chunks = [len(chunk) async for chunk in answer]
        assert sum(chunks) == size
        assert max(chunks) <= line.READ_BUFFER + 256 * 1024

    served(test, play)


# --- framing of answers ---


def test_interim_answers_are_swallowed() -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK)

    async def test(session: Session) -> None:
        assert await session.ask() == b"hi"

    served(test, play)


@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 900\r\n\r\n"),
        ("GET", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ],
)
def test_an_answer_without_a_body_ends_with_its_head_and_the_connection_is_used_again(method: str, head: bytes) -> None:
    async def play(peer: Peer) -> None:
        for _ in range(2):
            await peer.head()
            peer.say(head)

    async def test(session: Session) -> None:
        assert await session.ask(None, method) == b""
        assert await session.ask(None, method) == b""

    served(test, play)


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"])
def test_a_body_that_ends_with_its_connection_is_whole(head: bytes) -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(head + b"hi")

    async def test(session: Session) -> None:
        assert await session.ask() == b"hi"

    served(test, play)


@pytest.mark.parametrize(
    "head", [CHUNKED + b"2\r\nhi\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi"], ids=["chunked", "length"]
)
def test_framing_that_breaks_off_says_so_after_the_last_byte(head: bytes) -> None:
    over = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(head)
        await peer.hang_up()
        over.set()

    async def test(session: Session) -> None:
        answer = await session.call()
        await over.wait()  # both the bytes and the break are there before the first is read
        assert await anext(answer) == b"hi"
        with pytest.raises(EngineBroke, match="broke"):
            await anext(answer)
        await answer.aclose()

    served(test, play)


def test_garbage_in_a_body_breaks_it_after_the_last_good_byte() -> None:
    read = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(CHUNKED + b"2\r\nhi\r\n")
        await read.wait()
        peer.say(b"2\r\nho\r\nzz\r\n")

    async def test(session: Session) -> None:
        answer = await session.call()
        assert await anext(answer) == b"hi"
        read.set()
        assert await anext(answer) == b"ho"
        with pytest.raises(EngineBroke, match="not HTTP"):
            await anext(answer)

    served(test, play)


@pytest.mark.parametrize("apart", [False, True], ids=["with the head", "in pieces"])
@pytest.mark.parametrize(
    ("method", "said", "whole"),
    [
        ("POST", OK + b" there", b"hi"),
        ("POST", OK + b"HTTP/1.1 2", b"hi"),
        ("POST", CHUNKED + b"2\r\nhi\r\n0\r\n\r\nzz", b"hi"),
        ("POST", OK + b"HTTP/1.1 200 OK\r\nx: \0\r\ny:", b"hi"),
        ("POST", b"HTTP/1.1 204 No Content\r\n\r\nhi", b""),
        ("POST", b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"zz", b"hi"),
        ("POST", OK + OK, b"hi"),
        ("HEAD", OK, b""),
    ],
)
def test_what_comes_behind_a_whole_answer_does_not_spoil_it(
    method: str, said: bytes, whole: bytes, apart: bool
) -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        for at in range(0, len(said), 7 if apart else len(said)):
            peer.say(said[at : at + (7 if apart else len(said))])
            await asyncio.sleep(0.001)
        await peer.gone()

    async def test(session: Session) -> None:
        assert await session.ask(method=method) == whole
        assert await session.ask(method=method) == whole

    served(test, play)


def test_an_answer_without_a_body_is_whole_whatever_becomes_of_its_connection() -> None:
    read, over = asyncio.Event(), asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(b"HTTP/1.1 204 No Content\r\n\r\n")
        await read.wait()
        peer.reset()
        await peer.hang_up()
        over.set()

    async def test(session: Session) -> None:
        answer = await session.call()
        read.set()
        await over.wait()
        assert [chunk async for chunk in answer] == []

    served(test, play)


def test_an_empty_line_behind_an_answer_is_nothing() -> None:
    async def play(peer: Peer) -> None:
        while True:
            await peer.request(4)
            peer.say(CHUNKED + b"2\r\nhi\r\n0\r\n\r\n\r\n")

    async def test(session: Session) -> None:
        assert await session.ask() == b"hi"
        assert await session.ask() == b"hi"

    served(test, play)


def test_a_good_chunk_comes_before_garbage_of_the_same_read() -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(CHUNKED + b"2\r\nhi\r\nzz\r\n")

    async def test(session: Session) -> None:
        chunks, error = await broken(session)
        assert (chunks, type(error)) == ([b"hi"], EngineBroke)

    served(test, play)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: y\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: %b2\r\n\r\nhi" % (b"0" * 5_000),
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    ],
)
def test_a_length_said_twice_is_a_length_where_it_is_clear(head: bytes) -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(head)

    async def test(session: Session) -> None:
        assert await session.ask() == b"hi"

    served(test, play)


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"gzip", b"gzip\r\ntransfer-encoding: chunked"])
def test_a_coding_that_nobody_asked_for_is_no_answer(coding: bytes) -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: %b\r\n\r\n2\r\nhi\r\n0\r\n\r\n" % coding)

    async def test(session: Session) -> None:
        with pytest.raises(EngineBroke):
            await session.ask()

    served(test, play)


@pytest.mark.parametrize("endless", [b"0\r\nx: ", b"0\r\n", b"2;"], ids=["a trailer", "trailers", "an extension"])
def test_chunks_do_not_end_in_something_endless(endless: bytes) -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n" + endless)
        for _ in range(8):
            peer.say(b"a:b\r\n" * 11_000 if endless == b"0\r\n" else b"a" * 66_000)
            await asyncio.sleep(0.001)
        await peer.gone()

    async def test(session: Session) -> None:
        chunks, error = await broken(session)
        assert (b"".join(chunks), type(error)) == (b"hi", EngineBroke)

    served(test, play)


def test_trailers_end_here_as_their_chunks_do() -> None:
    async def play(peer: Peer) -> None:
        for _ in range(2):
            await peer.request(4)
            peer.say(CHUNKED + b"2\r\nhi\r\n0\r\nx-sum: 1\r\nx-end: 5\r\n\r\n")
        await peer.gone()

    async def test(session: Session) -> None:
        for _ in range(2):
            answer = await session.call()
            assert b"".join([chunk async for chunk in answer]) == b"hi"
            assert b"x-sum" not in dict(answer.headers)

    served(test, play)


def test_a_reset_is_no_end_of_a_body_that_ends_with_its_connection() -> None:
    read = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(b"HTTP/1.1 200 OK\r\n\r\nhi")
        await read.wait()
        peer.reset()

    async def test(session: Session) -> None:
        answer = await session.call()
        assert await anext(answer) == b"hi"
        read.set()
        with pytest.raises(EngineBroke):
            await anext(answer)

    served(test, play)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0 x\r\n",
        b"\x16\x03\x01",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\rb: c\r\ncontent-length: 0\r\n\r\n",
        b"",
    ],
    ids=["ssh", "tls", "no status", "an upgrade", "two lines for some", "nothing"],
)
def test_what_is_no_answer_breaks_the_call_and_quotes_nothing(said: bytes) -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(said)

    async def test(session: Session) -> None:
        chunks, error = await broken(session)
        assert (chunks, type(error)) == ([], EngineBroke)
        assert "127.0.0.1:" in str(error)
        assert "SSH" not in str(error)

    served(test, play)


# --- reuse and the declared retry ---


def test_a_connection_is_used_again_and_closed_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "IDLE_S", 0.3)
    closed = asyncio.Event()

    async def play(peer: Peer) -> None:
        assert peer.number == 0
        for _ in range(3):
            await peer.request(4)
            peer.say(OK)
        await peer.gone()
        closed.set()

    async def test(session: Session) -> None:
        for _ in range(3):
            assert await session.ask() == b"hi"
        await closed.wait()

    served(test, play)


def test_a_reused_connection_that_dies_silently_is_replaced_once() -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        if peer.number == 0:
            peer.say(OK)
            await peer.request(4)
        if peer.number in (0, 2):
            return
        peer.say(OK)
        await peer.request(4)

    async def test(session: Session) -> None:
        assert await session.ask() == b"hi"
        assert await session.ask() == b"hi"
        assert session.sent == 3
        chunks, error = await broken(session)
        assert (chunks, type(error), session.sent) == ([], EngineBroke, 5)

    served(test, play)


def test_a_reused_connection_that_dies_over_a_request_takes_it_along() -> None:
    """An engine that dies of a prompt is not given it again."""

    async def play(peer: Peer) -> None:
        assert peer.number == 0
        await peer.request(4)
        peer.say(OK)
        await peer.request(4)
        await asyncio.sleep(2 * transport.STALE_S)  # longer than here a round trip takes, too

    async def test(session: Session) -> None:
        assert await session.ask() == b"hi"
        assert isinstance((await broken(session))[1], EngineBroke)
        assert session.sent == 2

    served(test, play)


def test_an_empty_line_on_a_dying_connection_is_no_byte_of_an_answer() -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(OK)
        if peer.number == 0:
            await peer.request(4)
            peer.say(b"\r\n")  # and hangs up

    async def test(session: Session) -> None:
        assert await session.ask() == b"hi"
        assert await session.ask() == b"hi"

    served(test, play)


def test_a_fresh_connection_that_dies_is_not_replaced() -> None:
    async def play(peer: Peer) -> None:
        assert peer.number == 0
        await peer.request(4)

    async def test(session: Session) -> None:
        assert isinstance((await broken(session))[1], EngineBroke)
        assert session.sent == 1

    served(test, play)


def test_nothing_is_asked_again_once_a_byte_came() -> None:
    async def play(peer: Peer) -> None:
        assert peer.number == 0
        await peer.request(4)
        peer.say(OK)
        await peer.request(4)
        peer.say(b"H")
        await peer.writer.drain()
        peer.reset()

    async def test(session: Session) -> None:
        await session.ask()
        assert isinstance((await broken(session))[1], EngineBroke)
        assert session.sent == 2

    served(test, play)


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def test_a_streamed_body_is_never_asked_again() -> None:
    async def play(peer: Peer) -> None:
        assert peer.number == 0
        await peer.head()

    async def test(session: Session) -> None:
        assert isinstance((await broken(session, pieces(b"a")))[1], EngineBroke)

    served(test, play)


def test_a_streamed_body_never_meets_a_connection_that_may_be_dying() -> None:
    async def play(peer: Peer) -> None:
        if peer.number == 0:
            await peer.request(4)
            peer.say(OK)
            await peer.head()  # and hangs up
        else:
            await peer.head()
            assert await peer.reader.readexactly(11) == b"1\r\na\r\n0\r\n\r\n"
            peer.say(OK)

    async def test(session: Session) -> None:
        await session.ask()
        assert await session.ask(pieces(b"a")) == b"hi"

    served(test, play)


def test_what_an_idle_connection_says_unasked_is_nobodys_answer() -> None:
    unasked, said = asyncio.Event(), asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(OK)
        if peer.number == 0:
            await peer.writer.drain()
            await unasked.wait()
            peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstale")
            await asyncio.sleep(0)
            said.set()
            await peer.gone()

    async def test(session: Session) -> None:
        await session.ask()
        unasked.set()
        await said.wait()
        await asyncio.sleep(0)  # the loop has read it
        assert await session.ask() == b"hi"

    served(test, play)


def test_what_stands_unread_in_an_idle_connection_is_nobodys_answer() -> None:
    ends: list[int] = []

    async def play(peer: Peer) -> None:
        ends.append(peer.writer.get_extra_info("socket").fileno())
        await whole(peer)

    async def test(session: Session) -> None:
        assert await session.ask() == b"hi"
        os.write(ends[0], b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstale")
        assert await session.ask() == b"hi"  # the loop had no turn to read it
        assert len(ends) == 2

    served(test, play)


def test_an_engine_that_answers_more_than_was_asked_loses_its_connection() -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(OK + OK)
        await peer.gone()

    async def test(session: Session) -> None:
        assert await session.ask() == b"hi"
        assert await session.ask() == b"hi"

    served(test, play)


# --- bodies that stream ---


@pytest.mark.parametrize("declared", [True, False])
def test_a_streamed_body_keeps_its_length_or_goes_in_chunks(declared: bool) -> None:
    framed = b"abc" if declared else b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"

    async def play(peer: Peer) -> None:
        head = await peer.head()
        assert (b"content-length: 3" in head, b"transfer-encoding: chunked" in head) == (declared, not declared)
        assert await peer.reader.readexactly(len(framed)) == framed
        peer.say(OK)

    async def test(session: Session) -> None:
        headers = [(b"host", b"e"), *([(b"content-length", b"3")] if declared else [])]
        answer = await session.relay.call(
            session.url, "PUT", b"/", headers, pieces(b"a", b"", b"bc"), connect_timeout_s=1, sent=session._sent
        )
        assert [chunk async for chunk in answer] == [b"hi"]
        assert session.sent == 1

    served(test, play)


@pytest.mark.parametrize("length", [b"2", b"4"])
def test_a_streamed_body_of_another_length_than_said_breaks_the_call(length: bytes) -> None:
    async def test(session: Session) -> None:
        with pytest.raises(Fault):
            await session.relay.call(
                session.url, "PUT", b"/", [(b"content-length", length)], pieces(b"a", b"bc"), connect_timeout_s=1
            )

    served(test, Peer.gone)


class Left(ProxyError):
    """The client left while it sent."""


async def leaves() -> AsyncIterator[bytes]:
    yield b"a"
    raise Left("gone")


def test_what_a_streamed_body_raises_comes_through_and_the_engine_sees_a_broken_request() -> None:
    seen = asyncio.Queue[bytes]()

    async def play(peer: Peer) -> None:
        await peer.head()
        seen.put_nowait(await peer.reader.read())

    async def test(session: Session) -> None:
        with pytest.raises(Left):
            await session.call(leaves())
        assert await seen.get() == b"1\r\na\r\n"
        assert session.sent == 0

    served(test, play)


def test_a_client_that_leaves_while_an_answer_already_comes_ends_it() -> None:
    go = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        await go.wait()
        raise Left("gone")
        yield b""

    async def play(peer: Peer) -> None:
        await peer.head()
        peer.say(CHUNKED + b"2\r\nhi\r\n")
        await peer.gone()

    async def test(session: Session) -> None:
        answer = await session.call(body())
        assert await anext(answer) == b"hi"
        go.set()
        with pytest.raises(Left):
            await anext(answer)
        await answer.aclose()

    served(test, play)


def test_an_early_answer_is_heard_while_the_body_still_streams() -> None:
    never = asyncio.Event()
    closed = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"a"
        await never.wait()

    async def play(peer: Peer) -> None:
        await peer.head()
        peer.say(OK)
        await peer.gone()
        closed.set()

    async def test(session: Session) -> None:
        answer = await session.call(body())
        assert [chunk async for chunk in answer] == [b"hi"]
        await answer.aclose()
        await closed.wait()

    served(test, play)


def test_an_engine_that_answers_before_it_has_the_body_is_asked_no_more_on_this_connection() -> None:
    """It may take what it did not read for a request, and answer that to whoever asks next."""
    go = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"a"
        await go.wait()
        yield b"b"

    async def play(peer: Peer) -> None:
        if peer.number == 0:
            await peer.head()
            peer.say(CHUNKED + b"2\r\nhi\r\n")
            await peer.reader.readuntil(b"0\r\n\r\n")
            peer.say(b"0\r\n\r\n")
            await peer.gone()
        else:
            await whole(peer)

    async def test(session: Session) -> None:
        answer = await session.call(body())
        assert await anext(answer) == b"hi"
        go.set()
        assert [chunk async for chunk in answer] == []
        await answer.aclose()
        assert await session.ask() == b"hi"

    served(test, play)


def test_sent_is_said_before_the_write_and_again_when_the_system_has_what_it_did_not_take_at_once() -> None:
    size = 16 * 1024 * 1024
    here, go = asyncio.Event(), asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.head()
        here.set()
        await go.wait()
        await peer.reader.readexactly(size)
        peer.say(OK)

    async def test(session: Session) -> None:
        call = asyncio.ensure_future(session.call(b"x" * size))
        await here.wait()
        assert session.sent == 1
        go.set()
        answer = await call
        assert session.sent == 2
        assert [chunk async for chunk in answer] == [b"hi"]

    served(test, play)


def test_an_engine_that_refuses_a_large_body_and_hangs_up_is_heard() -> None:
    async def play(peer: Peer) -> None:
        await peer.head()
        peer.say(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno")
        await peer.writer.drain()
        peer.writer.write_eof()
        await peer.gone()

    async def test(session: Session) -> None:
        answer = await session.call(b"x" * (16 * 1024 * 1024))
        assert answer.status == 413
        assert [chunk async for chunk in answer] == [b"no"]
        await answer.aclose()

    served(test, play)


# --- endings ---


def test_closing_an_answer_closes_the_engines_connection_at_once() -> None:
    closed = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(CHUNKED + b"2\r\nhi\r\n")
        await peer.gone()
        closed.set()

    async def test(session: Session) -> None:
        answer = await session.call()
        assert await anext(answer) == b"hi"
        await answer.aclose()
        await answer.aclose()
        assert [chunk async for chunk in answer] == []
        async with asyncio.timeout(2):
            await closed.wait()

    served(test, play)


def test_closing_wakes_whoever_still_reads() -> None:
    async def play(peer: Peer) -> None:
        await peer.request(4)
        peer.say(CHUNKED)
        await peer.gone()

    async def test(session: Session) -> None:
        answer = await session.call()
        reading = asyncio.ensure_future(anext(answer))
        await asyncio.sleep(0)
        await answer.aclose()
        with pytest.raises(EngineBroke):
            await reading

    served(test, play)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("when", ["head", "body"])
def test_cancelling_leaves_no_connection_and_no_task(when: str, streamed: bool) -> None:
    reached, closed = asyncio.Event(), asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.head()
        if when == "body":
            peer.say(CHUNKED + b"2\r\nhi\r\n")
        reached.set()
        await peer.gone()
        closed.set()

    async def body() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.Event().wait()

    async def exchange(session: Session) -> None:
        answer = await session.call(body() if streamed else b"body")
        try:
            async for _ in answer:
                pass
        finally:
            await answer.aclose()

    async def test(session: Session) -> None:
        task = asyncio.ensure_future(exchange(session))
        await reached.wait()
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(2):
            await closed.wait()

    served(test, play)


# --- addresses ---


def on(host: str, called: str, tls: ssl.SSLContext | None = None, **session: str) -> bytes:
    """The answer of an engine that listens on `host` and is called by another name."""

    async def main() -> bytes:
        async with asyncio.timeout(5), engine(whole, host, tls) as port:
            it = Session(port, called, **session)
            try:
                return await it.ask()
            finally:
                await it.relay.aclose()

    return run(main)


def test_localhost_is_either_family() -> None:
    assert on("127.0.0.1", "localhost") == b"hi"


def test_an_ipv6_literal_is_an_address() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert on("::1", "[::1]") == b"hi"


def test_tls_is_checked_against_the_engines_own_ca_or_the_systems() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    assert on("127.0.0.1", "LOCALHOST", context, scheme="https", trust=CERTIFICATE) == b"hi"
    with pytest.raises(EngineUnreachable, match="certificate"):
        on("127.0.0.1", "localhost", context, scheme="https")


@pytest.mark.parametrize("turns", [0, 3])
def test_over_tls_a_body_streams_and_connections_are_used_again(turns: int) -> None:
    """What stops writing there is what stands in the way out, and no reading."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    peers: set[int] = set()

    async def play(peer: Peer) -> None:
        peers.add(peer.number)
        while True:
            head = await peer.head()
            if b"chunked" in head:
                await peer.reader.readuntil(b"0\r\n\r\n")
            else:
                await peer.reader.readexactly(4)
            for _ in range(turns):
                peer.say(b"HTTP/1.1 100 Continue\r\n\r\n")
                await asyncio.sleep(0.001)
            peer.say(OK)

    async def main() -> None:
        async with asyncio.timeout(5), engine(play, "127.0.0.1", context) as port:
            session = Session(port, "localhost", "https", CERTIFICATE)
            for number in range(5):
                assert await session.ask(pieces(*[b"x"] * number)) == b"hi"
            fresh = len(peers)
            for _ in range(5):
                assert await session.ask() == b"hi"
            assert len(peers) == fresh
            await session.relay.aclose()

    run(main)


def test_a_ca_file_that_is_not_there_is_an_oserror() -> None:
    with pytest.raises(FileNotFoundError):
        Wire({"e": "/nowhere.pem"})


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid", "a..b"])
def test_an_engine_that_cannot_be_reached_is_named(host: str) -> None:
    async def main() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            session = Session(free.getsockname()[1], host)
            with pytest.raises(EngineUnreachable, match=host):
                await session.call()

    run(main)


def test_a_connection_that_is_not_made_in_time_is_given_up() -> None:
    async def main() -> None:
        with socket.socket() as full, socket.socket() as first, socket.socket() as second:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for filler in (first, second):
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
            with pytest.raises(ConnectTimeout):
                await Session(full.getsockname()[1]).call(timeout_s=0.1)

    run(main)


# --- look-ups ---


def test_a_look_up_gets_status_headers_and_a_bounded_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.relay.FETCH_LIMIT", 3)

    async def play(peer: Peer) -> None:
        assert await peer.head() == (
            b"GET /version?a HTTP/1.1\r\nhost: 127.0.0.1:%d\r\naccept: */*\r\naccept-encoding: identity\r\n\r\n"
            % peer.writer.get_extra_info("sockname")[1]
        )
        peer.say(b"HTTP/1.1 404 No\r\na: b\r\ncontent-length: 5\r\n\r\nhello")

    async def test(session: Session) -> None:
        assert await session.relay.fetch(session.url, "/version?a", 1) == (
            404, [(b"a", b"b"), (b"content-length", b"5")], b"hel",
        )  # fmt: skip

    served(test, play)


def test_a_look_up_that_takes_too_long_is_given_up() -> None:
    async def play(peer: Peer) -> None:
        await peer.head()
        peer.say(CHUNKED)
        await peer.gone()

    async def test(session: Session) -> None:
        with pytest.raises(EngineTimeout):
            await session.relay.fetch(session.url, "/", 0.05)

    served(test, play)
