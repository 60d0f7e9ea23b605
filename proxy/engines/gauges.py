"""What an engine's own metrics say: Prometheus text in, one small record out. Pure.

Names changed over the years and differ between engines: `ALIASES` holds every one that is understood. The reader is
made for this one use: it takes what is a sample, and leaves out what is not.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

TARGET = "/metrics"
KINDS = frozenset({"vllm", "sglang", "llamacpp", "openai"})
"""Engine types that may have such a page (llama.cpp and SGLang: behind a flag). Ollama has none."""

_SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?[ \t]+(\S+)')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')

_WHOLE = re.compile(r"[0-9]{1,18}")

ALIASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "running": (("vllm:num_requests_running",), ("sglang:num_running_reqs",), ("llamacpp:requests_processing",)),
    "waiting": (("vllm:num_requests_waiting",), ("sglang:num_queue_reqs",), ("llamacpp:requests_deferred",)),
    "preemptions": (("vllm:num_preemptions",), ("sglang:num_retracted_requests",)),
    "prefix_queries": (
        ("vllm:prefix_cache_queries",),
        ("vllm:gpu_prefix_cache_queries",),
        ("sglang:prompt_tokens",),
        ("llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"),
    ),
    "prefix_hits": (
        ("vllm:prefix_cache_hits",),
        ("vllm:gpu_prefix_cache_hits",),
        ("sglang:cached_tokens",),
        ("llamacpp:prompt_tokens_cached",),
    ),
}
"""Sums over all label sets (one set per data-parallel engine): the first line whose names are all there. Names stand
without `_total`, which some versions have and some have not."""

USAGE = (
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "sglang:token_usage",
    "llamacpp:kv_cache_usage_ratio",
)
"""Share of the KV cache in use, 0 to 1 despite `perc`. Of several engines the fullest counts."""

MEANS: dict[str, tuple[str, ...]] = {
    "ttft": ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"),
    "itl": (
        "vllm:inter_token_latency_seconds",
        "vllm:time_per_output_token_seconds",
        "sglang:inter_token_latency_seconds",
    ),
    "queue": ("vllm:request_queue_time_seconds", "sglang:queue_time_seconds"),
    "prefill": ("vllm:request_prefill_time_seconds",),
    "decode": ("vllm:request_decode_time_seconds",),
}
"""Histograms of which sum and count are taken: vLLM's phases have no bucket under 0.3 s."""

BEGAN = "process_start_time_seconds"
"""Of the process that serves the page, from Prometheus' own client libraries; without it where there are several."""

CACHE = "vllm:cache_config_info"
"""Has the settings of the cache as labels."""

MOST = 2.0**53
"""Seconds, and requests, that no engine has counted; up to here a sum of floats is exact."""

SAMPLES, SAMPLE_BYTES = 4, 2 * 1024
"""Samples of a name that are picked out, and how long each may be."""

Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum that only grows, and of how many."""

    sum_s: float
    count: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """An engine's own figures at one moment. None: it does not say. Counters count since it started."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    """0 to 1."""
    preemptions: float | None = None
    prefix_queries: float | None = None
    """Prompt tokens that were looked up in the prefix cache, and ..."""
    prefix_hits: float | None = None
    """... those that were found."""
    block_size: int | None = None
    """Tokens a block of the prefix cache."""
    blocks: int | None = None
    """Blocks of the KV cache."""
    began_s: float | None = None
    """When its process began, seconds since the epoch by its own clock."""
    totals: Mapping[str, Total]
    """Of `MEANS`, by name; what the engine does not have is absent."""


def read(text: str) -> Gauges:
    """The figures in a page of metrics. Never raises; a page of something else has none."""
    samples: dict[str, list[float]] = {}
    config: dict[str, str] = {}
    for name, labels, value in _samples(text):
        samples.setdefault(name.removesuffix("_total"), []).append(value)
        if name == CACHE:
            config = dict(_LABEL.findall(labels))
    usage = next((max(samples[name]) for name in USAGE if name in samples), None)
    sums = {name: _sum(samples, lines) for name, lines in ALIASES.items()}
    totals = {name: total for name, names in MEANS.items() if (total := _total(samples, names)) is not None}
    blocks, size = _whole(config.get("num_gpu_blocks")), _whole(config.get("block_size"))
    began_s = max(samples.get(BEGAN, ()), default=None)
    return Gauges(**sums, kv_usage=usage, block_size=size, blocks=blocks, began_s=began_s, totals=totals)


def picked(page: bytes, names: Sequence[str]) -> str:
    """The first samples of these names: pages may be of any length, and nobody else is served while one is read."""
    lines: list[bytes] = []
    page = b"\n" + page
    for start in (b"\n" + name.encode() for name in names):
        at = page.find(start)
        for _ in range(SAMPLES):
            if at >= 0:
                lines.append(page[at + 1 : at + 1 + SAMPLE_BYTES].partition(b"\n")[0])
                at = page.find(start, at + 1)
    return b"\n".join(lines).decode("utf-8", "replace")


def _samples(text: str) -> Iterator[tuple[str, str, float]]:
    for line in text.split("\n"):  # U+2028 and others may stand in a label
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value):
            yield match[1], match[2] or "", value


def _sum(samples: Samples, lines: Sequence[Sequence[str]]) -> float | None:
    there = (names for names in lines if all(name in samples for name in names))
    return next((sum(sum(samples[name]) for name in names) for names in there), None)


def _total(samples: Samples, names: Sequence[str]) -> Total | None:
    for name in names:
        if f"{name}_sum" in samples and f"{name}_count" in samples:
            total = Total(sum_s=sum(samples[f"{name}_sum"]), count=sum(samples[f"{name}_count"]))
            return total if max(abs(total.sum_s), abs(total.count)) < MOST else None
    return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and _WHOLE.fullmatch(text) else None
