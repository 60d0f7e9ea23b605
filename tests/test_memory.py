"""What outlives a restart: whole or not at all, and never a reason not to start."""

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.memory import BATCH, DEPTH, keep, pieces, recall, spell


def test_what_was_kept_is_recalled(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    keep(file, pieces({"v": 1, "limits": {"a": [1, 2]}}))
    keep(file, pieces({"v": 1, "limits": {"b": "é"}}))
    assert recall(file) == {"v": 1, "limits": {"b": "é"}}
    assert os.listdir(tmp_path) == ["state.json"]


def test_what_is_kept_is_for_its_owner_alone(tmp_path: Path) -> None:
    keep(tmp_path / "state.json", pieces({}))
    assert stat.S_IMODE((tmp_path / "state.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000], ids=["empty", "cut", "list", "null", "bytes",
                                                                                "deep"]
)  # fmt: skip
def test_a_file_that_is_none_of_ours_is_as_good_as_none(tmp_path: Path, garbage: bytes) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(garbage)
    assert recall(file) is None


def test_no_file_is_no_memory(tmp_path: Path) -> None:
    assert recall(tmp_path / "missing.json") == {}
    assert recall(tmp_path) is None


WHAT = {"v": 1, "limits": {"budgets": [{"key": ["a", "é"]}, {}, 7]}, "none": {}, "counting": {"e": {"m": {"w": [0.5]}}}}


@pytest.mark.parametrize("depth", range(6))
def test_the_pieces_are_the_whole(depth: int) -> None:
    parts = list(pieces(WHAT, depth))
    assert json.loads(b"".join(parts)) == WHAT
    assert (depth == 0) == (len(parts) == 1)


def test_what_an_iterator_gives_is_a_list_made_as_it_is_spelt() -> None:
    given: list[int] = []

    def numbers(count: int) -> Iterator[int]:
        for number in range(count):
            given.append(number)
            yield number

    parts = pieces({"none": numbers(0), "some": numbers(3)}, DEPTH)
    assert next(parts) == b'{"none":'
    assert given == []
    assert json.loads(b'{"none":' + b"".join(parts)) == {"none": [], "some": [0, 1, 2]}


def test_each_budget_and_each_calibration_is_a_piece() -> None:
    assert {b'{"w":[0.5]}', '{"key":["a","é"]}'.encode()} <= set(pieces(WHAT, DEPTH))


def test_others_have_their_turn_while_it_is_spelt() -> None:
    many = {"limits": {"budgets": list(range(BATCH * 10))}}

    async def main() -> int:
        spelling, turns = asyncio.ensure_future(spell(many)), 0
        while not spelling.done():
            await asyncio.sleep(0)
            turns += 1
        assert json.loads(b"".join(spelling.result())) == many
        return turns

    assert asyncio.run(main()) >= 20  # a comma is a piece too


def test_what_cannot_be_written_leaves_what_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"{"
        raise ValueError("not today")

    file = tmp_path / "state.json"
    keep(file, pieces({"kept": True}))
    with pytest.raises(ValueError, match="not today"):
        keep(file, broken())
    assert recall(file) == {"kept": True}
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        keep(tmp_path / "gone" / "state.json", [b"{}"])
