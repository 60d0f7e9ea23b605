"""The field cases, one test an id. What needs a room that is not built yet is skipped, and says which."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.cases import runner
from tests.cases.__main__ import OWN, SHIPPED, load
from tests.cases.case import case_of

CASES = [*load(SHIPPED), *load(OWN)]
BY_MACHINE = [case for case in CASES if case.get("machine", True)]


def waits(case: dict[str, Any]) -> bool:
    """Over sockets, and its script takes seconds: it mostly waits, and others can run meanwhile."""
    scripts = [step.get("engine") or {} for step in case["steps"]]
    reads = [read for script in scripts for each in _listed(script) for read in each.get("reads", ())]
    moments = [step.get("at_ms", 0) for step in case["steps"]] + [read["t_ms"] for read in reads]
    return not case.get("virtual", True) and 5_000 <= max(moments) < 20_000


def _listed(script: Any) -> list[dict[str, Any]]:
    return script if isinstance(script, list) else [script]


@pytest.fixture(scope="module")
def begun() -> Iterator[dict[str, Future[runner.Verdict]]]:
    """Verdicts of the cases that wait, begun at once."""
    with ThreadPoolExecutor() as pool:
        yield {case["id"]: pool.submit(runner.run, case) for case in BY_MACHINE if waits(case)}


@pytest.mark.parametrize("case", BY_MACHINE, ids=lambda case: case["id"])
def test_field_case(case: dict[str, Any], begun: dict[str, Future[runner.Verdict]]) -> None:
    verdict = begun[case["id"]].result() if case["id"] in begun else runner.run(case)
    if verdict.word in ("not yet", "skipped"):
        pytest.skip(f"{verdict.word}: {verdict.reasons[0]}")
    assert verdict.word == "pass", str(verdict)


def short(case: dict[str, Any]) -> bool:
    """Its reads can be had byte by byte within a test's time."""
    scripts = (step.script(0, 0) for step in case_of(case).steps)
    return sum(len(read.data) for script in scripts for read in script.reads) < 1_000_000


@pytest.mark.parametrize("size", [1, 7])
def test_no_check_changes_when_reads_come_in_parts(size: int) -> None:
    virtual = [case for case in BY_MACHINE if case.get("virtual", True) and short(case)]
    verdicts = [(runner.run(case), runner.run(case, size)) for case in virtual[::3]]
    assert [whole.word for whole, _ in verdicts] == [parted.word for _, parted in verdicts]


def test_every_case_for_the_hand_has_its_test(request: pytest.FixtureRequest) -> None:
    source = (request.path.parent / "test_cases_by_hand.py").read_text()
    by_hand = [case["id"] for case in CASES if not case.get("machine", True)]
    assert [id for id in by_hand if f"test_{id.replace('-', '_')}" not in source] == []
