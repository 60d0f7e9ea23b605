"""Records read back from where an exporter wrote them: the store, or a JSONL file (gzipped too).

A line or row that is no record (torn by a crash, of a later version) is counted and left out.
"""

import gzip
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

SQLITE_MAGIC = b"SQLite format 3\x00"
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records; None: all."""

    since_s: float | None = None
    """Arrived at this time or later, seconds since the epoch."""
    until_s: float | None = None
    """Arrived before this."""
    model: str | None = None


class Unreadable(Exception):
    """The file cannot be read at all; the message says why."""


def lines(path: Path, wanted: Wanted) -> Iterator[bytes]:
    """Every record as a line of JSON. The store picks by itself; of a JSONL file all lines come. Raises Unreadable."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(SQLITE_MAGIC))
        if magic == SQLITE_MAGIC:
            yield from _rows(path, wanted)
        else:
            with gzip.open(path) if magic.startswith(GZIP_MAGIC) else path.open("rb") as file:
                yield from file
    except (OSError, EOFError, sqlite3.Error) as error:
        raise Unreadable(f"{path}: {error}") from None


def _rows(path: Path, wanted: Wanted) -> Iterator[bytes]:
    """Read-only, beside a writer: a write-ahead log lets both."""
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    try:
        query, values = _query(wanted)
        yield from (record.encode() for (record,) in connection.execute(query, values))
    finally:
        connection.close()


def _query(wanted: Wanted) -> tuple[str, list[object]]:
    given = {"at >= ?": wanted.since_s, "at < ?": wanted.until_s, "model = ?": wanted.model}
    used = {condition: value for condition, value in given.items() if value is not None}
    where = f" WHERE {' AND '.join(used)}" if used else ""
    return f"SELECT record FROM requests{where} ORDER BY n", list(used.values())
