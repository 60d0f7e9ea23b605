"""A connection's own rules; its behaviour on real connections is in tests/socket/test_wire.py."""

import asyncio

import pytest

from proxy.line import Head, Line, one_length


class Deaf(asyncio.Transport):
    """A connection that takes whatever it is told."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


def test_a_line_that_is_gone_takes_no_bytes() -> None:
    async def main() -> None:
        line = Line(asyncio.get_running_loop())
        assert not line.usable()
        with pytest.raises(ConnectionResetError):
            line.write((b"x",))

    asyncio.run(main())


def test_an_error_reaches_whoever_waits_for_the_head() -> None:
    async def main() -> None:
        line = Line(asyncio.get_running_loop())
        reading = asyncio.ensure_future(line.head())
        await asyncio.sleep(0)
        line.fail(KeyError("why"))
        with pytest.raises(KeyError):
            await reading

    asyncio.run(main())


FIELDS = b"X: 1\r\nx:  2 \r\n"
CHUNKS = b"2\r\nhi\r\n3;a=b\r\n yo\r\n0\r\ny: 1\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"
ANSWERS = [
    b"HTTP/1.1 200 OK\r\n" + FIELDS + b"transfer-encoding: chunked\r\n\r\n" + CHUNKS,
    INTERIM + b"HTTP/1.1 200\r\n" + FIELDS + b"content-length: 5\r\n\r\nhi yo",
    b"\r\nHTTP/1.0 200 OK\n" + FIELDS + b"\nhi yo",
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_may_come_in_any_pieces(answer: bytes) -> None:
    async def told(cuts: tuple[int, ...]) -> tuple[Head, bytes]:
        line = Line(asyncio.get_running_loop())
        line.connection_made(Deaf())
        line.expect(bodiless=False)
        for start, end in zip((0, *cuts), (*cuts, len(answer)), strict=True):
            line.data_received(answer[start:end])
        line.connection_lost(None)
        body = b""
        while piece := await line.read():
            body += piece
        return await line.head(), body

    async def main() -> None:
        (status, headers), body = whole = await told(())
        assert (status, headers[:2], body[:2], len(body)) == (
            200,
            [(b"X", b"1"), (b"x", b"2")],
            b"hi",
            5 + body.count(b"u"),
        )
        assert all([await told((cut,)) == whole for cut in range(len(answer))])
        assert await told(tuple(range(1, len(answer)))) == whole

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fields", "once"),
    [
        ((b"content-length: 2", b"x: 1"), (b"content-length: 2", b"x: 1")),
        ((b"Content-Length: 2", b"x: 1", b"content-length:2 "), (b"Content-Length: 2", b"x: 1")),
        ((b"content-length: 2, 2",), (b"content-length: 2",)),
        ((b"content-length: 2", b"content-length: 3"),) * 2,
        ((b"content-length: 2, 3",),) * 2,
        ((b"content-length: 2", b"transfer-encoding: gzip, Chunked"), (b"transfer-encoding: gzip, Chunked",)),
        ((b"content-length: 2", b"transfer-encoding: gzip"),) * 2,
        ((b"transfer-encoding: gzip, chunked",),) * 2,
    ],
)
def test_a_length_is_stated_once_where_that_is_clear(fields: tuple[bytes, ...], once: tuple[bytes, ...]) -> None:
    assert one_length(head_of(fields)) == head_of(once)


def head_of(fields: tuple[bytes, ...]) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", *fields, b"", b""))
