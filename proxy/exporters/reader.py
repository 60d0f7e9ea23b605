"""Records read back from where an exporter wrote them: the store, or a JSONL file (gzipped too).

A line or row that is no record (torn by a crash, of a later version) is counted and left out. The engines' own means
are in a store alone.
"""

import gzip
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from proxy.engines.gauges import Total
from proxy.exporters.means import NAMES, Stretch

SQLITE_MAGIC = b"SQLite format 3\x00"
GZIP_MAGIC = b"\x1f\x8b"

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


def lines(path: Path, wanted: Wanted) -> Iterator[bytes]:
    """Every record as a line of JSON. The store picks by itself; of a JSONL file all lines come. Raises Unreadable."""
    try:
        magic = _magic(path)
        if magic == SQLITE_MAGIC:
            yield from _rows(path, wanted)
        else:
            with gzip.open(path) if magic.startswith(GZIP_MAGIC) else path.open("rb") as file:
                yield from file
    except (OSError, EOFError, sqlite3.Error) as error:
        raise Unreadable(f"{path}: {error}") from None


def means(path: Path, wanted: Wanted) -> list[Stretch]:
    """The engines' own means beside ours, added up over the windows that lie in the time wanted; by engine, in the
    order of NAMES. None from a records file, from a store that is older than they are, and of one model: they are an
    engine's. Raises Unreadable."""
    if wanted.model is not None:
        return []
    try:
        return sorted(_sums(path, wanted), key=_order) if _magic(path) == SQLITE_MAGIC else []
    except (OSError, sqlite3.Error) as error:
        raise Unreadable(f"{path}: {error}") from None


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(SQLITE_MAGIC))


def _rows(path: Path, wanted: Wanted) -> Iterator[bytes]:
    given = {"at >= ?": wanted.since_s, "at < ?": wanted.until_s, "model = ?": wanted.model}
    where, values = _where(given)
    with closing(_opened(path)) as connection:
        found = connection.execute(f"SELECT record FROM requests{where} ORDER BY n", values)
        yield from (record.encode() for (record,) in found)


def _sums(path: Path, wanted: Wanted) -> list[Stretch]:
    where, values = _where({"since >= ?": wanted.since_s, "until <= ?": wanted.until_s})
    with closing(_opened(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'means'").fetchone():
            return []
        return [
            Stretch(
                engine=engine,
                name=name,
                since_s=since,
                until_s=until,
                theirs=Total(sum_s=engine_s, count=engine_count),
                ours=Total(sum_s=our_s, count=our_count),
            )
            for engine, name, since, until, engine_s, engine_count, our_s, our_count in connection.execute(
                f"SELECT {SUMS} FROM means{where} GROUP BY engine, name", values
            )
        ]


def _order(mean: Stretch) -> tuple[str, int]:
    return mean.engine, NAMES.index(mean.name) if mean.name in NAMES else len(NAMES)


def _opened(path: Path) -> sqlite3.Connection:
    """Read-only, beside a writer: a write-ahead log lets both."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)


def _where(given: Mapping[str, object]) -> tuple[str, list[object]]:
    used = {condition: value for condition, value in given.items() if value is not None}
    return (f" WHERE {' AND '.join(used)}" if used else ""), list(used.values())
