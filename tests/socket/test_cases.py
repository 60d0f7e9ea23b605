"""The field cases that need sockets, one test an id."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.cases import runner
from tests.test_cases import BY_MACHINE, VIRTUAL, judge

REAL = [case for case in BY_MACHINE if case not in VIRTUAL]


def waits(case: dict[str, Any]) -> bool:
    """Its script takes seconds: it mostly waits, and others can run meanwhile."""
    scripts = [step.get("engine") or {} for step in case["steps"]]
    reads = [read for script in scripts for each in _listed(script) for read in each.get("reads", ())]
    moments = [step.get("at_ms", 0) for step in case["steps"]] + [read["t_ms"] for read in reads]
    return 5_000 <= max(moments) < 20_000


def _listed(script: Any) -> list[dict[str, Any]]:
    return script if isinstance(script, list) else [script]


@pytest.fixture(scope="module")
def begun() -> Iterator[dict[str, Future[runner.Verdict]]]:
    """Verdicts of the cases that wait, begun at once."""
    with ThreadPoolExecutor() as pool:
        yield {case["id"]: pool.submit(runner.run, case) for case in REAL if waits(case)}


@pytest.mark.parametrize("case", REAL, ids=lambda case: case["id"])
def test_field_case(case: dict[str, Any], begun: dict[str, Future[runner.Verdict]]) -> None:
    judge(begun[case["id"]].result() if case["id"] in begun else runner.run(case))
