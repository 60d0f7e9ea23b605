"""What a stream shows of the writing: how many tokens, and whether its first token event is where the writing began.

An engine sends what it writes step by step. Who holds an answer back (a proxy that buffers, a parser of tool calls, a
model that thinks unseen) makes its first event late: then writing lies before it that nobody saw, and neither is the
first event the end of prefill, nor do the events that follow show the speed. What tells the two apart is the share of
the output that came at the first moment: one event on 1,044 of 1,051 recorded streams of vLLM, llama.cpp and Ollama.
"""

from proxy.records import Finished, Outcome, Timeline

CHUNK = 8
"""Tokens that one event may well hold: `--stream-interval`, speculative decoding, an API server that lags."""

PLAIN = 4
"""Tokens an event, at most, of a stream that holds reasoning as plain text; of more it may hold a part."""

SMALL_SHARE = 8
"""The first moment may hold an eighth of the output: by so much decode is then too short, at most ..."""

LARGE_SHARE = 4
"""... or a quarter, where it is one event of no more than `CHUNK`: short answers have few events."""


def shown(finished: Finished) -> int | None:
    """Output tokens that the stream shows: reasoning that it hides came before its first event. None: not known."""
    usage, line = finished.usage, finished.timeline
    if usage is None or usage.output_tokens is None:
        return None
    output, unseen = usage.output_tokens, _unseen(finished)
    if not unseen or output - unseen >= line.token_events:
        return output - unseen
    # More events than tokens would be left: reasoning was in them, as plain text. All of it, where they are that many.
    return output if output <= PLAIN * line.token_events else None


def starts(finished: Finished) -> bool:
    """The first token event is where the writing began."""
    usage, line = finished.usage, finished.timeline
    if finished.outcome is not Outcome.COMPLETED:
        # The end is missing, and with it the count of tokens.
        return _lead(line) <= 2 or _little(line, line.token_events)
    output = None if usage is None else usage.output_tokens
    if line.token_events == 1:
        return output == 1
    if _moments(line) < 2 or shown(finished) != output:
        return False
    return _little(line, line.token_events if output is None else output)


def paced(finished: Finished) -> bool:
    """The events show the speed of writing: the first moment holds little, no event needs to hold more than a chunk, or
    the first says how many tokens it is."""
    line, output = finished.timeline, shown(finished)
    if _moments(line) < 2:
        return False
    counted = _lead(line) == 1 and line.first_event_tokens > 1 and _moments(line) > 2
    chunked = _lead(line) == 1 and output is not None and output <= CHUNK * line.token_events
    return counted or chunked or _little(line, line.token_events if output is None else output)


def _little(line: Timeline, output: float) -> bool:
    """The first moment holds as little of this output, of which each choice has its part, as if it began there."""
    choices = max(line.choices, 1)
    lead, events, output = _lead(line), line.token_events / choices, output / choices
    if lead <= 2 and output < 2 * events:
        return True
    held = lead * output / max(events, 1)
    if lead == 1 and line.first_event_tokens > 1:
        held = line.first_event_tokens
    share = LARGE_SHARE if lead == 1 and held <= CHUNK else SMALL_SHARE
    return (held - 1) * share <= output - 1


def _unseen(finished: Finished) -> int:
    """Reasoning tokens, as usage says, of a stream that told none apart."""
    usage, line = finished.usage, finished.timeline
    if usage is None or line.first_answer_ns != line.first_token_ns:
        return 0
    return min(usage.reasoning_tokens or 0, usage.output_tokens or 0)


def _lead(line: Timeline) -> int:
    """Token events of a choice at its first moment; of several choices, of the one that had most."""
    told = max((gaps.lead for gaps in line.gaps), default=0)
    return told or (line.token_events if _together(line) else 1)


def _moments(line: Timeline) -> int:
    """Moments with token events; of several choices, of the one that had most."""
    told = max((gaps.moments for gaps in line.gaps), default=0)
    return told or (1 if _together(line) else line.token_events)


def _together(line: Timeline) -> bool:
    return line.first_token_ns == line.last_token_ns
