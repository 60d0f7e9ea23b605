import io
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.exporters.books import BooksExporter
from proxy.exporters.exporter import Exporter
from proxy.exporters.jsonl import JsonlExporter
from proxy.exporters.series import Series
from proxy.exporters.sqlite import SqliteExporter
from proxy.office.live import LiveExporter, missing
from proxy.office.outlet import Outlet
from proxy.office.research import Research
from tests.support.records import record

EXPORTERS: dict[str, Callable[[Path], Exporter]] = {
    "books": lambda folder: BooksExporter(),
    "jsonl": lambda folder: JsonlExporter(folder / "r.jsonl"),
    "live": lambda folder: LiveExporter(Outlet(io.StringIO(), missing)),
    "research": lambda folder: Research(b"k" * 16, capture_text=False),
    "series": lambda folder: Series(),
    "sqlite": lambda folder: SqliteExporter(folder / "s.db"),
}


@pytest.mark.parametrize("name", EXPORTERS)
def test_an_exporter_takes_records_all_its_life_and_loses_none(name: str, tmp_path: Path) -> None:
    exporter = EXPORTERS[name](tmp_path)
    for second in range(3):
        exporter.export(record(str(second)))
        exporter.tick(second)
        exporter.reopen()
    exporter.close()
    assert (exporter.lost, exporter.unwritten) == (0, 0)
