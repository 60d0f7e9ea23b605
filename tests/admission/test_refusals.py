import re

import pytest

from proxy.admission.refusals import MESSAGES, REASONS, Denial, spoken
from proxy.admission.rules import LIMITS, Rule
from proxy.errors import BadRequest, OutputTooLong, PromptTooLong, QueueTimeout, Shed, TokensSpent
from proxy.records import AdmissionVerdict

RULE = Rule("default")


@pytest.mark.parametrize(
    ("denial", "error", "message"),
    [
        (
            Denial(RULE, "max_prompt_tokens", 8_000, 12_345),
            PromptTooLong,
            "Rule default.max_prompt_tokens: the prompt has at least 12,345 tokens, and 8,000 are allowed; shorten it.",
        ),
        (
            Denial(RULE, "within_window", 4_096, 5_000),
            PromptTooLong,
            "Rule default.within_window: "
            "the prompt has at least 5,000 tokens, and the context window holds 4,096; shorten it.",
        ),
        (
            Denial(RULE, "max_output_tokens", 100, 500),
            OutputTooLong,
            "Rule default.max_output_tokens: 500 output tokens are asked for, and 100 are allowed; ask for fewer.",
        ),
        (
            Denial(RULE, "max_output_tokens", 1_000, 0),
            OutputTooLong,
            "Rule default.max_output_tokens: no limit of the output is set that the engine is known to heed, and 1,000 "
            "tokens are allowed; set `max_tokens`, or what this route calls it, to 1 or more.",
        ),
        (
            Denial(RULE, "max_output_tokens", 1_000, 0, unread="it has `options` twice"),
            BadRequest,
            "Rule default.max_output_tokens: output tokens are limited to 1,000, and that cannot be checked of this "
            "body: it has `options` twice.",
        ),
        (
            Denial(RULE, "max_prompt_tokens", 1_000, 9, unread="it is no JSON object"),
            BadRequest,
            "Rule default.max_prompt_tokens: prompt tokens are limited to 1,000, and that cannot be checked of this "
            "body: it is no JSON object.",
        ),
        (
            Denial(RULE, "requests_per_minute", 5, 1, 11_200_000_000),
            Shed,
            "Rule default.requests_per_minute: 5 requests a minute are allowed. Try again in 12 seconds.",
        ),
        (
            Denial(RULE, "queue_timeout_s", 30, 1),
            QueueTimeout,
            "Rule default.queue_timeout_s: no place became free within 30 seconds.",
        ),
        (
            Denial(RULE, "queue_timeout_s", 0.5, 1),
            QueueTimeout,
            "Rule default.queue_timeout_s: no place became free within 0.5 seconds.",
        ),
        (
            Denial(RULE, "tokens_per_hour", 5_000, 900),
            TokensSpent,
            "Rule default.tokens_per_hour: "
            "5,000 tokens an hour are allowed, and fewer are left than this prompt's 900 or more.",
        ),
        (
            Denial(RULE, "tokens_per_hour", 5_000, 0),
            TokensSpent,
            "Rule default.tokens_per_hour: 5,000 tokens an hour are allowed, and they are used up.",
        ),
        (
            Denial(RULE, "tokens_per_minute", 50, 0),
            TokensSpent,
            "Rule default.tokens_per_minute: 50 prompt tokens a minute are allowed, and they are used up.",
        ),
    ],
)
def test_a_client_is_told_which_rule_which_number_and_what_to_do(
    denial: Denial, error: type[Exception], message: str
) -> None:
    made = denial.error()
    assert type(made) is error
    assert str(made) == message


@pytest.mark.parametrize(
    ("limit", "status"),
    [("requests_per_minute", 429), ("tokens_per_day", 429), ("max_concurrency", 429), ("queue_length", 503)],
)
def test_rates_and_budgets_are_429_and_a_full_queue_is_503(limit: str, status: int) -> None:
    made = Denial(RULE, limit, 5, 6, 1_500_000_000).error()
    assert isinstance(made, Shed)
    assert (made.http_status, made.reason, made.rule) == (status, REASONS[limit], f"default.{limit}")
    assert made.retry_after_s == 1.5


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_of_tokens_is_told_from_one_of_requests_as_openai_does(limit: str) -> None:
    made = Denial(RULE, limit, 5, 6, 1).error()
    if isinstance(made, Shed):
        assert (made.type, made.code) == ("tokens" if "tokens" in limit else "requests", "rate_limit_exceeded")


@pytest.mark.parametrize("limit", REASONS)
@pytest.mark.parametrize("asked", [0, 1])
def test_one_of_a_thing_is_spoken_of_as_one(limit: str, asked: int) -> None:
    message = str(Denial(RULE, limit, 1, asked, 10**9).error())
    assert not re.search(r"\b1 (\w+ )?(requests|tokens|seconds)\b|\b1 are\b", message), message


def test_the_error_carries_the_verdict_for_the_record() -> None:
    assert Denial(RULE, "max_prompt_tokens", 8, 9).error(7).verdict == AdmissionVerdict(
        "shed", "prompt_too_long", "default.max_prompt_tokens", "enforce", 7
    )


def test_a_rule_that_observes_admits_all_the_same() -> None:
    verdict = Denial(Rule("r", mode="observe"), "tokens_per_minute", 8, 9).verdict()
    assert (verdict.decision, verdict.reason, verdict.mode) == ("admitted", "rate_tokens", "observe")


def test_every_limit_has_a_reason_and_a_message() -> None:
    assert set(REASONS) == set(MESSAGES) >= set(LIMITS)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.002, "1 second"),
        (1.2, "2 seconds"),
        (120, "120 seconds"),
        (121, "3 minutes"),
        (7_200, "120 minutes"),
        (7_201, "3 hours"),
    ],
)
def test_a_wait_is_spoken_rounded_up(seconds: float, words: str) -> None:
    assert spoken(seconds) == words
