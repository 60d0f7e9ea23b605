"""Whether an engine's durations can be true, seen from our clock."""

from proxy.claims import FASTEST, LATE_NS
from proxy.records import EngineReport, Finished, Timeline

UNIT = 20
"""A stream that lasts this many times longer than the engine says it decoded: wrong units are a factor of 1,000, a slow
way to us or a starved front end is one of a few."""

PAUSE_NS = 1_000_000_000
"""A pause on the way to us that short answers can show without anybody's figures being wrong."""


def contradicts(finished: Finished, report: EngineReport, left_ns: int) -> bool:
    """Our clock says that the report cannot be true; `left_ns`: the time that the engine had."""
    line = finished.timeline
    return (
        sum(part or 0 for part in _parts(report)) > left_ns
        or (report.total_ns or 0) > left_ns + LATE_NS
        or _late_first_token(line, report)
        or _too_fast(finished, report)
        or _too_short(line, report)
    )


def says_time(report: EngineReport) -> bool:
    """Some duration is in it; a report may hold counts alone."""
    return report.total_ns is not None or any(part is not None for part in _parts(report))


def decoded_twice(line: Timeline) -> bool:
    """The stream showed reasoning, then an answer.

    Ollama writes the two in two runs where a format is asked for, and reports the second one only.
    """
    return None not in (line.first_token_ns, line.first_answer_ns) and line.first_answer_ns != line.first_token_ns


def _parts(report: EngineReport) -> tuple[int | None, ...]:
    return report.frontend_ns, report.queue_ns, report.load_ns, report.prefill_ns, report.decode_ns


def _late_first_token(line: Timeline, report: EngineReport) -> bool:
    if line.first_token_ns is None or line.dispatched_ns is None or decoded_twice(line):
        return False
    before = sum(part or 0 for part in (report.queue_ns, report.load_ns, report.prefill_ns))
    return before > line.first_token_ns - line.dispatched_ns + LATE_NS


def _too_fast(finished: Finished, report: EngineReport) -> bool:
    tokens = report.output_tokens
    if tokens is None and finished.usage is not None:
        tokens = finished.usage.output_tokens
    if not tokens or tokens < 2 or not report.decode_ns:
        return False
    return tokens - 1 > FASTEST * report.decode_ns / 1e9


def _too_short(line: Timeline, report: EngineReport) -> bool:
    if line.first_token_ns is None or line.last_token_ns is None or report.decode_ns is None or decoded_twice(line):
        return False
    seen = line.last_token_ns - line.first_token_ns - line.blocked_ns
    return seen > UNIT * report.decode_ns + PAUSE_NS
