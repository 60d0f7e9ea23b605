"""vLLM: `metrics` where per-request metrics are on. Its `time_to_first_token_ms` is prefill: scheduled to first token.

Headers of a stream leave when the front end is done, before the queue. Between them lies a wait that no figure of
vLLM's holds: its engine takes new requests only between steps. It is `step_wait`.
"""

from proxy.attribution import joint
from proxy.attribution.bill import Bill
from proxy.attribution.seen import starts
from proxy.records import Class, EngineReport, Finished, Timeline

HEAD = "vllm.head"

NEAR_NS = 1_000_000
"""Marks closer than this were made by one write: between any two of them the engine takes a step, and more."""


def reported(finished: Finished, report: EngineReport, bill: Bill) -> None:
    """Queue, prefill and decode as the engine says; front end by the head; what the first token leaves is step_wait."""
    for name, ns in (("queue", report.queue_ns), ("prefill", report.prefill_ns), ("decode", report.decode_ns)):
        bill.take(name, ns, Class.MEASURED, report.source)
    line = finished.timeline
    end = prefill_end(line)
    first, head = joint.since_dispatch(line, end), joint.since_dispatch(line, line.head_ns)
    if line.streamed and first is not None and head is not None and not _near(line.head_ns, end):
        spare = max(first - (report.queue_ns or 0) - (report.prefill_ns or 0), 0)
        bill.take("frontend", min(head, spare), Class.DERIVED, HEAD)
        if not _late(finished, end):
            bill.take("step_wait", spare - min(head, spare), Class.DERIVED, report.source)
    joint.delivery(finished, bill)


def by_clock(finished: Finished, bill: Bill) -> None:
    """No metrics: the head ends the front end; queue and prefill are one sum; a body that is no stream is one sum."""
    line = finished.timeline
    end = prefill_end(line)
    if not line.streamed or end is None or line.head_ns is None or _near(line.head_ns, end) or _late(finished, end):
        joint.split(finished, bill)
        return
    bill.take("frontend", joint.since_dispatch(line, line.head_ns), Class.DERIVED, HEAD)
    bill.take("queue_prefill", end - line.head_ns, Class.DERIVED, "clock")
    joint.tail(finished, bill, end)


def prefill_end(line: Timeline) -> int | None:
    """The role leaves with the first token, which a parser may still hold back (0.4 s seen on a tool call)."""
    if line.first_token_ns is None or line.role_ns is None:
        return line.first_token_ns
    return min(line.role_ns, line.first_token_ns)


def _late(finished: Finished, end: int | None) -> bool:
    """The end of prefill is not known: no role came before the first output, and that came late."""
    return _near(end, finished.timeline.first_token_ns) and not starts(finished)


def _near(mark_ns: int | None, later_ns: int | None) -> bool:
    """Two marks of one write. A head that leaves with the first output was held back on the way, and marks nothing."""
    return mark_ns is not None and later_ns is not None and later_ns - mark_ns < NEAR_NS
