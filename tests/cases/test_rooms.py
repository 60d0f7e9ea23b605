"""What a case needs follows from its words."""

from typing import Any

import pytest

from tests.cases.case import case_of
from tests.cases.rooms import needs


@pytest.mark.parametrize(
    ("case", "rooms"),
    [
        ({}, set()),
        ({"config": {"encoding": "cl100k_base"}}, {"tokens"}),
        ({"config": {"max_concurrency": 2}}, {"admission"}),
        ({"check": {"report": {"ttft.count": 1}}}, {"store"}),
        ({"check": {"breaker": None}}, {"prefixes"}),
        ({"check": {"metrics": {"count_error.count": 1}}}, {"tokens"}),
        ({"check": {"findings": {"contains": ["cache_no_effect"]}}}, {"prefixes"}),
        ({"steps": [{"engine_metrics": {"a": 1}}]}, {"scrape"}),
        ({"steps": [{"client": {}, "check": {"findings": {"lacks": ["context_truncated"]}}}]}, {"tokens"}),
        ({"steps": [{"client": {}, "check": {"either": [{"counted": {}}, {"status": 1}]}}]}, {"tokens"}),
        ({"steps": [{"client": {}, "check": {"admission": {"decision": "queued"}}}]}, {"admission", "queueing"}),
    ],
)
def test_rooms_by_words(case: dict[str, Any], rooms: set[str]) -> None:
    assert needs(case_of({"id": "FC-900", "steps": [], **case})) == rooms
