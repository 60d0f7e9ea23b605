"""A connection's own rules; its behaviour on real connections is in tests/socket/test_wire.py."""

import asyncio

import pytest

from proxy.line import Line, one_length


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
        reading = asyncio.ensure_future(line.read())
        await asyncio.sleep(0)
        line.set_exception(KeyError("why"))
        with pytest.raises(KeyError):
            await reading

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
