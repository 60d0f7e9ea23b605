"""Ended exchanges to order: a streamed Ollama chat that went well, and whatever a test wants changed in it."""

from dataclasses import is_dataclass
from itertools import accumulate
from typing import Any

from proxy.records import (
    Class,
    Evidence,
    Finished,
    Gaps,
    Outcome,
    Phase,
    PhaseBreakdown,
    RequestFacts,
    RequestRecord,
    Timeline,
    Usage,
)

MS = 1_000_000
AT_S = 1_795_968_415.0


def frozen(kind: type) -> bool | None:
    """Whether objects of this class cannot be changed; None: it is no record, neither a named tuple nor a dataclass."""
    if is_dataclass(kind):
        return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    return True if issubclass(kind, tuple) and hasattr(kind, "_fields") else None


def varint(number: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def timeline(ttft_ms: int = 300, gaps_ms: tuple[int, ...] = (10,) * 47, **changes: Any) -> Timeline:
    """A stream of one choice with these gaps between its tokens; it ends with the last one."""
    ordered = sorted(gaps_ms) or [0]
    gaps = Gaps(
        0, len(gaps_ms), sum(gaps_ms) * MS, ordered[(len(ordered) - 1) // 2] * MS, ordered[-1] * MS, ordered[-1] * MS
    )
    last_ms = [*accumulate((ttft_ms, *gaps_ms))][-1]
    made = Timeline(
        at_s=AT_S,
        total_ns=last_ms * MS,
        dispatched_ns=MS,
        head_ns=ttft_ms * MS,
        first_byte_ns=ttft_ms * MS,
        first_token_ns=ttft_ms * MS,
        first_answer_ns=ttft_ms * MS,
        last_token_ns=last_ms * MS,
        last_byte_ns=last_ms * MS,
        streamed=True,
        token_events=len(gaps_ms) + 1,
        choices=1,
        gaps=(gaps,) if gaps_ms else (),
        stamps=b"".join(varint(gap * 1000) for gap in (ttft_ms, *gaps_ms)),
        done=True,
    )
    return made._replace(**changes)


def finished(id: str = "r1", **changes: Any) -> Finished:
    """One exchange that completed. `model`, `route`, `kind`, `path` and the like go to its facts."""
    facts = RequestFacts("ollama", "chat", "inference", model="llama3.2", stream=True)
    facts = facts._replace(
        **{
            name: changes.pop(name)
            for name in ("model", "route", "kind", "dialect", "options", "path")
            if name in changes
        }
    )
    made = Finished(
        id=id,
        engine="ollama",
        facts=facts,
        outcome=Outcome.COMPLETED,
        status=200,
        timeline=timeline(),
        evidence=Evidence(kind="ollama"),
        usage=Usage(prompt_tokens=600, output_tokens=48),
    )
    return made._replace(**changes)


def breakdown(done: Finished) -> PhaseBreakdown:
    """A second, simple attribution: proxy until dispatch, decode after the first token, the rest joint."""
    seen = done.timeline
    own = seen.dispatched_ns or 0
    decode = seen.total_ns - seen.first_token_ns if seen.first_token_ns is not None else 0
    phases = (
        Phase("proxy", own, Class.MEASURED, "clock", 0),
        Phase("queue_prefill", seen.total_ns - own - decode, Class.DERIVED, "clock", 1000),
        Phase("decode", decode, Class.INFERRED, "clock", None),
    )
    return PhaseBreakdown(phases, decode_rate=41.2, tpot_ns=1e7 if seen.gaps else None)


def record(id: str = "r1", findings: tuple[str, ...] = (), **changes: Any) -> RequestRecord:
    """The record of such an exchange."""
    done = finished(id, **changes)
    return RequestRecord(done, breakdown(done), findings)
