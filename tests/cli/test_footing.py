"""What cannot be written or listened on is said before anything starts."""

import errno
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from proxy.cli.footing import concerns, near, ourselves, unclaimed, unfounded, unfurnished
from proxy.config import Limit, Prefixes, Settings, Tokens, Upstream
from proxy.exporters.reader import SQLITE_MAGIC
from proxy.exporters.schema import migrate
from proxy.flaws import ConfigError

CERTIFICATE = Path(__file__).parents[1] / "socket" / "engine.pem"


def settings(key: str, path: Path) -> Settings:
    given: dict[str, Any] = {key: str(path)}
    return Settings(**given)


def stand(settings: Settings) -> None:
    if flaws := (*unfounded(settings),):
        raise ConfigError(*flaws)


@pytest.mark.parametrize("key", ["records", "store", "state"])
def test_a_file_that_can_be_made_stands_and_is_not_made_yet(key: str, tmp_path: Path) -> None:
    stand(settings(key, tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []
    with closing(sqlite3.connect(tmp_path / "file")) as connection:
        migrate(connection)
    kept = (tmp_path / "file").read_bytes()
    stand(settings(key, tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == kept
    stand(Settings())


def test_a_store_is_no_file_of_something_else(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.touch()
    stand(settings("store", file))
    file.write_bytes(b'{"v": 1}\n')
    with pytest.raises(ConfigError, match=r"^store: .*records\.jsonl is a file of something else"):
        stand(settings("store", file))
    stand(settings("records", file))


def test_a_look_at_a_store_makes_no_file_beside_it(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection)
    for _ in range(2):
        stand(settings("store", tmp_path / "s.db"))
        assert [file.name for file in tmp_path.iterdir()] == ["s.db"]


def test_a_store_is_no_database_of_another_program_and_none_of_a_later_phasegate(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    with closing(sqlite3.connect(file)) as connection:
        migrate(connection)
        stand(settings("store", file))
        connection.execute("PRAGMA user_version = 99")
        with pytest.raises(ConfigError, match=r"s\.db is a store of version 99; this phasegate knows \d+$"):
            stand(settings("store", file))
        connection.execute("PRAGMA application_id = 7")
        with pytest.raises(ConfigError, match=r"s\.db is a database of something else, which is left alone$"):
            stand(settings("store", file))
        connection.execute("BEGIN EXCLUSIVE")
        stand(settings("store", file))  # in use: it is waited for later
    file.write_bytes(SQLITE_MAGIC + b"rubbish" * 99)
    with pytest.raises(ConfigError, match=r"s\.db is no SQLite database that can be read \("):
        stand(settings("store", file))


@pytest.mark.parametrize("key", ["records", "store", "state"])
def test_a_directory_that_is_not_there_is_named_with_the_key(key: str, tmp_path: Path) -> None:
    file = tmp_path / "gone" / "file"
    with pytest.raises(ConfigError) as error:
        stand(settings(key, file))
    assert str(error.value) == f"{key}: cannot write {file}: there is no directory {file.parent}"


@pytest.mark.parametrize("key", ["records", "store", "state"])
def test_a_directory_is_no_file(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: .*Is a directory"):
        stand(settings(key, tmp_path))


@pytest.mark.parametrize(("key", "beside"), [("records", False), ("store", True), ("state", True)])
def test_a_closed_directory_hurts_what_needs_files_beside(
    key: str, beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    file = tmp_path / "file"
    with pytest.raises(ConfigError, match=f"^{key}: .*no file can be made in"):
        stand(settings(key, file))
    file.touch()
    if beside:
        with pytest.raises(ConfigError, match="no file can be made in"):
            stand(settings(key, file))
    else:
        stand(settings(key, file))


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        (Settings(), False),
        (Settings(admin="localhost:1"), False),
        (Settings(admin="[::1]:1"), False),
        (Settings(admin="0.0.0.0:1"), True),
        (Settings(admin="0.0.0.0:1", admin_token="t"), False),
    ],
    ids=["default", "localhost", "ipv6", "everywhere", "token"],
)
def test_an_admin_listener_that_would_refuse_everybody_is_warned_of(given: Settings, warned: bool) -> None:
    said = ["admin listens on 0.0.0.0:1 without admin_token: all but health checks will be refused"]
    assert list(concerns(given)) == (said if warned else [])


def test_a_limit_on_what_is_not_counted_is_warned_of() -> None:
    limits = (
        Limit(name="long", max_prompt_tokens=9, within_window=True),
        Limit(name="off", mode="off", max_prompt_tokens=9),
        Limit(name="rate", requests_per_minute=9),
    )
    assert list(concerns(Settings(limit=limits))) == []
    assert list(concerns(Settings(limit=limits, tokens=Tokens(count=False)))) == [
        "limit 'long': tokens.count is off, so no prompt is held to max_prompt_tokens and within_window"
    ]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.EADDRINUSE, "error while attempting to bind on address ('h', 1)"), "Addr"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (OSError("no errno"), "no errno"),
    ],
    ids=["wrapped", "name", "bare"],
)
def test_why_an_address_could_not_be_had_is_said_in_the_system_s_words(error: OSError, says: str) -> None:
    assert unclaimed(error).startswith(says)


@pytest.mark.parametrize("key", ["store", "state"])
def test_a_pipe_or_a_device_is_no_place_for_what_is_replaced_or_locked(key: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/null")):
        with pytest.raises(ConfigError, match=rf"^{key}: cannot write {path}: it is no regular file$"):
            stand(settings(key, path))
        stand(settings("records", path))


@pytest.mark.parametrize(
    ("url", "listen", "same"),
    [
        ("http://127.0.0.1:8800", "127.0.0.1:8800", True),
        ("http://localhost:8800", "127.0.0.1:8800", True),
        ("http://[::1]:8800", "localhost:8800", True),
        ("http://127.0.0.1:8800", ":8800", True),
        ("http://localhost:8800", "[::]:8800", True),
        ("http://gpu-box:8800", "gpu-box:8800", True),
        ("http://localhost", "127.0.0.1:80", True),
        ("http://127.0.0.1:8000", "127.0.0.1:8800", False),
        ("http://127.0.0.2:8800", "127.0.0.1:8800", False),
        ("http://gpu-box:8800", "0.0.0.0:8800", False),
        ("http://127.0.0.1:8800", "127.0.0.1:0", False),
    ],
)
def test_an_engine_that_is_this_proxy_is_found_out(url: str, listen: str, same: bool) -> None:
    assert ourselves(url, listen) is same


@pytest.mark.parametrize(
    ("listen", "found"),
    [
        ("127.0.0.1:1", ("127.0.0.1:1", "")),
        ("gpu:1", ("gpu:1", "")),
        ("0.0.0.0:1", ("127.0.0.1:1", "IPv4")),
        (":1", ("127.0.0.1:1", "IPv4")),
        ("[::]:1", ("[::1]:1", "IPv6")),
        ("[::1]:1", ("[::1]:1", "")),
    ],
)
def test_a_listener_is_reached_under_an_address_that_there_is(listen: str, found: tuple[str, str]) -> None:
    assert near(listen) == found


def test_a_proxy_is_not_put_in_front_of_itself() -> None:
    engines = tuple(Upstream(url=url) for url in ("http://localhost:8800", "http://gpu:8800", "http://127.0.0.1:8800"))
    told = [(flaw.key, flaw.at, flaw.what) for flaw in unfounded(Settings(upstream=engines))]
    assert told == [
        (
            "upstream.url",
            f"upstream '{place}'",
            f"http://{place} is where clients reach this proxy (listen = 127.0.0.1:8800)",
        )
        for place in ("localhost:8800", "127.0.0.1:8800")
    ]


def test_an_admin_listener_is_no_engine() -> None:
    (flaw,) = unfounded(Settings(upstream=(Upstream(url="http://localhost:8801"),)))
    assert flaw.what == "http://localhost:8801 is this proxy's admin listener (admin = 127.0.0.1:8801)"


def test_a_ca_file_holds_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate", "utf-8")
    for file, trouble in (
        (CERTIFICATE, None),
        (tmp_path / "gone", "No such file or directory"),
        (tmp_path / "text", "it holds no PEM certificate"),
    ):
        told = [str(flaw) for flaw in unfounded(Settings(upstream=(Upstream(url="https://a", ca_file=str(file)),)))]
        assert told == ([f"upstream.ca_file: cannot read {file}: {trouble} (upstream 'a')"] if trouble else [])


def test_a_key_file_is_there_or_can_be_made_and_is_not_made_yet(tmp_path: Path) -> None:
    kept, empty, pipe = tmp_path / "kept", tmp_path / "empty", tmp_path / "pipe"
    kept.write_bytes(b"k")
    kept.chmod(0o400)
    empty.touch()
    os.mkfifo(pipe)
    for file, trouble in (
        (kept, None),
        (empty, None),
        (tmp_path / "new", None),
        (pipe, "it is no regular file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "no" / "key", f"there is no directory {tmp_path / 'no'}"),
        (kept / "key", "Not a directory"),
    ):
        told = [str(flaw) for flaw in unfounded(Settings(prefixes=Prefixes(key_file=str(file))))]
        assert told == ([f"prefixes.key_file: cannot use {file}: {trouble}"] if trouble else [])
    assert not (tmp_path / "new").exists()


def test_two_logs_of_different_form_are_not_one_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    given = Settings(records=str(tmp_path / "file"), store=str(tmp_path / "link"), state=f"{tmp_path}/./file")
    assert [str(flaw) for flaw in unfounded(given)] == [
        f"store: {tmp_path}/link is the file of records too; give each its own",
        f"state: {tmp_path}/./file is the file of records too; give each its own",
        f"state: {tmp_path}/./file is the file of store too; give each its own",
    ]


def test_every_vocabulary_that_cannot_be_read_is_told() -> None:
    models = {"a": "/nope/a.json", "b": "o200k_base", "c": "/nope/c.json"}
    told = [str(flaw) for flaw in unfurnished(Settings(tokens=Tokens(models=models)))]
    assert [line.partition(".json")[0] for line in told] == [
        "tokens.models: cannot read /nope/a",
        "tokens.models: cannot read /nope/c",
    ]
    assert list(unfurnished(Settings())) == []
