"""Limits on one request by itself: they look at it and at nothing else."""

from typing import NamedTuple

from proxy.admission.ask import Ask
from proxy.admission.refusals import Denial
from proxy.admission.rules import Rule

WRITING = frozenset({"chat", "completion", "generate", "infill", "other"})
"""Kinds whose answers are text that the model writes for as long as it likes. `other` may be any."""


class Cap(NamedTuple):
    """A limit of the output to write into a request."""

    tokens: int
    rule: str
    """The rule that says so, and its limit, as they stand in the configuration."""


def too_large(rule: Rule, ask: Ask) -> Denial | None:
    """The denial of a request that is over a size of this rule, or of which that cannot be told; None: it is within.

    A prompt is refused only where even the low end of its count is over. The output's limit never counts towards the
    prompt's: what a client allows the engine to write is no part of what it sends.
    """
    longest = rule.max_prompt_tokens
    unread = ask.unread or ask.unread_prompt
    if longest is not None and (ask.low > longest or unread):
        return Denial(rule, "max_prompt_tokens", longest, ask.low, unread=unread if ask.low <= longest else "")
    if rule.within_window and ask.window is not None and ask.low > ask.window * max(1, ask.prompts):
        return Denial(rule, "within_window", ask.window, ask.low)
    output = rule.max_output_tokens
    if output is None or rule.cap_output or ask.kind not in WRITING:
        return None
    if ask.unread or ask.max_output is None or ask.max_output > output:
        return Denial(rule, "max_output_tokens", output, ask.max_output or 0, unread=ask.unread)
    return None


def cap(rule: Rule, ask: Ask) -> Cap | None:
    """The output cap that must be written into the request; None: none. Whoever writes it makes sure that it holds."""
    output = rule.max_output_tokens
    if output is None or not rule.cap_output or rule.mode != "enforce" or ask.kind not in WRITING:
        return None
    over = ask.max_output is None or ask.max_output > output or ask.unread
    return Cap(output, f"{rule.name}.max_output_tokens") if over else None
