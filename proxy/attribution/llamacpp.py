"""llama.cpp: `timings` on every generation route of its own and of OpenAI's shape; headers leave when the slot starts.

Builds before b9417 send headers with the first token. Nothing need know the build: the queue is what comes before the
head, and at most what the first token leaves beside the reported prompt time.

The queue ends when a slot begins the prompt. The front end (2 to 40 ms) works while others have the loop, and lies in
it: neither a head nor `timings` tell the two apart. So it is with a stream and without one.
"""

from proxy.attribution import joint
from proxy.attribution.bill import Bill
from proxy.attribution.seen import starts
from proxy.attribution.slots import prompt_tokens, usual_ns
from proxy.records import Class, EngineReport, Finished, Timeline

TIMINGS = "llamacpp.timings"
HEAD = "llamacpp.head"

HEAD_ERROR_NS = 5_000_000
"""Header time against the end of the queue: median 0.3 ms, worst 4.7 ms."""

LEFT_ERROR_NS = 10_000_000
"""What `timings` leave of an answer that is no stream, against the start of the prompt: its way to us is in it too."""

TOGETHER_NS = 2_000_000
"""Head and first token closer than this: an old build, or a prompt so short that the two cannot be told apart."""


def reported(finished: Finished, report: EngineReport, bill: Bill) -> None:
    """`timings`, and the queue from the head; of several prompts the figures cover the first only, and are not used."""
    if not report.covers_all:
        by_clock(finished, bill)
        return
    bill.take("prefill", report.prefill_ns, Class.MEASURED, TIMINGS)
    bill.take("decode", report.decode_ns, Class.MEASURED, TIMINGS)
    line = finished.timeline
    head, first = joint.since_dispatch(line, line.head_ns), joint.since_dispatch(line, line.first_token_ns)
    if head is None or first is None or (_together(line) and not starts(finished)):
        _residual(finished, bill)
        return
    spare = max(first - (report.prefill_ns or 0), 0)
    source = TIMINGS if _together(line) else HEAD
    bill.take("queue", min(head, spare), Class.DERIVED, source, HEAD_ERROR_NS)
    if starts(finished):
        bill.take("step_wait", spare - min(head, spare), Class.DERIVED, TIMINGS)
    joint.delivery(finished, bill)


def by_clock(finished: Finished, bill: Bill) -> None:
    """Without timings: the head ends the queue, the first token the prefill; only where the two can be told apart."""
    line = finished.timeline
    head = joint.since_dispatch(line, line.head_ns)
    if head is None or line.first_token_ns is None or _together(line):
        joint.split(finished, bill)
        return
    bill.take("queue", head, Class.DERIVED, HEAD, HEAD_ERROR_NS)
    if line.choices > 1 or finished.facts.prompts > 1 or not starts(finished):
        start = line.last_token_ns or line.first_token_ns
        bill.take("prefill_decode", start - (line.head_ns or 0), Class.DERIVED, "clock")
    else:
        start = line.first_token_ns
        bill.take("prefill", start - (line.head_ns or 0), Class.DERIVED, "clock", HEAD_ERROR_NS)
    joint.tail(finished, bill, start)


def _residual(finished: Finished, bill: Bill) -> None:
    """No stream: the head comes with the body, and the queue is what `timings` leave. What neither a front end takes
    nor those ahead explain is a wait for somebody who does not come through us: a guess."""
    joint.delivery(finished, bill)
    wait = bill.left - joint.broken_off(finished)
    strange = wait - finished.evidence.busy_ns
    if strange > usual_ns(prompt_tokens(finished)):
        bill.take("queue", wait, Class.INFERRED, TIMINGS, strange)
    else:
        bill.take("queue", wait, Class.DERIVED, TIMINGS, LEFT_ERROR_NS)


def _together(line: Timeline) -> bool:
    return line.head_ns is None or line.first_token_ns is None or line.first_token_ns - line.head_ns < TOGETHER_NS
