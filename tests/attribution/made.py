"""Makes finished exchanges from milliseconds, for tests that need no recording."""

from typing import Any

from proxy.attribution.ladder import attribute
from proxy.records import (
    AdmissionVerdict,
    EngineReport,
    Evidence,
    Finished,
    Outcome,
    PhaseBreakdown,
    RequestFacts,
    Timeline,
    Usage,
)

MARKS = ("total", "admission", "dispatched", "head", "role", "first_token", "first_answer", "last_token", "last_byte")


def ms(value: float | None) -> int | None:
    return None if value is None else round(value * 1e6)


def line(total: float, **more: Any) -> Timeline:
    """Marks in ms; a stream where `first_token` is given."""
    said: dict[str, Any] = {"total": total, "dispatched": 0, "last_byte": total, **more}
    if "first_token" in said:
        said.setdefault("first_answer", said["first_token"])
        said.setdefault("last_token", said["first_token"])
        said.setdefault("streamed", True)
        said.setdefault("token_events", 1 if said["last_token"] == said["first_token"] else 2)
        said.setdefault("choices", 1)
        said.setdefault("head", said["first_token"])
    marks = {f"{name}_ns": ms(said.pop(name)) for name in MARKS if name in said}
    return Timeline(at_s=0.0, **marks, **said)


def report(source: str, **durations: Any) -> EngineReport:
    """Durations in ms by their short names."""
    names = ("total", "frontend", "queue", "load", "prefill", "decode")
    spans = {f"{name}_ns": ms(durations.pop(name)) for name in names if name in durations}
    return EngineReport(source=source, **spans, **durations)


def ollama(**durations: Any) -> EngineReport:
    """As its reader gives it: durations that are absent are zero where the total is there."""
    return report("ollama.durations", **{"load": 0, "prefill": 0, "decode": 0, **durations})


def finished(
    kind: str,
    timeline: Timeline,
    said: EngineReport | None = None,
    usage: Usage | None = None,
    outcome: Outcome = Outcome.COMPLETED,
    route: str = "chat",
    prompts: int = 1,
    **evidence: Any,
) -> Finished:
    for name in ("contended", "busy", "others_done"):
        if name in evidence:
            evidence[f"{name}_ns"] = ms(evidence.pop(name))
    return Finished(
        id="x",
        engine="e",
        facts=RequestFacts("openai", route, "inference", prompts=prompts),
        outcome=outcome,
        status=200,
        timeline=timeline,
        evidence=Evidence(kind=kind, **evidence),
        usage=usage,
        report=said,
        admission=AdmissionVerdict(),
    )


def split(*args: Any, **kwargs: Any) -> PhaseBreakdown:
    return attribute(finished(*args, **kwargs))


def phases(breakdown: PhaseBreakdown) -> dict[str, float]:
    """Phases in ms, those of zero left out."""
    return {phase.name: phase.ns / 1e6 for phase in breakdown.phases if phase.ns}
