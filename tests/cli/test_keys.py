import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.admission.keyring import loads
from proxy.cli import USAGE
from proxy.cli.keys import keys


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
