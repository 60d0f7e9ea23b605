"""Speeds of one exchange. Output tokens come from the engine's usage, never from counting events."""

from collections.abc import Iterable
from typing import NamedTuple

from proxy.attribution.ollama import counts_fresh_only
from proxy.attribution.seen import paced, shown
from proxy.claims import FASTEST
from proxy.records import EngineReport, Finished, Phase, Timeline

FASTEST_PREFILL = 1_000_000
"""Tokens per second that no engine prefills for one request: a figure above it is no speed."""

ENDED = ("stop", "eos", "end_turn", "tool_calls", "function_call", "tool_use")
"""Reasons to finish that a token gave, which engines write and count, and do not show."""

LATE = 2
"""An event that follows the last token by half of what a token takes was waited for: the engine wrote another one."""


class Rates(NamedTuple):
    """Tokens per second of prefill (fresh ones) and of decode, nanoseconds per output token; None: not known."""

    prefill: float | None
    decode: float | None
    tpot_ns: float | None


def rates(finished: Finished, report: EngineReport | None, phases: Iterable[Phase]) -> Rates:
    """`report` is None where it is not trusted; then our own clock stands in for decode."""
    spans = {phase.name: phase.ns for phase in phases}
    tpot = _tpot(finished)
    return Rates(_prefill(finished, report, spans), _decode(finished, report, tpot), tpot)


def _prefill(finished: Finished, report: EngineReport | None, spans: dict[str, int]) -> float | None:
    fresh = _fresh(finished, report)
    if fresh is None or fresh < 2 or not spans.get("prefill") or _several(finished):
        return None
    rate = fresh * 1e9 / spans["prefill"]
    return rate if rate <= FASTEST_PREFILL else None


def _fresh(finished: Finished, report: EngineReport | None) -> int | None:
    if report is not None and report.fresh_tokens is not None:
        return report.fresh_tokens
    usage = finished.usage
    if usage is None or usage.prompt_tokens is None:
        return None
    if counts_fresh_only(finished.evidence):
        return usage.prompt_tokens
    return None if usage.cached_tokens is None else usage.prompt_tokens - usage.cached_tokens


def _decode(finished: Finished, report: EngineReport | None, tpot: float | None) -> float | None:
    """n - 1 tokens lie between the first and the last one, by the engine's duration or by our clock."""
    if report is None or not report.decode_ns or not report.covers_all:
        return 1e9 / tpot if tpot else None
    tokens = report.output_tokens if report.output_tokens is not None else _output(finished)
    if tokens is None or tokens < 2 or _several(finished):
        return None
    rate = (tokens - 1) * 1e9 / report.decode_ns
    return rate if rate <= FASTEST else None


def _tpot(finished: Finished) -> float | None:
    """Nanoseconds per output token between the first token event and the last; None where that is no speed, or the
    client's: it was waited for."""
    line, output = finished.timeline, shown(finished)
    if output is None or _several(finished) or not _span(line) or line.blocked_ns or not paced(finished):
        return None
    steps = output - line.first_event_tokens
    if output > line.token_events and _one_more(line, steps):
        steps -= 1
    return _span(line) / steps if 0 < steps <= FASTEST * _span(line) / 1e9 else None


def _one_more(line: Timeline, steps: int) -> bool:
    """Whether a token came behind the last event that has some: the one that ended the answer."""
    if line.finish not in ENDED or line.finish_ns is None or line.last_token_ns is None:
        return False
    return (line.finish_ns - line.last_token_ns) * LATE * steps >= _span(line)


def _span(line: Timeline) -> int:
    if line.first_token_ns is None or line.last_token_ns is None:
        return 0
    return max(0, line.last_token_ns - line.first_token_ns)


def _several(finished: Finished) -> bool:
    return finished.timeline.choices > 1 or finished.facts.prompts > 1


def _output(finished: Finished) -> int | None:
    return None if finished.usage is None else finished.usage.output_tokens
