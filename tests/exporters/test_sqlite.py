import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.engines.gauges import Total
from proxy.exporters import sqlite
from proxy.exporters.contract import to_dict
from proxy.exporters.means import Stretch
from proxy.exporters.sqlite import DAY_S, RETAIN_NS, SqliteExporter
from proxy.gaps import unpack_stamps
from proxy.records import PrefixVerdict, RequestRecord, TokenCount
from tests.support.records import AT_S, record, timeline


def rows(path: Path, what: str = "id", table: str = "requests") -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return [
            row[0] if len(row) == 1 else row for row in connection.execute(f"SELECT {what} FROM {table} ORDER BY n")
        ]
    finally:
        connection.close()


def mean(until_s: float = AT_S, engine: str = "e") -> Stretch:
    theirs, ours = Total(sum_s=2.5, count=5), Total(sum_s=2.0, count=4)
    return Stretch(engine=engine, name="ttft", since_s=until_s - 60, until_s=until_s, theirs=theirs, ours=ours)


def begun(tmp_path: Path) -> tuple[Path, SqliteExporter]:
    """A store in which one record stands, `first`."""
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path)
    exporter.export(record("first"))
    exporter.tick(0)
    return path, exporter


def test_a_request_is_a_row_after_a_tick(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    exporter = SqliteExporter(path)
    one = record("a", findings=("cold_load", "context_truncated"), counted=TokenCount(603, "exact", 603, 603, 590))
    exporter.export(one)
    exporter.tick(0)
    columns = "id, at, model, outcome, total_s, ttft_s, decode_s, queue_s, output_tokens, counted_tokens, findings"
    expected = ("a", AT_S, "llama3.2", "completed", 0.77, 0.3, 0.47, None, 48, 603, "cold_load context_truncated")
    assert rows(path, columns) == [expected]
    assert json.loads(rows(path, "record")[0]) == to_dict(one)
    assert unpack_stamps(rows(path, "chunks")[0])[:2] == [300_000_000, 310_000_000]
    exporter.close()


def test_what_is_unknown_is_null(tmp_path: Path) -> None:
    exporter = SqliteExporter(tmp_path / "s.db")
    exporter.export(record(usage=None, timeline=timeline(gaps_ms=(), first_token_ns=None, stamps=b"")))
    exporter.close()
    assert rows(tmp_path / "s.db", "ttft_s, prompt_tokens, itl_max_s, chunks") == [(None,) * 4]


def test_the_pace_of_a_client_that_reads_slowly_is_no_gap(tmp_path: Path) -> None:
    exporter = SqliteExporter(tmp_path / "s.db")
    exporter.export(record(timeline=timeline(blocked_ns=1)))
    exporter.close()
    assert rows(tmp_path / "s.db", "itl_max_s, blocked_s, ttft_s") == [(None, 1e-9, 0.3)]


def test_a_full_batch_does_not_wait_for_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BATCH", 2)
    exporter = SqliteExporter(tmp_path / "s.db")
    exporter.export(record("a"))
    exporter.export(record("b"))
    assert rows(tmp_path / "s.db") == ["a", "b"]
    exporter.close()


def test_reopening_follows_a_moved_file(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path)
    exporter.export(record("old"))
    exporter.reopen()
    path.rename(tmp_path / "old.db")
    exporter.export(record("new"))
    exporter.close()
    assert (rows(tmp_path / "old.db"), rows(path)) == (["old"], ["new"])


def test_rows_too_old_are_removed_by_the_records_own_time(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path, days=7)
    for age in (8, 6, 0):
        exporter.export(record(str(age), timeline=timeline(at_s=AT_S - age * DAY_S)))
    exporter.tick(0)
    assert rows(path) == ["6", "0"]
    exporter.export(record("older", timeline=timeline(at_s=AT_S - 9 * DAY_S)))
    exporter.tick(RETAIN_NS - 1)
    assert rows(path) == ["6", "0", "older"]
    exporter.tick(RETAIN_NS)
    assert rows(path) == ["6", "0"]
    exporter.close()


def test_the_oldest_go_first_when_the_file_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "RETAIN_ROWS", 300)
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path, days=0, megabytes=1)
    for number in range(1000):
        exporter.export(record(str(number)))
    for minute in range(9):
        exporter.tick(minute * RETAIN_NS)
    kept = rows(path)
    assert 100 <= len(kept) < 1000
    assert kept == [str(number) for number in range(1000 - len(kept), 1000)]
    exporter.close()
    assert path.stat().st_size < 1.5 * 1024 * 1024


@pytest.mark.parametrize("bounds", [{"days": 0, "megabytes": 1}, {"days": 7, "megabytes": 0}], ids=["size", "age"])
def test_both_bounds_hold_however_many_records_come(
    bounds: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,200 records a minute, each a thousandth of a week after the one before, and 500 removed at once."""
    monkeypatch.setattr(sqlite, "RETAIN_ROWS", 500)
    path, kept = tmp_path / "s.db", []
    exporter = SqliteExporter(path, **bounds)
    for tick in range(72):
        for number in range(tick * 100, tick * 100 + 100):
            exporter.export(record(str(number), timeline=timeline(at_s=AT_S + number * 7 * DAY_S / 1000)))
        exporter.tick(tick * RETAIN_NS // 12)
        kept.append(len(rows(path)))
    assert max(kept[36:]) < 2500  # what the bound allows (1,000; 800 in a megabyte), and what a minute brings
    assert rows(path)[-1] == "7199"
    exporter.close()


def test_a_locked_file_is_waited_for_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 1)
    path, exporter = begun(tmp_path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    exporter.export(record("b"))
    exporter.tick(0)
    other.execute("ROLLBACK")
    other.close()
    exporter.tick(0)
    exporter.close()
    assert (rows(path), exporter.lost) == (["first", "b"], 0)


@pytest.mark.parametrize("kind", ["no folder", "no database", "a folder", "too new"])
def test_a_file_that_cannot_be_written_loses_records_counted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAITING", 2)
    path = tmp_path / "s.db"
    if kind == "no folder":
        path = tmp_path / "nowhere" / "s.db"
    elif kind == "no database":
        path.write_bytes(b"something else altogether" * 100)
    elif kind == "a folder":
        path.mkdir()
    else:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
    exporter = SqliteExporter(path)
    for name in "abcde":
        exporter.export(record(name))
        exporter.tick(0)
    assert exporter.lost == 3
    exporter.close()
    assert exporter.lost == 5
    if kind == "no database":
        assert path.read_bytes().startswith(b"something else")


def test_a_full_disk_loses_records_counted_and_spares_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAITING", 50)
    path, exporter = begun(tmp_path)
    opened = sqlite._open

    def small(path: Path) -> sqlite3.Connection:
        connection = opened(path)
        connection.execute("PRAGMA max_page_count = 20")
        return connection

    monkeypatch.setattr(sqlite, "_open", small)
    exporter.reopen()
    for number in range(100):
        exporter.export(record(str(number)))
    exporter.tick(1)
    assert exporter.lost == 50
    monkeypatch.setattr(sqlite, "_open", opened)
    exporter.close()
    assert rows(path) == ["first", *map(str, range(50, 100))]


@pytest.mark.parametrize(
    "bad",
    [record("bad", status=2**63), record("bad", model=("x",)), record("bad", tenant="\ud800")],
    ids=["a number too large", "no text", "a lone surrogate"],
)
def test_a_row_that_no_file_can_take_is_lost_alone(
    bad: RequestRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "to_json", lambda record: b"{}")  # which would not let the last one come so far
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path)
    with capture_logs() as logs:
        exporter.export(record("a"))
        exporter.tick(0)
        for one in (record("b"), bad, record("c"), bad):
            exporter.export(one)
        exporter.keep(mean())
        exporter.tick(1)
        exporter.export(record("d"))
        exporter.tick(2)
    assert (rows(path), exporter.lost, exporter.unwritten) == (["a", "b", "c", "d"], 2, 0)
    assert rows(path, "engine", "means") == ["e"]
    assert [(entry["event"], entry.get("lost")) for entry in logs] == [
        ("store_not_written", None),
        ("store_written_again", 2),
    ]
    exporter.close()


def test_a_row_that_no_file_can_take_is_counted_though_others_must_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 1)
    path, exporter = begun(tmp_path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for one in (record("bad", status=2**63), record("b")):
        exporter.export(one)
    exporter.tick(1)
    assert (exporter.lost, exporter.unwritten) == (1, 1)
    other.execute("ROLLBACK")
    other.close()
    exporter.close()
    assert (rows(path), exporter.lost) == (["first", "b"], 1)


def test_a_mean_that_no_file_can_take_is_dropped_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path)
    exporter.export(record("a"))
    for one in (mean(engine="\ud800"), mean(engine="e")):
        exporter.keep(one)
    exporter.tick(0)
    assert (rows(path), rows(path, "engine", "means"), exporter.lost) == (["a"], ["e"], 0)
    exporter.close()


def test_trouble_that_passes_costs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    exporter = SqliteExporter(folder / "s.db")
    exporter.export(record("a"))
    exporter.tick(0)
    folder.mkdir()
    exporter.tick(1)
    exporter.close()
    assert (rows(folder / "s.db"), exporter.lost) == (["a"], 0)


def test_a_mean_is_a_row_after_a_tick_though_no_request_came(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path)
    exporter.keep(mean())
    exporter.tick(0)
    exporter.tick(1)
    columns = "engine, name, since, until, engine_s, engine_count, our_s, our_count"
    assert rows(path, columns, "means") == [("e", "ttft", AT_S - 60, AT_S, 2.5, 5, 2.0, 4)]
    exporter.close()


def test_means_too_old_are_removed_whoever_tells_the_time(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path, days=7)
    exporter.export(record("old", timeline=timeline(at_s=AT_S - 8 * DAY_S)))
    for age in (8, 6, 0):
        exporter.keep(mean(AT_S - age * DAY_S))
    exporter.tick(0)
    assert (rows(path), rows(path, "until", "means")) == ([], [AT_S - 6 * DAY_S, AT_S])
    exporter.close()


@pytest.mark.parametrize(("left", "kept"), [(300, ["of the rest"]), (0, [])], ids=["some records left", "none left"])
def test_means_go_with_the_records_of_their_time_when_the_file_is_too_large(
    left: int, kept: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "RETAIN_ROWS", 900 - left)
    path = tmp_path / "s.db"
    exporter = SqliteExporter(path, days=0, megabytes=1)
    for number in range(900):
        exporter.export(record(str(number), timeline=timeline(at_s=AT_S + number)))
    exporter.keep(mean(AT_S + 1, "of the oldest"))
    exporter.keep(mean(AT_S + 899.5, "of the rest"))
    exporter.tick(0)
    assert (len(rows(path)), rows(path, "engine", "means")) == (left, kept)
    exporter.close()


def test_means_that_find_no_file_are_dropped_before_a_record_is(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    exporter = SqliteExporter(folder / "s.db")
    exporter.export(record("a"))
    for number in range(sqlite.MEANS_WAITING + 2):
        exporter.keep(mean(AT_S + number))
        if number % 100 == 0:
            exporter.tick(number)
    folder.mkdir()
    exporter.close()
    found = rows(folder / "s.db", "until", "means")
    assert (rows(folder / "s.db"), exporter.lost) == (["a"], 0)
    assert (len(found), found[0], found[-1]) == (sqlite.MEANS_WAITING, AT_S + 2, AT_S + sqlite.MEANS_WAITING + 1)


@pytest.mark.parametrize(
    ("prefix", "family"),
    [(PrefixVerdict(16, 9, family="f0a1"), "f0a1"), (PrefixVerdict(16, 9), None), (None, None)],
    ids=["known", "not in the sample", "not audited"],
)
def test_the_family_of_the_prompt_is_a_column(tmp_path: Path, prefix: PrefixVerdict | None, family: str | None) -> None:
    exporter = SqliteExporter(tmp_path / "s.db")
    exporter.export(record(prefix=prefix))
    exporter.close()
    assert rows(tmp_path / "s.db", "family") == [family]


def test_every_column_has_a_value() -> None:
    assert len(sqlite.to_row(record())) == len(sqlite.COLUMNS)
