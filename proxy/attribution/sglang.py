"""SGLang: `meta_info` on its native route, and on chat answers that are no streams where asked for; never both at once.

Headers of the native route leave at once, those of OpenAI's routes with the first token: they mark nothing.
`queue_time` sums all waits, the one after a retraction included, so queue, prefill and decode can overlap a little.
"""

from proxy.attribution import joint
from proxy.attribution.bill import Bill
from proxy.attribution.seen import starts
from proxy.records import Class, EngineReport, Finished


def reported(finished: Finished, report: EngineReport, bill: Bill) -> None:
    """Phases as the engine says; what the first token leaves is the way to the scheduler."""
    parts = ("frontend", report.frontend_ns), ("queue", report.queue_ns), ("prefill", report.prefill_ns)
    for name, ns in (*parts, ("decode", report.decode_ns)):
        bill.take(name, ns, Class.MEASURED, report.source)
    line = finished.timeline
    first = joint.since_dispatch(line, line.first_token_ns)
    if first is not None and starts(finished):
        bill.take("step_wait", first - sum(ns or 0 for _, ns in parts), Class.DERIVED, report.source)
    joint.delivery(finished, bill)
