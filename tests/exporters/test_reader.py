import contextlib
import gzip
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from proxy.engines.gauges import Total
from proxy.exporters import reader
from proxy.exporters.contract import to_json
from proxy.exporters.means import NAMES, Stretch
from proxy.exporters.reader import Unreadable, Wanted, lines, means
from proxy.exporters.schema import FIRST, migrate
from proxy.exporters.sqlite import SqliteExporter
from tests.support.records import AT_S, record, timeline

ALL = Wanted()


def test_the_store_gives_what_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a store?.db"
    exporter = SqliteExporter(path)
    records = [record(str(n), model=f"m{n % 2}", timeline=timeline(at_s=AT_S + n)) for n in range(6)]
    for one in records:
        exporter.export(one)
    exporter.tick(0)
    assert list(lines(path, ALL)) == [to_json(one) for one in records]
    assert list(lines(path, Wanted(AT_S + 2, AT_S + 5, "m0"))) == [to_json(records[n]) for n in (2, 4)]
    exporter.close()


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_records_file_gives_every_line(pack: type[bytes], tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(pack(b"one\ntwo"))
    assert list(lines(path, ALL)) == [b"one\n", b"two"]


HALF_A_GZIP = gzip.compress(b"x" * 999, mtime=0)[:20]
"""Without the time of making, so that every collection gives the case the same name."""


@pytest.mark.parametrize("content", [None, b"SQLite format 3\x00" + b"rubbish" * 99, HALF_A_GZIP])
def test_a_file_that_cannot_be_read_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Unreadable, match=str(path)):
        list(lines(path, ALL))


def test_a_database_of_something_else_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    with pytest.raises(Unreadable, match=r"other\.db: a database of something else, without a table of requests$"):
        list(lines(path, ALL))
    assert means(path, ALL) == []


def minute(number: int, engine: str = "e", name: str = "ttft") -> Stretch:
    theirs, ours = Total(sum_s=number, count=2), Total(sum_s=number / 2, count=1)
    at_s = AT_S + 60 * number
    return Stretch(engine=engine, name=name, since_s=at_s, until_s=at_s + 60, theirs=theirs, ours=ours)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    exporter = SqliteExporter(tmp_path / "s.db")
    for number in range(4):
        exporter.keep(minute(number))
    for name in reversed(NAMES):
        exporter.keep(minute(9, "another", name))
    exporter.close()
    return tmp_path / "s.db"


def test_means_are_added_up_over_the_time_wanted(store: Path) -> None:
    found = means(store, ALL)
    assert [(one.engine, one.name) for one in found] == [*(("another", name) for name in NAMES), ("e", "ttft")]
    whole = found[-1]
    assert (whole.since_s, whole.until_s) == (AT_S, AT_S + 240)
    assert (whole.theirs, whole.ours) == (Total(sum_s=6, count=8), Total(sum_s=3, count=4))


def test_a_window_that_is_not_whole_in_the_time_wanted_is_left_out(store: Path) -> None:
    (part,) = means(store, Wanted(AT_S + 60, AT_S + 239))
    assert (part.since_s, part.until_s, part.theirs) == (AT_S + 60, AT_S + 180, Total(sum_s=3, count=4))
    assert means(store, Wanted(AT_S + 1, AT_S + 119)) == []


def test_of_one_model_an_engine_has_no_means(store: Path) -> None:
    assert means(store, Wanted(model="m")) == []


def test_a_records_file_and_an_older_store_have_no_means(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(to_json(record()) + b"\n")
    old = sqlite3.connect(tmp_path / "old.db")
    migrate(old, [FIRST])
    old.close()
    assert means(tmp_path / "r.jsonl", ALL) == means(tmp_path / "old.db", ALL) == []
    assert list(lines(tmp_path / "old.db", ALL)) == []


def test_a_store_whose_means_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(Unreadable, match=str(path)):
        means(path, ALL)
    path.write_bytes(b"SQLite format 3\x00" + b"rubbish" * 99)
    with pytest.raises(Unreadable, match=str(path)):
        means(path, ALL)


def test_what_the_store_holds_beside_records_costs_its_row(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path)
    for number in range(4):
        exporter.export(record(str(number)))
    exporter.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for number, value in ((1, b"\xff\x00"), (2, 1.5), (3, "a\udcff".encode("utf-8", "surrogatepass"))):
            connection.execute("UPDATE requests SET record = CAST(? AS TEXT) WHERE n = ?", (value, number))
        connection.execute("UPDATE requests SET record = 7 WHERE n = 2")
        connection.commit()
    assert [line[:3] for line in lines(path, ALL)] == [b"\xef\xbf\xbd", b"7", b"a\xef\xbf", b'{"v']


def test_a_long_line_is_cut_and_costs_none_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"one\n" + b"\0" * 35 + b"\ntwo\n" + b"x" * 10 + b"\nthree")
    assert list(lines(path, ALL, 10)) == [b"one\n", b"\0" * 10, b"two\n", b"x" * 10, b"three"]


def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "ENDLESS_BYTES", 1 << 20)
    with pytest.raises(Unreadable, match="/dev/zero: holds a line without an end"):
        list(lines(Path("/dev/zero"), ALL))


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_pipe_is_read_once_and_whole(pack: type[bytes], tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writing = threading.Thread(target=path.write_bytes, args=(pack(b"one\ntwo\n"),))
    writing.start()
    assert list(lines(path, ALL)) == [b"one\n", b"two\n"]
    writing.join()


BROKEN = gzip.compress(b"x" * 5000 + b"\n" + bytes(range(256)) * 9, mtime=0)


@pytest.mark.parametrize("at", [2, 12, 20, len(BROKEN) - 6])
def test_an_archive_that_is_broken_anywhere_is_named(at: int, tmp_path: Path) -> None:
    path = tmp_path / "r.gz"
    path.write_bytes(BROKEN[:at] + bytes([BROKEN[at] ^ 0xFF]) + BROKEN[at + 1 :])
    with pytest.raises(Unreadable, match=str(path)):
        list(lines(path, ALL))


@pytest.mark.parametrize("value", [b"\xff", "x", 1e300, float("inf")])
def test_a_sum_that_is_no_number_costs_its_mean(store: Path, value: object) -> None:
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("UPDATE means SET since = ?, until = ? WHERE engine = 'e'", (value, value))
        connection.commit()
    assert {one.engine for one in means(store, ALL)} == {"another"}


def test_a_name_in_a_store_that_is_no_utf_8_is_shown_as_far_as_it_is(store: Path) -> None:
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("UPDATE means SET engine = CAST(x'65ff' AS TEXT) WHERE engine = 'e'")
        connection.execute("UPDATE means SET name = x'00' WHERE engine = 'another'")
        connection.commit()
    assert {one.engine for one in means(store, ALL)} == {"e\ufffd"}


def test_a_pipe_has_no_means_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert means(tmp_path / "fifo", ALL) == []
