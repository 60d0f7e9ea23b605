"""What an engine says of its inside beside its metrics: pages of JSON in, one small record out. Pure.

    llama.cpp   /props      what it was started with, and whether it sleeps
                /slots      each slot: whether it works, tokens in it. May hold prompts (LLAMA_SERVER_SLOTS_DEBUG): only
                            numbers are taken out
    SGLang      /v1/loads   running, waiting, token usage by rank; since 0.5.8
                /get_load   running and waiting together, by rank; before that, from then on to 0.5.17 with a warning in
                            the engine's log at each look
    Ollama      /api/ps     models in memory, and where

Names and forms changed over the years; each reader says which it understands.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from proxy.engines.gauges import Gauges
from proxy.engines.values import entries, members, parsed, positive, share, whole, word

LOADED_LIMIT = 64
"""Models in memory that are told of; far more than fit."""

PROPS, SLOTS, LOADS, OLD_LOADS, PS = "/props", "/slots", "/v1/loads?include=core", "/get_load", "/api/ps"

CALM: Mapping[str, Sequence[str]] = {"llamacpp": (PROPS,), "sglang": (LOADS, OLD_LOADS), "ollama": (PS,)}
"""Pages by kind of engine that are asked at every look: the first that answers is enough."""

STIRRING: Mapping[str, Sequence[str]] = {"llamacpp": (SLOTS,)}
"""Pages that count as work: llama.cpp (--sleep-idle-seconds) loads its model to answer them, and does not fall asleep
while it is asked. So does its /metrics in builds before 2026-08-19 (llama.cpp #27376)."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model in memory."""

    name: str
    size: int | None = None
    """Bytes, context included. (0.33 says 0 of some models: that is no size.)"""
    size_vram: int | None = None
    """Bytes of them in video memory. (Without any, 0.33 says `size`, and 0.17 says 0.)"""
    context_length: int | None = None
    """Tokens that each of its slots has."""
    expires_at: str | None = None
    """When it is to go, as the engine says it, by the engine's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """An engine's inside at one moment. None: it does not say."""

    running: float | None = None
    """Requests that it works on."""
    waiting: float | None = None
    kv_usage: float | None = None
    """0 to 1, of the KV cache; of llama.cpp's slots the fullest that works, of its own window: whether slots share one
    cache cannot be seen."""
    slots: int | None = None
    """Requests that it can work on at once."""
    context: int | None = None
    """Tokens that each slot has."""
    model: str | None = None
    sleeping: bool | None = None
    """The model is not in memory until the next request; None too where it has no such state."""
    loaded: tuple[Loaded, ...] | None = None
    """Models in memory, where it serves several."""

    def over(self, other: "Inside") -> "Inside":
        """What this one says, and of the rest what the other says."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(other, **{name: value for name, value in said.items() if value is not None})


def read(target: str, body: bytes) -> Inside:
    """What is in a page of JSON. Never raises; a page of something else says nothing."""
    return READERS[target](parsed(body))


def of_metrics(gauges: Gauges) -> Inside:
    """What an engine's metrics say of the same."""
    return Inside(running=gauges.running, waiting=gauges.waiting, kv_usage=gauges.kv_usage)


def _props(page: Any) -> Inside:
    said = members(page)
    settings = members(said.get("default_generation_settings"))
    path = word(said.get("model_path")) or ""
    sleeping = said.get("is_sleeping")
    return Inside(
        slots=positive(said.get("total_slots")),
        context=positive(settings.get("n_ctx")),
        model=word(said.get("model_alias")) or re.split(r"[/\\]", path)[-1] or None,
        sleeping=sleeping if isinstance(sleeping, bool) else None,
    )


def _slots(page: Any) -> Inside:
    found = entries(page)
    works = [_works(slot) for slot in found]
    if not found or None in works:
        return Inside()
    usage = [_usage(slot) for slot, busy in zip(found, works, strict=True) if busy]
    return Inside(
        running=sum(map(bool, works)),
        kv_usage=max((used for used in usage if used is not None), default=None if usage else 0.0),
        slots=len(found),
        context=positive(found[0].get("n_ctx")),
    )


def _works(slot: Mapping[str, Any]) -> bool | None:
    """Whether a slot has a request: `is_processing`; up to 2024 a `state` that is not 0."""
    busy = slot.get("is_processing", slot.get("state"))
    return bool(busy) if isinstance(busy, bool | int) else None


def _usage(slot: Mapping[str, Any]) -> float | None:
    """The share of its window that is taken. `n_prompt_tokens` is the prompt's in some builds, and all in others."""
    decoded = slot.get("next_token")
    decoded = members(decoded[0] if isinstance(decoded, list) and decoded else decoded).get("n_decoded")
    counts = [slot.get("n_prompt_tokens_cache"), slot.get("n_prompt_tokens_processed"), decoded]
    tokens = [whole(count) for count in counts]
    window = positive(slot.get("n_ctx"))
    return share(sum(count or 0 for count in tokens) / window) if window and None not in tokens else None


def _loads(page: Any) -> Inside:
    """Sums over the ranks of data parallelism; of their token pools the fullest counts."""
    ranks = entries(page if isinstance(page, list) else members(page).get("loads"))
    usage = [share(rank.get("token_usage")) for rank in ranks]
    waiting = _sum(rank.get("num_waiting_reqs") for rank in ranks)
    together = _sum(rank.get("num_reqs") for rank in ranks)
    running = _sum(rank.get("num_running_reqs") for rank in ranks)
    if running is None and together is not None and waiting is not None:
        running = max(0, together - waiting)
    return Inside(
        running=running,
        waiting=waiting,
        kv_usage=max((used for used in usage if used is not None), default=None),
        slots=_sum(rank.get("max_running_requests") for rank in ranks) or None,
    )


def _sum(values: Iterable[Any]) -> int | None:
    """None where one of them is not said, or there are none."""
    counts = [whole(value) for value in values]
    return sum(count or 0 for count in counts) if counts and None not in counts else None


def _models(page: Any) -> Inside:
    listed = members(page).get("models")
    found = (_loaded(entry) for entry in entries(listed)[:LOADED_LIMIT])
    return Inside(loaded=tuple(model for model in found if model)) if isinstance(listed, list) else Inside()


def _loaded(entry: Mapping[str, Any]) -> Loaded | None:
    name, expires = word(entry.get("name")), word(entry.get("expires_at")) or ""
    if not name:
        return None
    return Loaded(
        name=name,
        size=positive(entry.get("size")),
        size_vram=whole(entry.get("size_vram")),
        context_length=positive(entry.get("context_length")),
        expires_at=expires if _MOMENT.fullmatch(expires) else None,
    )


READERS: dict[str, Callable[[Any], Inside]] = {
    PROPS: _props,
    SLOTS: _slots,
    LOADS: _loads,
    OLD_LOADS: _loads,
    PS: _models,
}
"""Every page that is read."""
