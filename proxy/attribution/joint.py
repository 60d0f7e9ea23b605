"""What our clock alone can say of an answer: joint phases where only a sum is known."""

from proxy.attribution.bill import Bill
from proxy.attribution.seen import starts
from proxy.records import Class, Finished, Outcome, Timeline


def split(finished: Finished, bill: Bill) -> None:
    """Any engine: up to the first token (`queue_prefill`), decode, delivery; one sum (`engine`) where no token event
    marks the end of prefill."""
    line = finished.timeline
    if line.dispatched_ns is None:
        return
    if line.first_token_ns is None or not starts(finished):
        whole(finished, bill)
        return
    bill.take("queue_prefill", line.first_token_ns - line.dispatched_ns, Class.DERIVED, "clock")
    tail(finished, bill, line.first_token_ns)


def whole(finished: Finished, bill: Bill, name: str = "engine") -> None:
    """One sum from dispatch to the answer's end; its meaning is unknown where the answer is not whole."""
    line = finished.timeline
    if line.dispatched_ns is None:
        return
    end = line.last_token_ns or line.last_byte_ns
    if end is None or finished.outcome is not Outcome.COMPLETED:
        bill.take("engine", bill.left, Class.UNKNOWN, "clock")
        return
    bill.take(name, end - line.dispatched_ns, Class.DERIVED, "clock")
    delivery(finished, bill)


def tail(finished: Finished, bill: Bill, start_ns: int) -> None:
    """Decode from `start_ns`, and what follows it."""
    line = finished.timeline
    if line.last_token_ns is not None:
        # Several prompts: while one is written, another may still be read.
        name = "prefill_decode" if finished.facts.prompts > 1 else "decode"
        bill.take(name, line.last_token_ns - start_ns, Class.DERIVED, "clock")
    delivery(finished, bill)


def delivery(finished: Finished, bill: Bill) -> None:
    """After the last token event, or after a body that is no stream; of a broken answer it stays unattributed."""
    line = finished.timeline
    end = line.last_token_ns or line.last_byte_ns
    if end is not None and finished.outcome is Outcome.COMPLETED:
        bill.take("delivery", line.total_ns - end, Class.MEASURED, "clock")


def broken_off(finished: Finished) -> int:
    """How long a broken answer was waited for after its last token event or byte: no part of the engine's work."""
    line = finished.timeline
    end = line.last_token_ns or line.last_byte_ns
    return 0 if end is None or finished.outcome is Outcome.COMPLETED else max(line.total_ns - end, 0)


def since_dispatch(line: Timeline, mark_ns: int | None) -> int | None:
    """A mark counted from dispatch; None where one of the two never came."""
    if mark_ns is None or line.dispatched_ns is None:
        return None
    return mark_ns - line.dispatched_ns
