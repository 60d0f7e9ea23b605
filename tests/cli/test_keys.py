import os
import stat
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.keyring import loads
from proxy.cli import USAGE
from proxy.cli.keys import keys
from tests.support.hostile import is_plain, lines


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(keys, [str(word) for word in words])


def test_a_key_is_printed_once_and_kept_as_a_hash_that_its_owner_alone_can_read(file: Path) -> None:
    made = run("add", "team-a", "--file", file)
    key = made.stdout.strip()
    assert made.exit_code == 0
    assert key not in file.read_text()
    assert loads(file.read_text()).tenant(key) == "team-a"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_keys_are_listed_without_telling_anything_of_them(file: Path) -> None:
    made = [run("add", name, "--file", file).stdout.strip() for name in ("team-a", "team-b")]
    shown = run("list", "--file", file).stdout
    assert [line.split()[2] for line in shown.splitlines()] == ["team-a", "team-b"]
    assert not any(key in shown for key in made)


def test_a_revoked_key_no_longer_opens(file: Path) -> None:
    key = run("add", "team-a", "--file", file).stdout.strip()
    id = run("list", "--file", file).stdout.split()[0]
    assert run("revoke", id, "--file", file).exit_code == 0
    assert loads(file.read_text()).tenant(key) is None
    again = run("revoke", id, "--file", file)
    assert (again.exit_code, id in again.stderr) == (USAGE, True)


def test_a_name_that_cannot_be_printed_makes_no_key(file: Path) -> None:
    assert run("add", "team\n", "--file", file).exit_code == USAGE
    assert not file.exists()


@pytest.mark.parametrize("text", [None, "{}", b"\xff"], ids=["missing", "something else", "no text"])
def test_a_file_that_cannot_be_read_is_said_to_be_one(file: Path, text: str | bytes | None) -> None:
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    shown = run("list", "--file", file)
    assert shown.exit_code == USAGE
    assert str(file) in shown.stderr


@pytest.mark.parametrize("words", [("add", "team"), ("list",), ("revoke", "k1")], ids=lambda words: words[0])
@pytest.mark.parametrize("place", ["gone/keys.json", "file/keys.json", ".", "fifo", "x" * 300])
def test_a_file_that_cannot_be_had_is_one_line_and_leaves_nothing(
    tmp_path: Path, words: tuple[str, ...], place: str
) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    if place == "fifo" and words[0] != "add":
        return  # a pipe may hold keys, and is waited for
    there = sorted(tmp_path.iterdir())
    result = run(*words, "--file", tmp_path / place)
    assert (result.exit_code, result.stdout) == (USAGE, "")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert sorted(tmp_path.iterdir()) == there


def test_keys_that_cannot_take_the_old_ones_place_leave_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(part: str, place: Path) -> None:
        raise OSError(28, "No space left on device")

    assert run("add", "team", "--file", file).exit_code == 0
    kept = file.read_bytes()
    monkeypatch.setattr(os, "replace", full)
    result = run("add", "team", "--file", file)
    assert (result.exit_code, result.stdout) == (USAGE, "")
    assert result.stderr == f"phasegate: cannot write {file}: No space left on device\n"
    assert (file.read_bytes(), list(file.parent.iterdir())) == (kept, [file])


RING = {"salt": "ab", "keys": [{"id": "x", "tenant": "t", "hash": "0" * 64, "added": "2026-11-29"}]}


@given(content=lines(RING), words=st.sampled_from([("list",), ("revoke", "x"), ("add", "team")]))
def test_whatever_a_file_holds_the_command_ends_in_order_and_steers_no_terminal(
    content: bytes, words: tuple[str, ...]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.json"
        path.write_bytes(content)
        result = run(*words, "--file", path)
        assert [*Path(folder).iterdir()] == [path]
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in (0, USAGE)
    assert is_plain(result.stdout)
    assert is_plain(result.stderr)
