"""What outlives a restart: whole or not at all, and never a reason not to start."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from proxy.memory import DEPTH, keep, pieces, recall


def test_what_was_kept_is_recalled(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    keep(file, {"v": 1, "limits": {"a": [1, 2]}})
    keep(file, {"v": 1, "limits": {"b": "é"}})
    assert recall(file) == {"v": 1, "limits": {"b": "é"}}
    assert os.listdir(tmp_path) == ["state.json"]


def test_what_is_kept_is_for_its_owner_alone(tmp_path: Path) -> None:
    keep(tmp_path / "state.json", {})
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
    assert json.loads("".join(parts)) == WHAT
    assert (depth == 0) == (len(parts) == 1)


def test_each_budget_and_each_calibration_is_a_piece() -> None:
    assert {'{"w": [0.5]}', '{"key": ["a", "\\u00e9"]}'} <= set(pieces(WHAT, DEPTH))


def test_what_cannot_be_written_leaves_what_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    keep(file, {"kept": True})
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with pytest.raises(ValueError, match="Circular"):
        keep(file, circle)
    assert recall(file) == {"kept": True}
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        keep(tmp_path / "gone" / "state.json", {})
