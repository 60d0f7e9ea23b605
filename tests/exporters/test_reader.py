import gzip
from pathlib import Path

import pytest

from proxy.exporters.contract import to_json
from proxy.exporters.reader import Unreadable, Wanted, lines
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
