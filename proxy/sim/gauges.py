"""vLLM's metrics page, by its own names and definitions.

Requests that a client left are in none of the finished-request series, as there. Phase histograms have vLLM's edges:
nothing under 0.3 s.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.sim.jobs import Step, Truth

PHASE_EDGES = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
"""Seconds: vLLM's edges for queue, prefill, decode, inference and whole requests."""

TTFT_EDGES = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
    160,
    640,
    2560,
)
"""Seconds."""

TOKEN_EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
"""Seconds between tokens."""

COUNT_EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)
"""Tokens."""

EDGES = {
    "time_to_first_token_seconds": TTFT_EDGES,
    "inter_token_latency_seconds": TOKEN_EDGES,
    "request_time_per_output_token_seconds": TOKEN_EDGES,
    "e2e_request_latency_seconds": PHASE_EDGES,
    "request_queue_time_seconds": PHASE_EDGES,
    "request_inference_time_seconds": PHASE_EDGES,
    "request_prefill_time_seconds": PHASE_EDGES,
    "request_decode_time_seconds": PHASE_EDGES,
    "request_prompt_tokens": COUNT_EDGES,
    "request_generation_tokens": COUNT_EDGES,
    "iteration_tokens_total": COUNT_EDGES,
}
"""Histograms, the last one with a counter's name, as there."""

COUNTERS = (
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "prompt_tokens_total",
    "prompt_tokens_cached_total",
    "generation_tokens_total",
    "num_preemptions_total",
)


@dataclass(slots=True)
class _Histogram:
    """State: observations per bucket (the last has no edge), and their sum."""

    edges: Sequence[float]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.edges) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value


class Gauges:
    """All series of one model. State: counters, histograms, and each stream's last token."""

    def __init__(self, model: str, cache_config: dict[str, str]) -> None:
        self._labels = f'engine="0",model_name="{model}"'
        self._config = ",".join(f'{key}="{value}"' for key, value in cache_config.items())
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._finished = {"stop": 0, "length": 0, "abort": 0}
        self._histograms = {name: _Histogram(edges) for name, edges in EDGES.items()}
        self._last: dict[str, int] = {}

    def take(self, step: Step) -> None:
        """Count a step whose tokens leave now."""
        if step.size:
            self._histograms["iteration_tokens_total"].observe(step.size)
        self._counters["num_preemptions_total"] += len(step.preempted)
        self._counters["generation_tokens_total"] += len(step.tokens)
        for _, prompt, cached in step.admitted:
            self._counters["prefix_cache_queries_total"] += prompt
            self._counters["prefix_cache_hits_total"] += cached
            self._counters["prompt_tokens_total"] += prompt
            self._counters["prompt_tokens_cached_total"] += cached
        for token in step.tokens:
            if token.id in self._last:
                self._observe("inter_token_latency_seconds", step.end_ns - self._last[token.id])
            self._last[token.id] = step.end_ns
        for truth in step.ended:
            self._last.pop(truth.id, None)
            if not truth.aborted:
                self._finish(truth)

    def page(self, running: int, waiting: int, kv_usage: float) -> bytes:
        """The page in Prometheus' text format."""
        gauges = {"num_requests_running": running, "num_requests_waiting": waiting, "kv_cache_usage_perc": kv_usage}
        lines = []
        for name, value in gauges.items():
            lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{self._labels}}} {float(value)}"]
        for name, count in self._counters.items():
            lines += [f"# TYPE vllm:{name} counter", f"vllm:{name}{{{self._labels}}} {float(count)}"]
        lines.append("# TYPE vllm:request_success_total counter")
        for reason, count in self._finished.items():
            lines.append(f'vllm:request_success_total{{{self._labels},finished_reason="{reason}"}} {float(count)}')
        for name, histogram in self._histograms.items():
            lines += self._render(f"vllm:{name}", histogram)
        lines += ["# TYPE vllm:cache_config_info gauge", f'vllm:cache_config_info{{engine="0",{self._config}}} 1.0', ""]
        return "\n".join(lines).encode()

    def _finish(self, truth: Truth) -> None:
        queue, prefill, decode = truth.queue_ns or 0, truth.prefill_ns or 0, truth.decode_ns or 0
        before = (truth.step_wait_ns or 0) + queue + prefill
        self._observe("time_to_first_token_seconds", before)
        self._observe("e2e_request_latency_seconds", before + decode)
        self._observe("request_queue_time_seconds", queue)
        self._observe("request_prefill_time_seconds", prefill)
        self._observe("request_decode_time_seconds", decode)
        self._observe("request_inference_time_seconds", prefill + decode)
        self._observe("request_time_per_output_token_seconds", decode / max(1, truth.output_tokens - 1))
        self._histograms["request_prompt_tokens"].observe(truth.prompt_tokens)
        self._histograms["request_generation_tokens"].observe(truth.output_tokens)
        self._finished[truth.finish] += 1

    def _observe(self, name: str, ns: float) -> None:
        self._histograms[name].observe(ns / 1e9)

    def _render(self, name: str, histogram: _Histogram) -> list[str]:
        lines, seen = [f"# TYPE {name} histogram"], 0
        for edge, count in zip((*histogram.edges, "+Inf"), histogram.counts, strict=True):
            seen += count
            lines.append(f'{name}_bucket{{{self._labels},le="{edge}"}} {float(seen)}')
        return [
            *lines,
            f"{name}_count{{{self._labels}}} {float(seen)}",
            f"{name}_sum{{{self._labels}}} {histogram.total}",
        ]
