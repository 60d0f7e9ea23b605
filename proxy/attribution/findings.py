"""What is worth saying of one exchange beside its numbers."""

from collections.abc import Callable

from proxy.attribution.ollama import counts_fresh_only
from proxy.claims import of_first
from proxy.records import COLD_LOAD_NS, Finished, PhaseBreakdown

TRUNCATED = 1.25
"""Counted over reported prompt tokens. Ollama halves what does not fit, so a cut prompt shows a ratio near 2 or more;
the least count of the error band is used, so that a bad estimate says nothing."""
TRUNCATED_TOKENS = 256
"""And at least this many tokens are missing: templates of tiny prompts differ by tens."""


def findings(finished: Finished, breakdown: PhaseBreakdown) -> tuple[str, ...]:
    """All findings of an exchange, each once: those made on the way, attribution's, and ours."""
    ours = (name for name, holds in RULES.items() if holds(finished, breakdown))
    return tuple(dict.fromkeys((*finished.findings, *breakdown.findings, *ours)))


def cold_load(breakdown: PhaseBreakdown) -> bool:
    """The model was loaded for this request."""
    return any(phase.name == "load" and phase.ns >= COLD_LOAD_NS for phase in breakdown.phases)


def context_truncated(finished: Finished) -> bool:
    """The engine read far fewer prompt tokens than were sent, and said nothing."""
    usage, count, evidence = finished.usage, finished.counted, finished.evidence
    if evidence.kind != "ollama" or counts_fresh_only(evidence):  # a small count of fresh tokens is no sign of a cut
        return False
    if count is None or usage is None or usage.prompt_tokens is None:
        return False
    reported = usage.prompt_tokens
    return count.low > reported * TRUNCATED and count.low - reported >= TRUNCATED_TOKENS


def num_ctx_ignored(finished: Finished) -> bool:
    """The client asked for a window on a route where Ollama does not look for it."""
    asked = any(name == "num_ctx" for name, _ in finished.facts.options)
    return asked and finished.evidence.kind == "ollama" and finished.facts.dialect != "ollama"


def prompt_of_one(finished: Finished) -> bool:
    """The engine's prompt tokens are those of one prompt of several."""
    return _says(finished, "prompt_tokens") and finished.facts.prompts > 1 and of_first(finished.report)


def cached_of_one(finished: Finished) -> bool:
    """So are its cached ones; vLLM's too, which sums up all others."""
    one = of_first(finished.report) or finished.evidence.kind == "vllm"
    return _says(finished, "cached_tokens") and finished.facts.prompts > 1 and one


def output_of_one(finished: Finished) -> bool:
    """The engine's output tokens are those of one choice of several."""
    return _says(finished, "output_tokens") and of_first(finished.report)


def _says(finished: Finished, name: str) -> bool:
    return finished.usage is not None and getattr(finished.usage, name) is not None


RULES: dict[str, Callable[[Finished, PhaseBreakdown], bool]] = {
    "cold_load": lambda finished, breakdown: cold_load(breakdown),
    "context_truncated": lambda finished, breakdown: context_truncated(finished),
    "num_ctx_ignored": lambda finished, breakdown: num_ctx_ignored(finished),
    "of_one.prompt_tokens": lambda finished, breakdown: prompt_of_one(finished),
    "of_one.cached_tokens": lambda finished, breakdown: cached_of_one(finished),
    "of_one.output_tokens": lambda finished, breakdown: output_of_one(finished),
}
"""Every finding that is made here."""
