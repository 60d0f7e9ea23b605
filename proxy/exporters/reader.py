"""Records read back from where an exporter wrote them: the store, or a JSONL file (gzipped too).

A line or row that is no record (torn by a crash, of a later version) is counted and left out. The engines' own means
are in a store alone.
"""

import gzip
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from urllib.parse import quote

from proxy.engines.gauges import Total
from proxy.exporters.means import NAMES, Stretch
from proxy.plain import fault

SQLITE_MAGIC = b"SQLite format 3\x00"
GZIP_MAGIC = b"\x1f\x8b"
LINE_BYTES = 4 * 1024 * 1024
"""Longest line of a records file; a record has some kilobytes, and what is longer is none."""
FAULTS = (OSError, EOFError, ValueError, zlib.error, sqlite3.Error)
"""What reading files of any content raises; ValueError is a NUL in the name."""
ENDLESS_BYTES = 1024 * 1024 * 1024
"""A line of so many bytes is the end: a device, or an archive made to fill memory."""

LARGEST = 10**15
"""Of a sum of seconds or requests: beyond it it was not counted."""
SUMS = "engine, name, min(since), max(until), sum(engine_s), sum(engine_count), sum(our_s), sum(our_count)"


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


def lines(path: Path, wanted: Wanted, most: int = LINE_BYTES) -> Iterator[bytes]:
    """Every record as a line of JSON. The store picks by itself; of a JSONL file all lines come, of one that is longer
    than `most` its beginning. Raises Unreadable."""
    try:
        with path.open("rb") as file:
            if _stored(file):
                yield from _rows(path, wanted)
            else:
                yield from _text(file, most)
    except FAULTS as error:
        raise Unreadable(f"{path}: {fault(error)}") from None


def means(path: Path, wanted: Wanted) -> list[Stretch]:
    """The engines' own means beside ours, added up over the windows that lie in the time wanted; by engine, in the
    order of NAMES. None from a records file or a pipe, from a store that is older than they are, and of one model: they
    are an engine's. Raises Unreadable."""
    if wanted.model is not None or (path.exists() and not path.is_file()):
        return []
    try:
        with path.open("rb") as file:
            stored = _stored(file)
        return sorted(_sums(path, wanted), key=_order) if stored else []
    except FAULTS as error:
        raise Unreadable(f"{path}: {fault(error)}") from None


def _stored(file: BufferedReader) -> bool:
    return file.peek(len(SQLITE_MAGIC)).startswith(SQLITE_MAGIC)


def _text(file: BufferedReader, most: int) -> Iterator[bytes]:
    """Opened once, for it may be a pipe."""
    if file.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
        with gzip.open(file) as inflated:
            yield from _lines(inflated, most)
    else:
        yield from _lines(file, most)


def _lines(file: BufferedReader | gzip.GzipFile, most: int) -> Iterator[bytes]:
    while line := file.readline(most):
        yield line
        skipped = len(line)
        while not line.endswith(b"\n") and (line := file.readline(most)):
            skipped += len(line)
            if skipped > ENDLESS_BYTES:
                raise OSError("holds a line without an end")


def _rows(path: Path, wanted: Wanted) -> Iterator[bytes]:
    given = {"at >= ?": wanted.since_s, "at < ?": wanted.until_s, "model = ?": wanted.model}
    where, values = _where(given)
    with closing(opened(path)) as connection:
        if not _has(connection, "requests"):
            raise Unreadable(f"{path}: a database of something else, without a table of requests")
        found = connection.execute(f"SELECT record FROM requests{where} ORDER BY n", values)
        yield from (record.encode() if isinstance(record, str) else b"?" for (record,) in found)


def _sums(path: Path, wanted: Wanted) -> Iterator[Stretch]:
    where, values = _where({"since >= ?": wanted.since_s, "until <= ?": wanted.until_s})
    with closing(opened(path)) as connection:
        if not _has(connection, "means"):
            return
        for engine, name, *numbers in connection.execute(
            f"SELECT {SUMS} FROM means{where} GROUP BY engine, name", values
        ):
            if isinstance(engine, str) and isinstance(name, str) and all(map(_sane, numbers)):
                yield _stretch(engine, name, *numbers)


def _sane(number: object) -> bool:
    return isinstance(number, int | float) and -LARGEST <= number <= LARGEST


def _stretch(
    engine: str, name: str, since: float, until: float, engine_s: float, engine_n: float, our_s: float, our_n: float
) -> Stretch:
    theirs, ours = Total(sum_s=engine_s, count=engine_n), Total(sum_s=our_s, count=our_n)
    return Stretch(engine=engine, name=name, since_s=since, until_s=until, theirs=theirs, ours=ours)


def _order(mean: Stretch) -> tuple[str, int]:
    return mean.engine, NAMES.index(mean.name) if mean.name in NAMES else len(NAMES)


def opened(path: Path, also: str = "") -> sqlite3.Connection:
    """Read-only, beside a writer: a write-ahead log lets both. What is no UTF-8 spoils its own text alone. `also`: more
    of SQLite's URI."""
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro{also}", uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).fetchone() is not None


def _where(given: Mapping[str, object]) -> tuple[str, list[object]]:
    used = {condition: value for condition, value in given.items() if value is not None}
    return (f" WHERE {' AND '.join(used)}" if used else ""), list(used.values())
