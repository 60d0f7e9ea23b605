"""What is worth saying of many exchanges together. Pure, over the recent records."""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable

from proxy.names import shortest
from proxy.prefixes.ledger import without_effect
from proxy.records import Finished, Outcome, RequestRecord

KEEP_S = 300.0
"""Ollama keeps a model for 5 minutes after its last request (OLLAMA_KEEP_ALIVE): one that must be loaded again sooner
was pushed out."""
SWAPS = 2
"""One push may be chance."""
UNLOADED = "unload"
"""Why Ollama's answer ends to who asks it to let go of a model: that one is not pushed out."""


def trends(records: Iterable[RequestRecord]) -> dict[str, list[str]]:
    """Findings over all records, given in any order, and the engines of which each holds."""
    by_engine: dict[str, list[RequestRecord]] = {}
    for record in sorted(records, key=lambda record: record.finished.timeline.at_s):
        by_engine.setdefault(record.finished.engine, []).append(record)
    found = {name: [engine for engine, its in by_engine.items() if holds(its)] for name, holds in RULES.items()}
    return {name: sorted(engines) for name, engines in found.items() if engines}


def model_swaps(records: list[RequestRecord]) -> bool:
    """Loads alternate between models: one is loaded again although it was used just now, for another had its place."""
    ends_s: dict[str, list[float]] = {}
    loaded: str | None = None
    swaps = 0
    for record in records:
        finished, timeline = record.finished, record.finished.timeline
        model = shortest(finished.facts.model or "")
        ends = ends_s.setdefault(model, [])
        if "cold_load" in record.findings:
            swaps += loaded != model and _used_just_now(ends, timeline.at_s)
            loaded = model
        if timeline.finish == UNLOADED:
            ends.clear()
        elif _used(finished):
            insort(ends, timeline.at_s + timeline.total_ns / 1e9)
    return swaps >= SWAPS


def _used(finished: Finished) -> bool:
    """The model was in memory for this one: it was neither turned away nor gone before anything came."""
    served = finished.outcome is Outcome.COMPLETED or finished.timeline.first_token_ns is not None
    return served and finished.facts.route == "inference"


def _used_just_now(ends_s: list[float], at_s: float) -> bool:
    """One of its requests was over when this one came. What ran still may have waited for the same load as this one."""
    over = bisect_right(ends_s, at_s)
    return over > 0 and at_s - ends_s[over - 1] < KEEP_S


def cache_no_effect(records: list[RequestRecord]) -> bool:
    """Whole blocks should have been reused, and the engine says that none was."""
    known = [
        (finished.prefix, finished.usage.cached_tokens)
        for finished in (record.finished for record in records)
        if finished.outcome is Outcome.COMPLETED
        and finished.prefix is not None
        and finished.usage is not None
        and finished.usage.cached_tokens is not None
    ]
    promising = sum((prefix.expected or 0) >= prefix.block for prefix, _ in known)
    return without_effect(promising, sum(cached for _, cached in known))


RULES: dict[str, Callable[[list[RequestRecord]], bool]] = {
    "model_swaps": model_swaps,
    "cache_no_effect": cache_no_effect,
}
"""Every finding that is made here, of the records of one engine in the order of arrival."""
