"""The field cases, one test an id. What needs a room that is not built yet is skipped, and says which."""

from typing import Any

import pytest

from tests.cases import runner
from tests.cases.__main__ import SHIPPED, load

CASES = list(load(SHIPPED))
BY_MACHINE = [case for case in CASES if case.get("machine", True)]


@pytest.mark.parametrize("case", BY_MACHINE, ids=lambda case: case["id"])
def test_field_case(case: dict[str, Any]) -> None:
    verdict = runner.run(case)
    if verdict.word in ("not yet", "skipped"):
        pytest.skip(f"{verdict.word}: {verdict.reasons[0]}")
    assert verdict.word == "pass", str(verdict)


@pytest.mark.parametrize("size", [1, 7])
def test_no_check_changes_when_reads_come_in_parts(size: int) -> None:
    virtual = [case for case in BY_MACHINE if case.get("virtual", True)]
    verdicts = [(runner.run(case), runner.run(case, size)) for case in virtual[::3]]
    assert [whole.word for whole, _ in verdicts] == [parted.word for _, parted in verdicts]


def test_every_case_for_the_hand_has_its_test(request: pytest.FixtureRequest) -> None:
    source = (request.path.parent / "test_cases_by_hand.py").read_text()
    by_hand = [case["id"] for case in CASES if not case.get("machine", True)]
    assert [id for id in by_hand if f"test_{id.replace('-', '_')}" not in source] == []
