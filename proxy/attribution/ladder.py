"""The ladder, rung 1: what the engine reported for this exchange, checked against our clock."""

from collections.abc import Callable

from proxy.attribution import joint, llamacpp, ollama, sglang, vllm
from proxy.attribution.bill import Bill
from proxy.attribution.rates import rates
from proxy.attribution.trust import contradicts, says_time
from proxy.records import EngineReport, Finished, PhaseBreakdown

DISTRUSTED = "engine_durations_distrusted"
"""Finding: the engine's figures contradict our clock, and are not used."""

REPORTED: dict[str, Callable[[Finished, EngineReport, Bill], None]] = {
    "ollama": ollama.reported,
    "llamacpp": llamacpp.reported,
    "vllm": vllm.reported,
    "sglang": sglang.reported,
}
"""Who splits by a report: by the first word of its source."""

CLOCK: dict[str, Callable[[Finished, Bill], None]] = {
    "ollama": ollama.by_clock,
    "llamacpp": llamacpp.by_clock,
    "vllm": vllm.by_clock,
}
"""Who splits without one: by the engine's kind, for the head means something else on each; all others are `joint`."""


def attribute(finished: Finished) -> PhaseBreakdown:
    """Splits the total of an ended exchange into phases that sum to it to the nanosecond. Pure."""
    bill = Bill(finished)
    report = finished.report
    distrusted = report is not None and contradicts(finished, report, bill.left)
    trusted = None if distrusted else report
    rule = None if trusted is None else REPORTED.get(trusted.source.partition(".")[0])
    if trusted is None or rule is None or not says_time(trusted):
        CLOCK.get(finished.evidence.kind, joint.split)(finished, bill)
    else:
        rule(finished, trusted, bill)
    phases = bill.close()
    speeds = rates(finished, trusted, phases)
    return PhaseBreakdown(phases, *speeds, findings=(DISTRUSTED,) if distrusted else ())
