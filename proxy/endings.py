"""How exchanges end: what an answer's end means, and what the permit and the record are told. Pure."""

from proxy.claims import of_first
from proxy.records import AdmissionVerdict, EngineReport, Outcome, RequestFacts, Timeline, Usage

PERMIT_ENDS = {
    Outcome.COMPLETED: "success",
    Outcome.ENGINE_UNREACHABLE: "withdrawn",
    Outcome.ENGINE_OVERLOADED: "dropped",
    Outcome.ENGINE_REJECTED: "rejected",
    Outcome.ENGINE_ERROR: "dropped",
    Outcome.ENGINE_TIMEOUT: "dropped",
    Outcome.ENGINE_STALLED: "dropped",
    Outcome.TRUNCATED: "dropped",
}
"""How the permit ends; any other outcome says nothing about the engine: `ignore`. What never reached an engine is
`withdrawn`, whatever the outcome, and given back whole."""
NOT_DONE = 501
"""llama.cpp's status for what its model cannot do."""
ELSEWHERE = range(300, 400)
"""Statuses of answers that are whole, and no work of the engine's: redirects."""


def permit_end(outcome: Outcome, timeline: Timeline, status: int | None) -> str:
    """The word that ends the permit. An engine that points elsewhere has answered, and read no prompt."""
    if timeline.dispatched_ns is None:
        return "withdrawn"
    elsewhere = outcome is Outcome.COMPLETED and status in ELSEWHERE
    return "rejected" if elsewhere else PERMIT_ENDS.get(outcome, "ignore")


def charged(
    facts: RequestFacts, usage: Usage | None, report: EngineReport | None, written: int, *, streamed: bool
) -> Usage | None:
    """What budgets are charged by, with `written` tokens seen.

    Of several answers in one llama.cpp says the first one's figures alone. Of a stream what was seen counts then; of an
    answer in one piece the others are taken to be as long.
    """
    several = facts.n * facts.prompts
    if usage is None or usage.output_tokens is None or several == 1:
        return usage
    if of_first(report):
        prompt = usage.prompt_tokens if facts.prompts == 1 else None
        usage = Usage(prompt, usage.output_tokens if streamed else usage.output_tokens * several)
    return usage if (usage.output_tokens or 0) >= written else usage._replace(output_tokens=None)


def unread(outcome: Outcome, status: int | None) -> bool:
    """The engine refused the request, does not do such things (501), or points elsewhere: it read no prompt."""
    refused = outcome in (Outcome.ENGINE_REJECTED, Outcome.ENGINE_OVERLOADED) or status == NOT_DONE
    return refused or (outcome is Outcome.COMPLETED and status in ELSEWHERE)


def unadmitted(outcome: Outcome) -> AdmissionVerdict:
    """What the record says where no door let the request in, and none had a word."""
    return AdmissionVerdict("shed", "disconnected" if outcome is Outcome.CLIENT_GONE else None)


def judge(status: int, error: str | None, complete: bool) -> Outcome:
    """The outcome of an answer that ended in due form."""
    if status in (429, 503):
        return Outcome.ENGINE_OVERLOADED
    if status >= 500 or (status < 400 and error is not None):
        return Outcome.ENGINE_ERROR
    if status >= 400:
        return Outcome.ENGINE_REJECTED
    return Outcome.COMPLETED if complete else Outcome.TRUNCATED


def complaint(status: int | None, kind: str | None) -> str | None:
    """What the record says of an engine's error: the kind at most, for an engine's message may repeat the prompt."""
    if status is not None and status >= 400:
        what = f"engine error {status}"
    elif kind is not None:
        what = "error event in the stream"
    else:
        return None
    return f"{what}: {kind}" if kind else what


def answered(now_ns: int, ended_ns: int, timeline: Timeline) -> int:
    """When the engine's part was over: a slow client's reading is not the engine's work."""
    if timeline.last_byte_ns is None:
        return now_ns
    return ended_ns - timeline.total_ns + timeline.last_byte_ns
