"""Which rooms of the product a case needs, from the words that it uses; ids are never looked at."""

from collections.abc import Iterator
from typing import Any

from tests.cases.case import Case

_CHECK_ROOMS = {
    "counted": "tokens",
    "admission": "admission",
    "reuse_tokens": "prefixes",
    "ledger": "prefixes",
    "breaker": "prefixes",
    "report": "store",
}
_CONFIG_ROOMS = {
    "encoding": "tokens",
    "max_prompt_tokens": "admission",
    "max_concurrency": "admission",
    "queue_length": "admission",
    "tenants": "admission",
}
_FINDING_ROOMS = {
    "context_truncated": "tokens",
    "num_ctx_ignored": "tokens",
    "cache_no_effect": "prefixes",
    "cache_contradicted": "prefixes",
}
_QUEUEING = ("queued", "queue_timeout", "queue_deadline", "predicted_ttft")
"""Words that only a case with a wait in our own queue says."""


def needs(case: Case) -> set[str]:
    """The rooms beyond relay and spine."""
    rooms = {_CONFIG_ROOMS[key] for key in case.config if key in _CONFIG_ROOMS}
    if any(step.engine_metrics is not None for step in case.steps):
        rooms.add("scrape")
    for check in _checks(case):
        rooms |= {_CHECK_ROOMS[key] for key in check if key in _CHECK_ROOMS}
        rooms |= {_FINDING_ROOMS[name] for name in _findings(check) if name in _FINDING_ROOMS}
        rooms |= {"tokens"} if "count_error.count" in check.get("metrics", {}) else set()
        rooms |= {"queueing"} if _waits(check) else set()
    return rooms


def _checks(case: Case) -> Iterator[dict[str, Any]]:
    yield case.check
    for step in case.steps:
        yield step.check
        yield from step.check.get("either", ())


def _findings(check: dict[str, Any]) -> list[str]:
    found = check.get("findings", {})
    return [*found.get("contains", ()), *found.get("lacks", ())]


def _waits(check: dict[str, Any]) -> bool:
    said = [check.get("outcome"), *check.get("admission", {}).values()]
    return any(word in said for word in _QUEUEING)
