"""Processes that do not start."""

import asyncio
from pathlib import Path

import pytest

from proxy.cli.stage import StageError, stage


def test_a_process_that_does_not_start_says_why(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, ["--device", "abacus"]):
            pytest.fail("it started")

    with pytest.raises(StageError, match=r"phasegate sim did not start: .*abacus"):
        asyncio.run(scene())
