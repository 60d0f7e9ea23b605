"""A reader that stands still holds nobody up, and what it missed is said and counted. Real pipes."""

import io
import os
import re
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from proxy.office import outlet as module
from proxy.office.outlet import Outlet

SOON_S = 10.0
"""How long a thread may take on a busy machine."""

PIPE = 64 * 1024


def missing(lines: int) -> str:
    return f"({lines} missing)"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for end in (read, write):
        with suppress(OSError):  # closed by the test
            os.close(end)


def taken(read: int, until: bytes) -> bytes:
    """What a reader gets up to these bytes."""
    data = b""
    while until not in data:
        assert select.select([read], [], [], SOON_S)[0], f"nothing comes after {data[-100:]!r}"
        data += os.read(read, 1 << 20)
    return data


def test_lines_come_out_in_order_and_close_waits_for_the_last(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1], missing)
    for number in range(1000):
        outlet.put(str(number))
    outlet.close(SOON_S)
    assert os.read(pipe[0], 1 << 20).split() == [b"%d" % number for number in range(1000)]
    assert outlet.lost == 0


def test_without_a_line_there_is_no_thread(pipe: tuple[int, int]) -> None:
    before = threading.active_count()
    Outlet(pipe[1], missing).close(SOON_S)
    assert threading.active_count() == before


def test_a_reader_that_stands_still_loses_lines_and_is_told_how_many_when_it_comes_back(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1], missing, limit_bytes=10_000)
    line = "x" * 99
    for _ in range(2000):  # 200 kB: the pipe's 64, the queue's 10, the rest is too much
        outlet.put(line)
    lost = outlet.lost
    assert lost > 1000
    seen = taken(pipe[0], b"x\n")
    while select.select([pipe[0]], [], [], 0.2)[0]:
        seen += os.read(pipe[0], 1 << 20)
    outlet.put("again")
    seen += taken(pipe[0], b"again\n")
    outlet.close(SOON_S)
    assert seen.count(line.encode() + b"\n") == 2000 - lost
    assert sum(map(int, re.findall(rb"\((\d+) missing\)\n", seen))) == outlet.lost == lost


def test_close_is_prompt_and_counts_what_nobody_read(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1], missing)
    for _ in range(3000):
        outlet.put("x" * 99)
    outlet.close(0.1)
    assert 3000 > outlet.lost >= 3000 - PIPE // 100 - 1
    outlet.put("late")
    assert outlet.lost >= 3001 - PIPE // 100 - 1
    os.close(pipe[0])  # the thread, which waits in a write, ends


def test_what_is_missing_at_the_end_is_said_at_the_end(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1], missing, limit_bytes=100)
    outlet.put("x" * 200)
    outlet.close(SOON_S)
    assert os.read(pipe[0], 100) == b"(1 missing)\n"


def test_a_reader_that_is_gone_costs_lines_and_nothing_else(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    outlet = Outlet(pipe[1], missing)
    outlet.put("a")
    outlet.put("b")
    outlet.close(SOON_S)
    assert outlet.lost == 2


def test_a_pipe_that_somebody_made_non_blocking_is_waited_for(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    outlet = Outlet(pipe[1], missing)
    for _ in range(2000):
        outlet.put("x" * 99)
    outlet.put("end")
    assert taken(pipe[0], b"end\n").count(b"\n") == 2001
    outlet.close(SOON_S)
    assert outlet.lost == 0


def test_a_long_line_is_one_write_of_its_own(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(module, "write", lambda fd, data: sizes.append(len(data)) or len(data))
    outlet = Outlet(pipe[1], missing)
    outlet.put("x" * 10_000)
    outlet.put("y")
    outlet.close(SOON_S)
    assert (sizes[0], sum(sizes)) == (10_001, 10_003)


def test_what_a_terminal_s_encoding_lacks_is_written_otherwise(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as stream:
        outlet = Outlet.of(stream, missing)
        outlet.put("caf\u00e9")
        outlet.close(SOON_S)
    assert (tmp_path / "out").read_bytes() == b"caf\\xe9\n"


def test_a_stream_in_memory_is_written_to_at_once_and_none_is_nowhere() -> None:
    stream = io.StringIO()
    outlet = Outlet.of(stream, missing)
    outlet.put("a")
    assert stream.getvalue() == "a\n"
    outlet.close(SOON_S)
    outlet.put("late")
    assert stream.getvalue() == "a\n"
    nowhere = Outlet.of(None, missing)
    nowhere.put("a")
    nowhere.close(SOON_S)
    assert nowhere.lost == 0
