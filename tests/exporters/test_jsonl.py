import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from proxy.exporters import jsonl
from proxy.exporters.jsonl import JsonlExporter
from tests.support.records import record


def ids(path: Path) -> list[str]:
    """Of the lines that are whole; a torn one is `?`."""
    found = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(json.loads(line)["id"])
        except ValueError:
            found.append("?")
    return found


def test_records_are_in_the_file_after_a_tick(tmp_path: Path) -> None:
    exporter = JsonlExporter(tmp_path / "r.jsonl")
    exporter.export(record("a"))
    exporter.export(record("b"))
    assert ids(tmp_path / "r.jsonl") == []
    exporter.tick(0)
    assert ids(tmp_path / "r.jsonl") == ["a", "b"]


def test_a_full_batch_is_written_without_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "BATCH_BYTES", 100)
    JsonlExporter(tmp_path / "r.jsonl").export(record("a"))
    assert ids(tmp_path / "r.jsonl") == ["a"]


def test_closing_writes_the_rest_and_a_restart_appends(tmp_path: Path) -> None:
    for name in ("a", "b"):
        exporter = JsonlExporter(tmp_path / "r.jsonl")
        exporter.export(record(name))
        exporter.close()
    assert ids(tmp_path / "r.jsonl") == ["a", "b"]


def test_reopening_follows_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    exporter = JsonlExporter(path)
    exporter.export(record("old"))
    path.rename(tmp_path / "r.1")
    exporter.reopen()
    exporter.export(record("new"))
    exporter.tick(0)
    assert ids(tmp_path / "r.1") == ["old"]
    assert ids(path) == ["new"]


def test_no_good_line_stands_behind_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"id": "torn')
    exporter = JsonlExporter(path)
    exporter.export(record("a"))
    exporter.tick(0)
    assert ids(path) == ["?", "a"]


def test_a_write_cut_short_leaves_every_record_whole_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    exporter = JsonlExporter(path)
    for name in "abc":
        exporter.export(record(name))
    whole = os.write
    length = len(jsonl.to_json(record("a"))) + 1
    for cut in (length + 20, 5, length):  # in the middle of b, in the middle of b again, just after b
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda fd, data, cut=cut: whole(fd, data[:cut]))
            exporter.tick(0)
    exporter.tick(0)
    exporter.tick(0)
    assert [name for name in ids(path) if name != "?"] == ["a", "b", "c"]
    assert exporter.lost == 0


def test_a_disk_that_cannot_be_written_loses_the_oldest_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "BUFFER_BYTES", 2500)
    exporter = JsonlExporter(tmp_path / "r.jsonl")

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for name in "abcd":
            exporter.export(record(name))
            exporter.tick(0)
    exporter.tick(0)
    kept = ids(tmp_path / "r.jsonl")
    assert exporter.lost == 4 - len(kept) > 0
    assert kept == list("abcd")[exporter.lost :]


def test_trouble_is_said_once_when_it_begins_and_once_with_its_cost_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "BUFFER_BYTES", 2500)
    whole = os.write
    room = [100, 0, 0, 0, 0]  # a disk fills up in the middle of a write

    def filling(fd: int, data: bytes) -> int:
        if not (left := room.pop(0)):
            raise OSError(28, "No space left on device")
        return whole(fd, data[:left])

    with capture_logs() as logs:
        exporter = JsonlExporter(tmp_path / "r.jsonl")
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", filling)
            for name in "abcde":
                exporter.export(record(name))
                exporter.tick(0)
        exporter.tick(0)
        exporter.close()
    assert exporter.lost > 0
    assert [(log["event"], log.get("lost")) for log in logs] == [
        ("records_not_written", None),
        ("records_written_again", exporter.lost),
    ]


def test_a_file_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    exporter = JsonlExporter(folder / "r.jsonl")
    exporter.export(record("a"))
    exporter.tick(0)
    folder.mkdir()
    exporter.tick(0)
    assert ids(folder / "r.jsonl") == ["a"]


def test_what_cannot_be_written_at_the_end_is_lost_and_counted(tmp_path: Path) -> None:
    with capture_logs() as logs:
        exporter = JsonlExporter(tmp_path / "nowhere" / "r.jsonl")
        exporter.export(record("a"))
        exporter.close()
    assert exporter.lost == 1
    assert [(log["event"], log.get("lost")) for log in logs] == [("records_not_written", None), ("records_lost", 1)]
