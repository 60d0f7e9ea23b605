"""A denial, and the error that tells the client: which rule, which number, what to do."""

from dataclasses import dataclass
from math import ceil

from proxy.admission.rules import Rule
from proxy.errors import BadRequest, OutputTooLong, PromptTooLong, ProxyError, QueueTimeout, Shed, TokensSpent
from proxy.records import AdmissionVerdict

REASONS = {
    "max_prompt_tokens": "prompt_too_long",
    "within_window": "prompt_too_long",
    "max_output_tokens": "output_too_long",
    "max_concurrency": "concurrency",
    "queue_length": "queue_full",
    "queue_timeout_s": "queue_deadline",
    "requests_per_minute": "rate_requests",
    "tokens_per_minute": "rate_tokens",
    "tokens_per_hour": "budget_tokens",
    "tokens_per_day": "budget_tokens",
}
"""Limit -> the reason in `AdmissionVerdict`."""

MESSAGES = {
    "max_prompt_tokens": "the prompt has at least {value} {value:token|tokens}, and {limit} {limit:is|are} allowed; "
    "shorten it",
    "within_window": "the prompt has at least {value} {value:token|tokens}, and the context window holds {limit}; "
    "shorten it",
    "max_output_tokens": "{value} output {value:token is|tokens are} asked for, and {limit} {limit:is|are} allowed; "
    "ask for fewer",
    "max_concurrency": "{limit} {limit:request at once is allowed, and one is|requests at once are allowed, and so "
    "many are} running",
    "queue_length": "all places to wait are taken ({limit})",
    "queue_timeout_s": "no place became free within {limit} {limit:second|seconds}",
    "requests_per_minute": "{limit} {limit:request a minute is|requests a minute are} allowed",
    "tokens_per_minute": "{limit} prompt {limit:token a minute is|tokens a minute are} allowed, and this prompt has at "
    "least {value}",
    "tokens_per_hour": "{limit} {limit:token an hour is|tokens an hour are} allowed, and fewer are left than this "
    "prompt's {value} or more",
    "tokens_per_day": "{limit} {limit:token a day is|tokens a day are} allowed, and fewer are left than this "
    "prompt's {value} or more",
}

NOTHING_ASKED = {
    "max_output_tokens": "no limit of the output is set that the engine is known to heed, and {limit} "
    "{limit:token is|tokens are} allowed; set `max_tokens`, or what this route calls it, to 1 or more",
    "tokens_per_minute": "{limit} prompt {limit:token a minute is|tokens a minute are} allowed, and {limit:it is|they "
    "are} used up",
    "tokens_per_hour": "{limit} {limit:token an hour is|tokens an hour are} allowed, and {limit:it is|they are} used "
    "up",
    "tokens_per_day": "{limit} {limit:token a day is|tokens a day are} allowed, and {limit:it is|they are} used up",
}
"""Where no number was asked for: the output has no limit, or the prompt was not counted and nothing at all is left."""

UNREADABLE = "unreadable"
UNREAD = "{what} tokens are limited to {limit}, and that cannot be checked of this body: {why}"
"""Reason and message where a body may say one thing here and another to the engine."""


SHED = {
    "queue_timeout_s": QueueTimeout,
    "tokens_per_minute": TokensSpent,
    "tokens_per_hour": TokensSpent,
    "tokens_per_day": TokensSpent,
}
"""Limit -> the error of one that asks again later, where it has one of its own."""


class Amount(float):
    """A number in a message: `{n}` is the number, `{n:token is|tokens are}` the words that go with it."""

    def __format__(self, words: str) -> str:
        one, _, many = words.partition("|")
        return (one if float(self) == 1 else many) or (f"{int(self):,}" if self.is_integer() else f"{float(self):g}")


@dataclass(frozen=True, slots=True)
class Denial:
    """One limit says no."""

    rule: Rule
    limit: str
    """The field of the rule."""
    allowed: float
    """Seconds for a time, else a whole number."""
    asked: int
    """At least so much; 0: a prompt that was not counted."""
    wait_ns: int | None = None
    """Until it would say yes; None: asking again does not help."""
    unread: str = ""
    """Why it cannot be told; empty: it can."""

    @property
    def reason(self) -> str:
        """As it stands in the record."""
        return UNREADABLE if self.unread else REASONS[self.limit]

    @property
    def name(self) -> str:
        """The rule and its limit, as they stand in the configuration."""
        return f"{self.rule.name}.{self.limit}"

    def verdict(self, waited_ns: int = 0) -> AdmissionVerdict:
        """The decision for the record: shed where the rule is in force, admitted all the same where it observes."""
        decision = "shed" if self.rule.mode == "enforce" else "admitted"
        return AdmissionVerdict(decision, self.reason, self.name, self.rule.mode, waited_ns)

    def error(self, waited_ns: int = 0) -> ProxyError:
        """What the client is told, with the verdict for the record."""
        error = self._error()
        error.verdict = self.verdict(waited_ns)
        return error

    def _error(self) -> ProxyError:
        message = f"Rule {self.name}: {self._text()}."
        if self.unread:
            return BadRequest(message)
        if self.reason == "prompt_too_long":
            return PromptTooLong(message)
        if self.reason == "output_too_long":
            return OutputTooLong(message)
        wait_s = None if self.wait_ns is None else self.wait_ns / 1e9
        again = "" if wait_s is None else f" Try again in {spoken(wait_s)}."
        kind = SHED.get(self.limit, Shed)
        status = 503 if self.limit in ("queue_length", "queue_timeout_s") else 429
        return kind(message + again, reason=self.reason, rule=self.name, retry_after_s=wait_s, status=status)

    def _text(self) -> str:
        if self.unread:
            what = "prompt" if self.limit == "max_prompt_tokens" else "output"
            return UNREAD.format(what=what, limit=Amount(self.allowed), why=self.unread)
        texts = MESSAGES if self.asked else MESSAGES | NOTHING_ASKED
        return texts[self.limit].format(limit=Amount(self.allowed), value=Amount(self.asked))


def spoken(seconds: float) -> str:
    """A wait in words, rounded up: `12 seconds`, `3 minutes`, `2 hours`."""
    for size, unit in ((3_600, "hour"), (60, "minute")):
        if seconds > 2 * size:
            return f"{ceil(seconds / size)} {unit}s"
    whole = max(1, ceil(seconds))
    return f"{whole} second{'' if whole == 1 else 's'}"
