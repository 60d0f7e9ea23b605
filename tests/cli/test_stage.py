import asyncio
import json
from pathlib import Path

import pytest

from proxy.cli.stage import Stage, StageError
from tests.support.clock import run


def test_records_are_given_by_id_once_all_are_whole(tmp_path: Path) -> None:
    rows = [json.dumps({"id": id, "total_s": 1}) for id in ("a", "b", "c")]
    (tmp_path / "records.jsonl").write_text("\n".join([*rows, '{"id": "d", "tot']))
    found = asyncio.run(Stage(tmp_path, 1).records(["c", "a"]))
    assert list(found) == ["c", "a"]


def test_a_record_that_does_not_come_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="1 of 1 records"):
        run(lambda loop: Stage(tmp_path, 1).records(["a"]))


def test_truth_is_found_by_the_requests_id(tmp_path: Path) -> None:
    (tmp_path / "truth.jsonl").write_text('{"request": "chatcmpl-act1-stream-0", "interference_ns": 5}\n')
    assert Stage(tmp_path, 1).truths(["act1-stream-0", "other"])["act1-stream-0"]["interference_ns"] == 5
