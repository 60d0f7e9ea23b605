import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from proxy.exporters.schema import APPLICATION_ID, FIRST, STEPS, Foreign, TooNew, known, migrate
from proxy.exporters.sqlite import COLUMNS, INSERT
from proxy.records import PHASES


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """An empty database."""
    with closing(sqlite3.connect(":memory:")) as connection:
        yield connection


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_a_new_file_gets_the_newest_version_and_says_whose_it_is(connection: sqlite3.Connection) -> None:
    migrate(connection)
    assert version(connection) == len(STEPS)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_every_column_that_is_written_exists_and_every_phase_has_one(connection: sqlite3.Connection) -> None:
    migrate(connection)
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(requests)")}
    assert columns == {"n", *COLUMNS}
    assert {f"{phase}_s" for phase in PHASES} <= columns


def test_an_older_file_is_brought_up_and_keeps_its_rows(connection: sqlite3.Connection) -> None:
    first = "CREATE TABLE things (a)"
    migrate(connection, [first])
    connection.execute("INSERT INTO things VALUES (1)")
    connection.commit()
    for _ in range(2):  # the second time there is nothing to do
        migrate(connection, [first, "ALTER TABLE things ADD COLUMN b"])
    assert connection.execute("SELECT a, b FROM things").fetchall() == [(1, None)]
    assert version(connection) == 2


def test_a_store_of_the_first_version_is_brought_up_and_keeps_its_records(connection: sqlite3.Connection) -> None:
    migrate(connection, [FIRST])
    old = {name for _, name, *_ in connection.execute("PRAGMA table_info(requests)")} - {"n"}
    row = dict.fromkeys(old, "x")
    columns, values = ", ".join(row), list(row.values())
    connection.execute(f"INSERT INTO requests ({columns}) VALUES ({', '.join('?' * len(row))})", values)
    connection.commit()
    migrate(connection)
    assert connection.execute("SELECT id, record FROM requests").fetchall() == [("x", "x")]
    connection.execute(INSERT, ["y"] * len(COLUMNS))
    assert connection.execute("SELECT count(*) FROM means").fetchone() == (0,)


def test_a_file_of_a_later_version_is_left_alone(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 99")
    with pytest.raises(TooNew, match="version 99"):
        migrate(connection)
    assert version(connection) == 99


@pytest.mark.parametrize(
    "made",
    [
        *("CREATE TABLE notes (text)", "CREATE TABLE a (b); PRAGMA application_id = 1"),
        *(
            "CREATE TABLE a (b); PRAGMA user_version = 2",
            f"CREATE TABLE a (b); PRAGMA application_id = {APPLICATION_ID}",
        ),
        *("PRAGMA application_id = 1", "PRAGMA user_version = 2"),
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = -3",
    ],
)
def test_a_database_of_something_else_is_left_alone(made: str, connection: sqlite3.Connection) -> None:
    connection.executescript(made)
    before = list(connection.iterdump())
    for ask in (known, migrate):
        with pytest.raises(Foreign, match=r"^a database of something else, which is left alone$"):
            ask(connection)
    assert list(connection.iterdump()) == before
    assert connection.execute("PRAGMA user_version").fetchone() != (len(STEPS),)


def test_an_empty_database_is_a_store_of_no_version(connection: sqlite3.Connection) -> None:
    assert known(connection) == 0
    migrate(connection)
    assert known(connection) == len(STEPS)


def test_the_file_explains_itself(connection: sqlite3.Connection) -> None:
    migrate(connection)
    texts = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    assert "NULL is unknown" in texts["requests"]
    assert "the phases sum to it" in texts["requests"]
    assert "add them up, then divide" in texts["means"]
