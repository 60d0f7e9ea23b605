from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.cli import GOAL_MISSED, UNREACHABLE
from proxy.cli import demo as module
from proxy.cli.acts import Prefix, Storm, Tempo
from proxy.cli.audience import Audience
from proxy.cli.demo import demo
from proxy.cli.stage import Stage, StageError
from tests.cli.test_programme import ALONE, CLEAN, STAMPED, STORM


def test_a_busy_machine_is_said_in_words_and_by_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams that were slower before the long prompts than while these were read."""

    class Busy:
        def __init__(self, on: object, audience: Audience, times: Tempo, seed: int) -> None:
            self.audience, self.times = audience, times

        async def storm(self, act: str, limit: int | None) -> Storm:
            return replace(STORM, calm_gap_s=0.08, lost_s=-4.39)

        async def alone(self, act: str) -> Prefix:
            return ALONE

        async def prefix(self, act: str, stamped: bool) -> Prefix:
            return STAMPED if stamped else CLEAN

    @asynccontextmanager
    async def bare(folder: Path, engine: Any) -> AsyncIterator[Stage]:
        yield Stage(folder, 1)

    monkeypatch.setattr(module, "stage", bare)
    monkeypatch.setattr(module, "Theatre", Busy)
    result = CliRunner().invoke(demo, [])
    assert result.exit_code == GOAL_MISSED
    assert "This machine was busy: the streams stuttered before the long prompts came." in result.stdout
    assert "An 8B model on a simulated NVIDIA H100 SXM" in result.stdout
    assert "interference" not in result.stdout
    assert "-4" not in result.stdout
    assert "not seen this time: streams run at the engine's pace until long prompts come\n" in result.stderr


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


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e9", "x"])
def test_a_show_of_an_absurd_length_is_refused(seconds: str) -> None:
    result = CliRunner().invoke(demo, ["--seconds", seconds])
    assert (result.exit_code, "--seconds" in result.stderr) == (2, True)
