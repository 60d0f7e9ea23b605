"""A record as JSON: one contract, the same in the JSONL file, in `/api/requests` and in `phasegate report --rows`.

    v           version of this contract; it rises when a key changes its meaning, not when one is added
    id          x-request-id: the client's, or ours
    at          arrival, seconds since the epoch (wall clock: for reading, never for subtracting)
    engine      name of the engine, "" where none was chosen
    model, dialect, kind, route, stream, tenant   what was asked, by whom
    outcome     one of records.Outcome; status: what the client got; error: why, where it did not complete
    total_s     arrival to last byte out; ttfb_s, ttft_s, answer_ttft_s count from arrival too
    tpot_s, itl_s   time per output token; gaps between token events (several choices: of the one with the worst gap)
    blocked_s   beside the sum: the client reads slowly
    phases      in the order of life; each with seconds, class, source, error; they sum to total_s
    rates       tokens per second of prefill (fresh tokens only) and of decode
    tokens      what the engine says; `counted` is our own count before dispatch
    admission   what the door decided
    prefix      where the prompt's tokens come from, all in tokens of the engine's own prompt (about, where it does not
                say its length); without bins where it read another one than was sent; `family`: the keyed name of
                prompts like it, as in /api/prefixes, of those that the search took (120 a minute, and as many at once);
                `inferred`: cached tokens by prefill time
    findings    what is worth saying

Times are seconds. Unknown is null: `itl_s` and `tpot_s` too where the client read slowly, for its pace is no gap of the
engine's. What does not apply is absent: `itl_s` without a token event, `error` of a completed exchange, `counted` where
nothing was counted, `prefix` where nothing was audited.
"""

from typing import Any

import msgspec

from proxy.exporters.stamps import engine_gaps
from proxy.records import (
    AdmissionVerdict,
    EngineReport,
    Gaps,
    Outcome,
    Phase,
    PrefixVerdict,
    RequestRecord,
    TokenCount,
    Usage,
)

VERSION = 1

SECOND_NS = 1e9

_encode = msgspec.json.Encoder().encode


def to_json(record: RequestRecord) -> bytes:
    """The record as one line of JSON, without the line's end."""
    return _encode(to_dict(record))


def to_dict(record: RequestRecord) -> dict[str, Any]:
    """The record in the form of the contract, as plain values."""
    finished, breakdown = record.finished, record.breakdown
    facts, timeline = finished.facts, finished.timeline
    row: dict[str, Any] = {
        "v": VERSION,
        "id": finished.id,
        "at": timeline.at_s,
        "engine": finished.engine,
        "model": facts.model,
        "dialect": facts.dialect,
        "kind": facts.kind,
        "route": facts.route,
        "stream": timeline.streamed if finished.status == 200 else facts.stream,
        "tenant": finished.tenant,
        "outcome": finished.outcome.value,
        "status": finished.status,
        "total_s": timeline.total_ns / SECOND_NS,
        "ttfb_s": seconds(timeline.first_byte_ns),
        "ttft_s": seconds(timeline.first_token_ns),
        "answer_ttft_s": seconds(timeline.first_answer_ns),
        "tpot_s": seconds(breakdown.tpot_ns),
        "blocked_s": timeline.blocked_ns / SECOND_NS,
        "phases": {phase.name: _phase(phase) for phase in breakdown.phases},
        "rates": {"prefill": breakdown.prefill_rate, "decode": breakdown.decode_rate},
        "tokens": _tokens(finished.usage, finished.report, finished.counted),
        "admission": _admission(finished.admission),
        "findings": list(record.findings),
    }
    if timeline.gaps:
        row["itl_s"] = _itl(engine_gaps(timeline))
    if finished.prefix is not None:
        row["prefix"] = _prefix(finished.prefix)
    if finished.outcome is not Outcome.COMPLETED:
        row["error"] = finished.error
    return row


def seconds(ns: float | None) -> float | None:
    """Nanoseconds as seconds; unknown stays unknown."""
    return None if ns is None else ns / SECOND_NS


def fresh_tokens(usage: Usage | None, report: EngineReport | None) -> int | None:
    """Prompt tokens that the engine really read: as it says, or all of them but the cached; None: not known."""
    if report is not None and report.fresh_tokens is not None:
        return report.fresh_tokens
    if usage is None or usage.prompt_tokens is None or usage.cached_tokens is None:
        return None
    return max(0, usage.prompt_tokens - usage.cached_tokens)


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "s": phase.ns / SECOND_NS,
        "class": phase.klass.value,
        "source": phase.source,
        "error_s": seconds(phase.error_ns),
    }


def _itl(gaps: tuple[Gaps, ...]) -> dict[str, Any] | None:
    if not gaps:
        return None
    worst = max(gaps, key=lambda choice: choice.max_ns)
    return {"p50": worst.p50_ns / SECOND_NS, "p99": worst.p99_ns / SECOND_NS, "max": worst.max_ns / SECOND_NS}


def _tokens(usage: Usage | None, report: EngineReport | None, count: TokenCount | None) -> dict[str, Any]:
    usage = usage or Usage()
    known = usage.prompt_tokens is not None or usage.output_tokens is not None
    tokens: dict[str, Any] = {
        "prompt": usage.prompt_tokens,
        "cached": usage.cached_tokens,
        "fresh": fresh_tokens(usage, report),
        "output": usage.output_tokens,
        "class": "measured" if known else "unknown",
    }
    if usage.reasoning_tokens is not None:
        tokens["reasoning"] = usage.reasoning_tokens
    if count is not None:
        tokens["counted"] = {"n": count.n, "how": count.how, "band": [count.low, count.high]}
    return tokens


def _admission(verdict: AdmissionVerdict) -> dict[str, Any]:
    admission: dict[str, Any] = {
        "decision": verdict.decision,
        "reason": verdict.reason,
        "rule": verdict.rule,
        "mode": verdict.mode,
        "waited_s": verdict.waited_ns / SECOND_NS,
    }
    if verdict.predicted_ttft_ns is not None:
        admission["predicted_ttft_s"] = verdict.predicted_ttft_ns / SECOND_NS
    return admission


def _prefix(verdict: PrefixVerdict) -> dict[str, Any]:
    prefix: dict[str, Any] = {
        "block": verdict.block,
        "tokens": verdict.tokens,
        "expected": verdict.expected,
        "reported": verdict.reported,
        "attainable": verdict.attainable,
        "infinite": verdict.infinite,
        "bins": dict(verdict.bins),
        "family": verdict.family,
    }
    if verdict.inferred is not None:
        inferred = verdict.inferred
        prefix["inferred"] = {"n": inferred.cached, "band": [inferred.low, inferred.high]}
    return prefix
