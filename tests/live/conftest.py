"""Which engines there are. A missing one is a skip, and a failure where REQUIRED_ENGINES names it."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.live.processes import Phasegate, install


@cache
def _missing(kind: str) -> str | None:
    return install(kind)


@pytest.fixture(scope="session", autouse=True)
def ends_in_due_form() -> None:
    """A test run that is told to end stops the engines first."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@pytest.fixture(scope="session")
def need() -> Callable[[str], None]:
    """`need("vllm")`: go on only where this engine can be had."""
    required = os.environ.get("REQUIRED_ENGINES", "").split(",")

    def check(kind: str) -> None:
        reason = _missing(kind)
        if reason is None:
            return
        if kind in required:
            pytest.fail(f"{kind} is required (REQUIRED_ENGINES) and cannot be had: {reason}")
        pytest.skip(f"NO {kind.upper()}: {reason}")

    return check


Gate = Callable[..., Phasegate]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """`gate(engine url, *flags)`: a phasegate in front of it, stopped after the module."""
    started: list[Phasegate] = []

    def start(upstream: str, *flags: str) -> Phasegate:
        folder: Path = tmp_path_factory.mktemp("gate")
        started.append(Phasegate(upstream, folder, *flags))
        return started[-1]

    yield start
    for one in started:
        one.stop()
