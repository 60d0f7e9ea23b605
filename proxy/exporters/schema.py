"""The store's tables, by version. SQLite keeps the comments: `.schema` shows them in any tool.

`PRAGMA user_version` is the version; a step leads from each to the next and is run in one transaction. A column is
added by a new step, never by changing an old one.
"""

import sqlite3
from collections.abc import Sequence

APPLICATION_ID = 0x70686761
"""`phga`: what `file` and SQLite's own tools tell this file by."""

FIRST = """
CREATE TABLE requests (
    -- One row per request. Times are seconds; NULL is unknown, or does not apply.
    n INTEGER PRIMARY KEY,      -- in the order of being settled
    id TEXT NOT NULL,           -- x-request-id: the client's, or ours
    at REAL NOT NULL,           -- arrival, seconds since the epoch: datetime(at, 'unixepoch')
    engine TEXT NOT NULL,
    model TEXT,
    dialect TEXT NOT NULL,
    kind TEXT NOT NULL,
    route TEXT NOT NULL,        -- inference, read, manage
    stream INTEGER NOT NULL,    -- the answer was a stream
    tenant TEXT,
    outcome TEXT NOT NULL,      -- completed, client_gone, engine_error, ...
    status INTEGER,             -- what the client got
    total_s REAL NOT NULL,      -- arrival to last byte out; the phases sum to it
    ttfb_s REAL,
    ttft_s REAL,                -- arrival to first event with output; streams only
    tpot_s REAL,
    itl_max_s REAL,             -- largest gap between two events with output; NULL too where blocked_s is over 0
    blocked_s REAL NOT NULL,    -- the client read slowly; beside the sum
    -- The parts of total_s, in the order of life; joint names where only a sum is known:
    admission_s REAL, proxy_s REAL, frontend_s REAL, step_wait_s REAL, queue_s REAL,
    queue_prefill_s REAL, load_s REAL, prefill_s REAL, prefill_decode_s REAL, decode_s REAL,
    engine_s REAL, delivery_s REAL, unattributed_s REAL,
    prompt_tokens INTEGER,      -- as the engine said
    cached_tokens INTEGER,
    output_tokens INTEGER,
    counted_tokens INTEGER,     -- our own count, before dispatch
    prefill_rate REAL,          -- fresh prompt tokens per second
    decode_rate REAL,           -- output tokens per second
    decision TEXT NOT NULL,     -- admitted, queued, shed
    findings TEXT NOT NULL,     -- separated by spaces
    record TEXT NOT NULL,       -- the whole record as JSON, as in /api/requests; class and error of each phase are here
    chunks BLOB                 -- times of events with output: LEB128 varints of microseconds, the first since arrival,
                                -- then each since the one before; 4,096 at most
);
CREATE INDEX requests_at ON requests (at);
"""

MEANS = """
CREATE TABLE means (
    -- The engine's own means beside ours (report shows them). One row per engine and mean for about a minute in which
    -- either counted any. Sums: over any time, add them up, then divide.
    n INTEGER PRIMARY KEY,
    engine TEXT NOT NULL,       -- as in requests
    name TEXT NOT NULL,         -- ttft, queue, prefill, decode
    since REAL NOT NULL,        -- seconds since the epoch; where the engine's last row ends, unless one was restarted
    until REAL NOT NULL,
    engine_s REAL NOT NULL,     -- seconds that the engine added up ...
    engine_count REAL NOT NULL, -- ... of so many requests
    our_s REAL NOT NULL,        -- seconds that the records add up to, ttft from dispatch ...
    our_count REAL NOT NULL     -- ... of so many
);
CREATE INDEX means_until ON means (until);
"""

FAMILY = """
ALTER TABLE requests ADD COLUMN
    family /* keyed name of the prompts like this one, as in /api/prefixes; NULL: not in the audit's sample */ TEXT;
"""

STEPS: tuple[str, ...] = (FIRST, MEANS, FAMILY)
"""The way from version n to n + 1."""


class NotOurs(Exception):
    """The file is not for this phasegate to write to."""


class Foreign(NotOurs):
    """Another program's tables are in this file: ours among them could break it, and theirs us."""


class TooNew(NotOurs):
    """A later phasegate made this file; an older one does not write to it."""


def migrate(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> None:
    """Brings the file to the newest version. Raises TooNew, Foreign, sqlite3.Error; a step that fails leaves the
    version."""
    version = known(connection, steps)
    for number, step in enumerate(steps[version:], start=version + 1):
        stamp = f"PRAGMA user_version = {number}; PRAGMA application_id = {APPLICATION_ID};"
        connection.executescript(f"BEGIN IMMEDIATE; {step}; {stamp} COMMIT;")


def known(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> int:
    """The store's version; 0: it has no table yet. Raises TooNew, Foreign, sqlite3.Error."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (tables or application or version) and (application != APPLICATION_ID or version < 1):
        raise Foreign("a database of something else, which is left alone")
    if version > len(steps):
        raise TooNew(f"a store of version {version}; this phasegate knows {len(steps)}")
    return int(version)
