"""A connection's own rules; its behaviour on real connections is in tests/socket/test_wire.py."""

import asyncio
import gc
from collections.abc import Iterable

import pytest

from proxy.head import Garbled, Head
from proxy.line import INTERIM_LIMIT, READ_BUFFER, Line
from tests.support.pipe import Deaf


def made() -> Line:
    """A fresh line."""
    line = Line(asyncio.get_running_loop())
    line.connection_made(Deaf())
    return line


def begun(length: int) -> Line:
    """A line on which the head of an answer has come, and its body of so many bytes is due."""
    line = made()
    line.expect(bodiless=False)
    line.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % length)
    return line


async def answered(line: Line) -> tuple[int, bytes]:
    """The whole answer's status and body."""
    head, body = await line.head(), b""
    while piece := await line.read():
        body += piece
    return head.status, body


def test_a_line_that_is_gone_takes_no_bytes() -> None:
    async def main() -> None:
        line = Line(asyncio.get_running_loop())
        assert not line.usable()
        with pytest.raises(ConnectionResetError):
            line.write((b"x",))

    asyncio.run(main())


def test_a_connection_gets_no_empty_part_which_it_would_try_to_send_for_ever() -> None:
    class Noting(Deaf):
        def __init__(self) -> None:
            super().__init__()
            self.parts: list[bytes] = []

        def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
            self.parts += [bytes(part) for part in list_of_data]

    async def main() -> None:
        line, transport = Line(asyncio.get_running_loop()), Noting()
        line.connection_made(transport)
        line.write((b"head", b""))
        line.write((b"",))
        assert transport.parts == [b"head"]

    asyncio.run(main())


def test_who_waits_for_bytes_to_go_out_hears_that_nobody_takes_them() -> None:
    async def main() -> None:
        line = made()
        line.pause_writing()
        waiting = asyncio.ensure_future(line.drained())
        await asyncio.sleep(0)
        line.connection_lost(None)
        with pytest.raises(ConnectionResetError):
            await waiting

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


@pytest.mark.parametrize("field", [b"content-length: 5", b"transfer-encoding: chunked", b"connection: close"])
def test_an_interim_answer_has_no_body_whatever_it_states(field: bytes) -> None:
    async def main() -> None:
        line = made()
        line.expect(bodiless=False)
        line.data_received(b"HTTP/1.1 103 Early\r\n%b\r\n\r\n\r\n" % field)
        line.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
        assert await answered(line) == (200, b"hi")

    asyncio.run(main())


def test_interim_answers_without_an_end_are_no_answer() -> None:
    async def main() -> None:
        for number in (INTERIM_LIMIT - 1, 16_000):
            line = made()
            line.expect(bodiless=False)
            for _ in range(2 * INTERIM_LIMIT):  # one now and then is a sign of life
                line.data_received(b"HTTP/1.1 102 Processing\r\n\r\n")
            line.data_received(b"HTTP/1.1 100\r\n\r\n" * number + b"HTTP/1.1 204 No\r\n\r\n")
            if number < INTERIM_LIMIT:
                assert await answered(line) == (204, b"")
            else:
                with pytest.raises(Garbled):
                    await line.head()

    asyncio.run(main())


@pytest.mark.parametrize("status", [b"000", b"099"])
def test_a_status_that_is_none_is_no_answer(status: bytes) -> None:
    async def main() -> None:
        line = made()
        line.expect(bodiless=False)
        line.data_received(b"HTTP/1.1 %b X\r\ncontent-length: 0\r\n\r\n" % status)
        with pytest.raises(Garbled):
            await line.head()

    asyncio.run(main())


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("bodiless", [True, False])
@pytest.mark.parametrize("early", [0, 7, 36, 40])
def test_what_a_fresh_connection_says_unasked_is_the_answer_and_the_last(
    early: int, bodiless: bool, ended: bool
) -> None:
    """A front end that is full answers whom it accepts, and hangs up."""
    said = b"HTTP/1.1 503 Busy\r\nconnection: x\r\n\r\nbusy"

    async def main() -> None:
        line = made()
        line.data_received(said[:early])
        if ended and early == len(said):
            line.connection_lost(None)
        line.expect(bodiless=bodiless)
        line.data_received(said[early:])
        assert not early or not line.usable()  # another answer may follow, to what is asked now
        line.connection_lost(None)
        assert await answered(line) == (503, b"" if bodiless else b"busy")

    asyncio.run(main())


class Told(Deaf):
    """A connection that notes whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = True

    def pause_reading(self) -> None:
        self.read = False

    def resume_reading(self) -> None:
        self.read = True


@pytest.mark.parametrize("whole", [False, True], ids=["more is to come", "it was all"])
def test_no_more_is_read_while_what_was_read_is_on_its_way(whole: bool) -> None:
    """A client that stops reading costs what one read brings, not twice that."""

    async def main() -> None:
        line, connection = Line(asyncio.get_running_loop()), Told()
        line.connection_made(connection)
        line.expect(bodiless=False)
        size = READ_BUFFER + 1
        line.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (size + (not whole)))
        line.data_received(b"x" * size)
        assert not connection.read
        assert len(await line.read()) == size
        assert not connection.read
        rest = asyncio.ensure_future(line.read())
        await asyncio.sleep(0)
        assert connection.read
        if not whole:
            line.data_received(b"y")
        assert await rest == (b"" if whole else b"y")

    asyncio.run(main())


def test_an_engine_that_says_no_more_ends_its_answer_whatever_is_still_written() -> None:
    async def main() -> None:
        line = made()
        line.expect(bodiless=False)
        line.data_received(b"HTTP/1.0 413 Too Large\r\n\r\nno")
        line.eof_received()
        assert await answered(line) == (413, b"no")
        line = made()
        line.expect(bodiless=False)
        line.eof_received()
        with pytest.raises(ConnectionResetError):
            await line.head()

    asyncio.run(main())


def test_a_line_that_broke_is_freed_without_the_collector() -> None:
    async def main() -> None:
        line = begun(9)
        line.connection_lost(None)
        with pytest.raises(ConnectionResetError):
            await line.read()
        line.hang_up()

    def lines() -> int:
        return sum(isinstance(it, Line) for it in gc.get_objects())

    gc.collect()
    before = lines()
    gc.disable()
    try:
        asyncio.run(main())
        assert lines() == before
    finally:
        gc.enable()


def test_what_comes_while_a_reader_waits_is_offered_and_what_is_not_taken_is_read() -> None:
    async def main() -> None:
        offered: list[bytes] = []
        line = begun(6)
        line.hand_to(lambda data: offered.append(data) or data == b"2")  # type: ignore[func-returns-value]
        line.data_received(b"1")
        assert await line.read() == b"1"
        reading = asyncio.ensure_future(line.read())
        await asyncio.sleep(0)
        line.data_received(b"2")
        line.data_received(b"3")
        line.data_received(b"4")  # its reader has been woken: order before speed
        assert await reading == b"34"
        reading = asyncio.ensure_future(line.read())
        await asyncio.sleep(0)
        line.data_received(b"56")
        assert (await reading, await line.read()) == (b"56", b"")
        assert offered == [b"2", b"3", b"56"]

    asyncio.run(main())


def test_a_taker_is_asked_of_its_own_answer_alone() -> None:
    async def main() -> None:
        line = made()
        for taken in ([b"a"], []):
            offered: list[bytes] = []
            line.expect(bodiless=False)
            line.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n")
            if taken:
                line.hand_to(lambda data, offered=offered: not offered.append(data))  # type: ignore[misc]
            reading = asyncio.ensure_future(line.read())
            await asyncio.sleep(0)
            line.data_received(b"a")
            assert await reading == (b"" if taken else b"a")
            assert offered == taken
            assert await line.read() == b""

    asyncio.run(main())


@pytest.mark.parametrize("length", [1, 2])
def test_a_takers_bug_is_for_its_reader_and_the_connection_goes_on_to_its_end(length: int) -> None:
    async def main() -> None:
        line = begun(length)
        line.hand_to(lambda data: bool(1 // 0))
        reading = asyncio.ensure_future(line.read())
        await asyncio.sleep(0)
        line.data_received(b"a")
        with pytest.raises(ZeroDivisionError):
            await reading
        assert not line.usable()

    asyncio.run(main())
