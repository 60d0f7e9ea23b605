"""One row per request in an SQLite file that any tool can open, and the engines' own means. `schema` says what the
columns mean.

Rows are written in batches, each in one transaction of a write-ahead log: kill -9 leaves a good file. A disk that is
full or read-only, a file that is locked or broken: rows wait, up to a bound, and beyond it are lost and counted. A row
that no file could take is lost alone.
"""

import sqlite3
from collections import deque
from pathlib import Path
from typing import Any

from proxy.exporters.contract import SECOND_NS, seconds, to_json
from proxy.exporters.means import Stretch
from proxy.exporters.schema import NotOurs, known, migrate
from proxy.exporters.stamps import engine_gaps
from proxy.exporters.trouble import Trouble
from proxy.records import PHASES, RequestRecord

BATCH = 500
"""Rows that are written at once even before the next tick."""
WAITING = 5000
"""Rows kept while the file cannot be written: some 10 MB."""
MEANS_WAITING = 500
"""Rows of means kept while the file cannot be written; the oldest beyond are dropped, for records matter more."""
BUSY_MS = 100
"""Another writer is waited for so long; then at the next tick again."""
RETAIN_NS = 60_000_000_000
"""Between two looks at age and size; where there was more to remove than one look may, the next tick looks again."""
RETAIN_ROWS = 5000
"""Removed at most in one look at either: some 50 ms."""
DAY_S = 86_400.0

COLUMNS = (
    *("id", "at", "engine", "model", "dialect", "kind", "route", "stream", "tenant", "outcome", "status"),
    *("total_s", "ttfb_s", "ttft_s", "tpot_s", "itl_max_s", "blocked_s"),
    *(f"{phase}_s" for phase in PHASES),
    *("prompt_tokens", "cached_tokens", "output_tokens", "counted_tokens", "prefill_rate", "decode_rate"),
    *("decision", "findings", "record", "chunks", "family"),
)
INSERT = f"INSERT INTO requests ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
INSERT_MEAN = (
    "INSERT INTO means (engine, name, since, until, engine_s, engine_count, our_s, our_count)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
OLDEST = "DELETE FROM requests WHERE n IN (SELECT n FROM requests {} ORDER BY n LIMIT ?)"
MEANS_BEFORE = "DELETE FROM means WHERE until < ?"
MEANS_BEFORE_ALL = "DELETE FROM means WHERE until < (SELECT coalesce(min(at), 9e99) FROM requests)"

UNFIT = (ValueError, OverflowError, sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError)
"""What a row raises that SQLite cannot take: a number of over 64 bits, a lone surrogate, a text that is too long."""

Row = tuple[Any, ...]


class SqliteExporter:
    """Writes records to one file.

    State: the connection (None while the file cannot be opened), rows that wait, the newest moment of any, when
    retention was last looked at, and the trouble there is.
    """

    def __init__(self, path: Path, *, days: float = 30.0, megabytes: int = 1024) -> None:
        self._path = path
        self._days = days
        self._limit_bytes = megabytes * 1024 * 1024
        self._connection: sqlite3.Connection | None = None
        self._rows: deque[Row] = deque()
        self._means: deque[Row] = deque(maxlen=MEANS_WAITING)
        self._newest_s = 0.0
        self._retained_ns: int | None = None
        self._trouble = Trouble("store", path)

    @property
    def lost(self) -> int:
        """Records that are in no file, since start."""
        return self._trouble.lost

    @property
    def unwritten(self) -> int:
        """Rows that wait for the next batch."""
        return len(self._rows)

    def export(self, record: RequestRecord) -> None:
        """Keeps one row for the next batch."""
        self._rows.append(to_row(record))
        self._newest_s = max(self._newest_s, record.finished.timeline.at_s)
        if len(self._rows) % BATCH == 0:
            self._write()

    def keep(self, mean: Stretch) -> None:
        """Keeps one mean of an engine for the next batch."""
        theirs, ours = mean.theirs, mean.ours
        sums = (theirs.sum_s, theirs.count, ours.sum_s, ours.count)
        self._means.append((mean.engine, mean.name, mean.since_s, mean.until_s, *sums))
        self._newest_s = max(self._newest_s, mean.until_s)

    def tick(self, now_ns: int) -> None:
        """Writes what waits; now and then removes what is too old or too much."""
        self._write()
        if self._connection is not None and (self._retained_ns is None or now_ns - self._retained_ns >= RETAIN_NS):
            self._retained_ns = now_ns
            self._attempt(self._retain)

    def reopen(self) -> None:
        """Opens the path anew at the next write."""
        self._write()
        self._release()

    def close(self) -> None:
        """Writes what is left; what cannot be written is lost."""
        self._write()
        self._trouble.closes(len(self._rows))
        self._rows.clear()
        self._release()

    def _write(self) -> None:
        if (self._rows or self._means) and self._attempt(self._insert):
            self._rows.clear()
            self._means.clear()
            self._trouble.ends()
        while len(self._rows) > WAITING:
            self._rows.popleft()
            self._trouble.lost += 1

    def _attempt(self, work: Any) -> bool:
        """Runs `work(connection)` in one transaction; False, and the connection given up, where that fails."""
        try:
            self._connection = self._connection or _open(self._path)
            with self._connection:
                work(self._connection)
            return True
        except (sqlite3.Error, OSError, NotOurs) as error:
            self._trouble.begins(str(error))
            self._release()
            return False

    def _insert(self, connection: sqlite3.Connection) -> None:
        try:
            connection.executemany(INSERT, self._rows)
            connection.executemany(INSERT_MEAN, self._means)
        except UNFIT as error:
            self._trouble.begins(type(error).__name__)
            connection.rollback()
            count = len(self._rows)
            try:
                _insert_singly(connection, INSERT, self._rows)
            finally:
                self._trouble.lost += count - len(self._rows)
            _insert_singly(connection, INSERT_MEAN, self._means)

    def _retain(self, connection: sqlite3.Connection) -> None:
        """By age, counted from the newest moment (no clock is read here), then by size, oldest first. Means go with the
        records of their time."""
        if self._days and self._newest_s:
            oldest_s = self._newest_s - self._days * DAY_S
            self._remove(connection, "WHERE at < ?", oldest_s)
            connection.execute(MEANS_BEFORE, (oldest_s,))
        if self._limit_bytes and _used_bytes(connection) > self._limit_bytes:
            self._remove(connection, "")
            connection.execute(MEANS_BEFORE_ALL)
        connection.execute("PRAGMA incremental_vacuum(2000)").fetchall()

    def _remove(self, connection: sqlite3.Connection, which: str, *values: float) -> None:
        if connection.execute(OLDEST.format(which), (*values, RETAIN_ROWS)).rowcount == RETAIN_ROWS:
            self._retained_ns = None  # there may be more

    def _release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def to_row(record: RequestRecord) -> Row:
    """The record's columns, in the order of COLUMNS."""
    finished, breakdown = record.finished, record.breakdown
    facts, timeline, usage, count = finished.facts, finished.timeline, finished.usage, finished.counted
    phases = {phase.name: phase.ns / SECOND_NS for phase in breakdown.phases}
    longest = max((gaps.max_ns for gaps in engine_gaps(timeline)), default=None)
    return (
        *(finished.id, timeline.at_s, finished.engine, facts.model, facts.dialect, facts.kind, facts.route),
        *(timeline.streamed, finished.tenant, finished.outcome.value, finished.status),
        *(timeline.total_ns / SECOND_NS, seconds(timeline.first_byte_ns), seconds(timeline.first_token_ns)),
        *(seconds(breakdown.tpot_ns), seconds(longest), timeline.blocked_ns / SECOND_NS),
        *(phases.get(phase) for phase in PHASES),
        *((usage.prompt_tokens, usage.cached_tokens, usage.output_tokens) if usage is not None else (None,) * 3),
        *(count.n if count is not None else None, breakdown.prefill_rate, breakdown.decode_rate),
        *(finished.admission.decision, " ".join(record.findings), to_json(record).decode(), timeline.stamps or None),
        finished.prefix.family if finished.prefix is not None else None,
    )


def _insert_singly(connection: sqlite3.Connection, insert: str, rows: deque[Row]) -> None:
    """Drops the rows that do not fit."""
    for row in tuple(rows):
        try:
            connection.execute(insert, row)
        except UNFIT:
            rows.remove(row)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_MS / 1000)
    try:
        known(connection)  # before anything is changed
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; so that it shrinks again
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may take the last batch, never the file
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
