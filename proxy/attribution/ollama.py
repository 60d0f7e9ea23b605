"""Ollama: native routes end with six counters, `/v1` routes say nothing of time.

`residual` = total - load - prefill - decode is all that lies between load and prompt: the wait for a slot, or with a
slot free the front end. It is true to 2.4 ms (285 requests against the child's log). Three waits must not be mixed: for
another runner that has to go (inside `load_duration`), for the load itself, for a slot (the residual).
"""

from proxy.attribution import joint
from proxy.attribution.bill import Bill
from proxy.attribution.slots import part, prompt_tokens, was_cut
from proxy.attribution.trust import decoded_twice
from proxy.claims import LATE_NS
from proxy.records import COLD_LOAD_NS, Class, EngineReport, Evidence, Finished

DURATIONS = "ollama.durations"

FRESH_ONLY = ("0.0.", "0.1.", "0.2.", "0.3.", "0.30.0")
"""Versions that count fresh tokens alone: the server in C++, and the first release that runs llama.cpp's."""

ERROR_NS = 2_400_000
"""The residual's worst difference from the child's own log, 285 requests, waits of up to 4.2 s."""


def reported(finished: Finished, report: EngineReport, bill: Bill) -> None:
    """Native routes: counters as they stand, the residual by what was ahead, the rest on the way to the client."""
    if finished.facts.kind.startswith("embed"):
        _embed(finished, report, bill)
        return
    load, prefill, decode = report.load_ns or 0, report.prefill_ns or 0, report.decode_ns or 0
    room = bill.left - load - prefill - decode
    total = report.total_ns if report.total_ns is not None else 0
    residual = min(max(total - load - prefill - decode, 0), room)
    first, second = _fitting(finished, residual, load + prefill)
    swap = _swap_wait(finished.evidence, load)
    wait = part(finished.evidence, first, load, prompt_tokens(finished), cut=was_cut(finished))
    if finished.timeline.first_token_ns is not None:
        wait = wait.waited()
    bill.take(*_prefill(finished.evidence, prefill))
    bill.take("decode", decode, Class.MEASURED, DURATIONS)
    _load(finished.evidence, load - swap, bill)
    bill.take("queue", swap + wait.queue_ns, wait.klass, DURATIONS, max(wait.doubt_ns, ERROR_NS))
    # A slot may be free and the engine still busy: it takes new work only between two batches of another's prompt.
    doubt = wait.frontend_ns if finished.evidence.ahead else wait.doubt_ns
    bill.take("frontend", wait.frontend_ns, wait.klass, DURATIONS, max(doubt, ERROR_NS))
    # Without a token event it may also be a first run, of reasoning, that the counters leave out.
    bill.take("engine", wait.strange_ns, Class.DERIVED, DURATIONS)
    bill.take("prefill_decode", second, Class.DERIVED, DURATIONS)
    _delivery(finished, bill)


def by_clock(finished: Finished, bill: Bill) -> None:
    """`/v1` routes, and objects without counters: a load that was asked for is a load, all else is joint."""
    if finished.timeline.finish == "load":
        joint.whole(finished, bill, "load")
    else:
        joint.split(finished, bill)


def waits_inside_prefill(version: str | None) -> bool:
    """Go runners before 0.12.5 began `prompt_eval_duration` when the request was made, not when a slot was free."""
    numbers = (version or "").split("-")[0].split(".")
    if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        return False
    return (0, 4, 0) <= tuple(map(int, numbers)) < (0, 12, 5)


def counts_fresh_only(evidence: Evidence) -> bool:
    """`prompt_eval_count` leaves cached tokens out. A build that says 0.0.0 is of unknown age."""
    version = evidence.version or ""
    return evidence.kind == "ollama" and version.startswith(FRESH_ONLY) and not version.startswith("0.0.0")


def _embed(finished: Finished, report: EngineReport, bill: Bill) -> None:
    load = report.load_ns or 0
    swap = _swap_wait(finished.evidence, load)
    _load(finished.evidence, load - swap, bill)
    bill.take("queue", swap, Class.DERIVED, DURATIONS, ERROR_NS)
    bill.take("engine", (report.total_ns or 0) - load, Class.DERIVED, DURATIONS)
    _delivery(finished, bill)


def _fitting(finished: Finished, residual: int, known: int) -> tuple[int, int]:
    """The residual that lies before the first token; and of a stream that was written in two runs, the first run."""
    line = finished.timeline
    before_token = joint.since_dispatch(line, line.first_token_ns)
    if before_token is None or residual + known <= before_token + LATE_NS:
        return residual, 0
    first = max(min(residual, before_token - known), 0)
    return first, residual - first if decoded_twice(line) else 0


def _swap_wait(evidence: Evidence, load: int) -> int:
    """The part of a load spent waiting for the answers of a runner that had to go."""
    if not evidence.swapped or evidence.others_done_ns is None or load < COLD_LOAD_NS:
        return 0
    return min(load, evidence.others_done_ns)


def _load(evidence: Evidence, load: int, bill: Bill) -> None:
    doubtful = evidence.swapped is None and evidence.others_done_ns is not None and load >= COLD_LOAD_NS
    if doubtful:
        bill.take("load", load, Class.DERIVED, DURATIONS, min(load, evidence.others_done_ns or 0))
    else:
        bill.take("load", load, Class.DERIVED if evidence.swapped else Class.MEASURED, DURATIONS)


def _prefill(evidence: Evidence, prefill: int) -> tuple[str, int, Class, str]:
    waited = waits_inside_prefill(evidence.version) and evidence.ahead >= (evidence.slots or 1)
    return ("queue_prefill" if waited else "prefill", prefill, Class.MEASURED, DURATIONS)


def _delivery(finished: Finished, bill: Bill) -> None:
    """After `total_duration` Ollama still tokenizes `context`; then the way to us and on to the client."""
    line = finished.timeline
    since = line.dispatched_ns if line.last_token_ns is None else line.last_token_ns
    bill.take("delivery", line.total_ns - (since or 0), Class.DERIVED, "clock")
