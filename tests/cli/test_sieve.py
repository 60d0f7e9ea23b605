from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from proxy.cli.sieve import Sieve
from proxy.exporters.reader import Unreadable

PATH = Path("some.jsonl")


def numbers(*lines: bytes, progress: int = 100) -> tuple[Sieve, Iterator[tuple[bytes, int]]]:
    sieve = Sieve(PATH, "numbers", progress)
    return sieve, sieve.rows(lines, msgspec.json.Decoder(int).decode)


def test_a_line_that_is_none_costs_itself_and_the_first_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    sieve, rows = numbers(b"1\n", b"\n", b"x\n", b"2\n", b'"\xff\x1b[2J"', b"[" * 100_000)
    assert list(rows) == [(b"1\n", 1), (b"2\n", 2)]
    assert (sieve.read, sieve.good) == (6, 2)
    assert capsys.readouterr().err == (
        "3 lines are no numbers; left out (line 3: JSON is malformed: invalid character (byte 0))\n"
    )


def test_a_file_of_other_things_is_none_of_these(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unreadable, match=r"^some\.jsonl: holds no numbers \(line 2: Expected `int`, got `str`\)$"):
        list(numbers(b"\n", b'"a"\n')[1])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("line", [b"\x7fELF\x02\0\0", b"\xff\xfe{", b"{\0}"])
def test_what_is_no_text_is_said_to_be_none(line: bytes) -> None:
    with pytest.raises(Unreadable, match=r"holds no numbers \(line 1: it is no text\)$"):
        list(numbers(line)[1])


def test_an_empty_file_is_no_file_of_other_things() -> None:
    assert list(numbers()[1]) == []
    assert list(numbers(b"\n", b"  ")[1]) == []


def test_whoever_waits_is_told_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    list(numbers(*[b"1\n"] * 5, progress=2)[1])
    assert capsys.readouterr().err == "2 numbers read\n4 numbers read\n"
