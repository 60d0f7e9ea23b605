"""The field cases in virtual time, one test an id; tests/socket has the others. What needs a room that is not built yet
is skipped, and says which."""

from typing import Any

import pytest

from tests.cases import runner
from tests.cases.__main__ import OWN, SHIPPED, load
from tests.cases.case import case_of

CASES = [*load(SHIPPED), *load(OWN)]
BY_MACHINE = [case for case in CASES if case.get("machine", True)]


VIRTUAL = [case for case in BY_MACHINE if case.get("virtual", True)]


@pytest.mark.parametrize("case", VIRTUAL, ids=lambda case: case["id"])
def test_field_case(case: dict[str, Any]) -> None:
    judge(runner.run(case))


def judge(verdict: runner.Verdict) -> None:
    """Whether the case holds; skipped where it cannot be tried."""
    if verdict.word in ("not yet", "skipped"):
        pytest.skip(f"{verdict.word}: {verdict.reasons[0]}")
    assert verdict.word == "pass", str(verdict)


def short(case: dict[str, Any]) -> bool:
    """Its reads can be had byte by byte within a test's time."""
    scripts = (step.script(0, 0) for step in case_of(case).steps)
    return sum(len(read.data) for script in scripts for read in script.reads) < 1_000_000


@pytest.mark.parametrize("size", [1, 7])
def test_no_check_changes_when_reads_come_in_parts(size: int) -> None:
    virtual = [case for case in VIRTUAL if short(case)]
    verdicts = [(runner.run(case), runner.run(case, size)) for case in virtual[::3]]
    assert [whole.word for whole, _ in verdicts] == [parted.word for _, parted in verdicts]


def test_every_case_for_the_hand_has_its_test(request: pytest.FixtureRequest) -> None:
    source = (request.path.parent / "socket" / "test_cases_by_hand.py").read_text()
    by_hand = [case["id"] for case in CASES if not case.get("machine", True)]
    assert [id for id in by_hand if f"test_{id.replace('-', '_')}" not in source] == []
