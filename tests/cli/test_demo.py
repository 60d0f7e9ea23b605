import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.cli import GOAL_MISSED, UNREACHABLE
from proxy.cli import demo as module
from proxy.cli.demo import demo
from proxy.cli.stage import StageError


def test_the_show_runs_on_a_bare_machine_and_says_what_it_measured() -> None:
    """The real thing, five seconds long: an engine and phasegate as processes, real sockets, no network."""
    result = CliRunner().invoke(demo, ["--seconds", "5", "--json"])
    assert result.exit_code in (0, GOAL_MISSED), result.stderr
    said = json.loads(result.stdout)
    assert said["as_they_come"]["stalled"] == said["as_they_come"]["streams"] == 8
    assert said["clean"]["hit_rate"] > 0.5 > 0.1 > said["stamped"]["hit_rate"]
    assert result.exit_code == (0 if all(effect["seen"] for effect in said["effects"]) else GOAL_MISSED)


def test_a_stage_that_breaks_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def broken(folder: Path, engine: Any) -> AsyncIterator[None]:
        raise ExceptionGroup("several", [StageError("phasegate serve did not start: no port")])
        yield

    monkeypatch.setattr(module, "stage", broken)
    result = CliRunner().invoke(demo, [])
    assert result.exit_code == UNREACHABLE
    assert result.stderr == "the demo broke off: phasegate serve did not start: no port\n"


def test_a_show_shorter_than_five_seconds_is_refused() -> None:
    assert CliRunner().invoke(demo, ["--seconds", "1"]).exit_code == 2
