import json
import os
import select
import threading
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


# --- a file that is a stream ---


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "r.fifo"
    os.mkfifo(path)
    return path


def drained(reader: int) -> bytes:
    """What is in the pipe now."""
    data = b""
    while select.select([reader], [], [], 0)[0] and (part := os.read(reader, 1 << 20)):
        data += part
    return data


def test_a_pipe_without_a_reader_holds_nobody_up_and_its_reader_gets_whole_lines(fifo: Path) -> None:
    exporter = JsonlExporter(fifo)
    for number in range(200):  # 200 kB: more than the pipe takes
        exporter.export(record(str(number)))
        exporter.tick(0)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    seen = b""
    for _ in range(20):
        seen += drained(reader)
        exporter.tick(0)
    exporter.close()
    seen += drained(reader)
    os.close(reader)
    assert [json.loads(line)["id"] for line in seen.splitlines()] == [str(number) for number in range(200)]
    assert exporter.lost == 0


def test_a_pipe_that_nobody_reads_loses_the_oldest_lines_and_tears_none_but_the_one_it_has_begun(
    fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "BUFFER_BYTES", 20_000)
    with capture_logs() as logs:
        exporter = JsonlExporter(fifo)
        for number in range(300):
            exporter.export(record(str(number)))
            exporter.tick(0)
        lost = exporter.lost
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        seen = drained(reader)
        exporter.tick(0)
        seen += drained(reader)
        exporter.tick(0)
        exporter.close()
        os.close(reader)
    names = []
    for line in seen.splitlines():
        try:
            names.append(json.loads(line)["id"])
        except ValueError:
            names.append("?")
    assert names.count("?") <= 1
    whole = [int(name) for name in names if name != "?"]
    assert whole == sorted(set(whole))
    assert len(whole) + lost == 300
    assert exporter.lost == lost > 100
    assert [(log["event"], log.get("error"), log.get("lost")) for log in logs] == [
        ("records_not_written", "nobody reads it", None),
        ("records_written_again", None, lost),
    ]


def test_a_reader_that_is_only_slow_gets_all_and_no_word_is_lost_about_it(fifo: Path) -> None:
    with capture_logs() as logs:
        exporter = JsonlExporter(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        seen = b""
        for number in range(400):
            exporter.export(record(str(number)))
            exporter.tick(0)
            seen += os.read(reader, 700) if select.select([reader], [], [], 0)[0] else b""
        for _ in range(100):
            seen += drained(reader)
            exporter.tick(0)
        exporter.close()
        os.close(reader)
    assert [json.loads(line)["id"] for line in seen.splitlines()] == [str(number) for number in range(400)]
    assert logs == []


def test_the_end_waits_for_a_reader_that_reads_and_for_no_other(fifo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = JsonlExporter(fifo)
    for number in range(500):
        exporter.export(record(str(number)))
    with fifo.open("rb") as reader:
        thread = threading.Thread(target=lambda: seen.append(reader.read()))
        seen: list[bytes] = []
        thread.start()
        exporter.close()
        thread.join(30)
    assert seen[0].count(b"\n") + exporter.lost == 500
    assert exporter.lost == 0
    monkeypatch.setattr(jsonl, "FLUSHES", 3)
    unread = JsonlExporter(fifo)
    for number in range(500):
        unread.export(record(str(number)))
    unread.close()
    assert unread.lost > 300


def filled(fifo: Path) -> JsonlExporter:
    """An exporter of 200 records to a pipe that is full, in the middle of a line."""
    exporter = JsonlExporter(fifo)
    for number in range(200):
        exporter.export(record(str(number)))
    exporter.tick(0)
    return exporter


@pytest.mark.parametrize("reopened", [1, 3])
def test_a_pipe_that_stays_in_its_place_goes_on_where_it_was_cut(fifo: Path, reopened: int) -> None:
    exporter = filled(fifo)
    for _ in range(reopened):
        exporter.reopen()  # nobody reads yet: what is in the pipe lives as long as it is open here
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    seen = drained(reader)
    exporter.reopen()
    exporter.reopen()
    for _ in range(20):
        seen += drained(reader)
        exporter.tick(0)
    exporter.close()
    os.close(reader)
    assert [json.loads(line)["id"] for line in seen.splitlines()] == [str(number) for number in range(200)]
    assert exporter.lost == 0


def test_a_pipe_that_lost_the_line_it_had_begun_still_knows_it_when_it_is_reopened(
    fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = filled(fifo)
    monkeypatch.setattr(jsonl, "BUFFER_BYTES", 5_000)
    exporter.tick(0)  # all but the last five lines are lost, the one that is cut among them
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    exporter.reopen()
    seen = drained(reader)
    exporter.tick(0)
    seen += drained(reader)
    exporter.close()
    os.close(reader)
    good, torn = [line for line in seen.splitlines() if line.endswith(b"}")], seen.splitlines()
    assert len(torn) - len(good) == 1
    assert [json.loads(line)["id"] for line in good][-1] == "199"
    assert len(good) + exporter.lost == 200


def test_a_pipe_whose_place_is_gone_is_let_go_of(fifo: Path) -> None:
    exporter = filled(fifo)
    fifo.unlink()
    exporter.reopen()
    exporter.close()
    assert ids(fifo)[-1] == "199"
    assert "?" not in ids(fifo)


def test_a_rotated_stream_gets_no_half_line(fifo: Path, tmp_path: Path) -> None:
    exporter = JsonlExporter(fifo)
    for number in range(100):
        exporter.export(record(str(number)))
    exporter.tick(0)  # the pipe is full, in the middle of a line
    fifo.unlink()
    exporter.reopen()
    exporter.tick(0)
    assert "?" not in ids(fifo)
    assert ids(fifo)[-1] == "99"


def test_a_device_that_takes_nothing_loses_records_counted() -> None:
    with capture_logs() as logs:
        exporter = JsonlExporter(Path("/dev/full"))
        exporter.export(record())
        exporter.tick(0)
        exporter.close()
    assert exporter.lost == 1
    assert logs[0]["error"] == "No space left on device"


def test_a_full_buffer_is_not_copied_for_every_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "BATCH_BYTES", 5000)
    exporter = JsonlExporter(tmp_path / "r.jsonl")
    sizes: list[int] = []

    def full(fd: int, data: bytes) -> int:
        sizes.append(len(data))
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for number in range(100):
            exporter.export(record(str(number)))
    assert 5000 <= max(sizes) < 10_000
    exporter.close()
    assert len(ids(tmp_path / "r.jsonl")) == 100
