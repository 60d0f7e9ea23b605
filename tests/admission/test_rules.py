from typing import Any

import pytest

from proxy.admission.ask import OTHERS, Ask, ask
from proxy.admission.rules import Rule
from proxy.records import RequestFacts
from tests.admission.known import Known

ASK = Ask("chat", "llama3:8b", "team-a", "gpu-1", 10, 12, 1, None, None)


@pytest.mark.parametrize(
    ("rule", "applies"),
    [
        (Rule("all"), True),
        (Rule("off", mode="off"), False),
        (Rule("observed", mode="observe"), True),
        (Rule("kinds", kinds=("embed",)), False),
        (Rule("kinds", kinds=("embed", "chat")), True),
        (Rule("models", models=("llama*",)), True),
        (Rule("models", models=("qwen*", "llama3:70b")), False),
        (Rule("tenants", tenants=("team-b",)), False),
        (Rule("tenants", tenants=("team-?",)), True),
        (Rule("both", tenants=("team-a",), models=("qwen",)), False),
    ],
)
def test_a_rule_applies_within_its_scope(rule: Rule, applies: bool) -> None:
    assert rule.applies(ASK) is applies


@pytest.mark.parametrize("asked", ["llama3.2", "llama3.2:latest", "LLAMA3.2", "library/llama3.2:Latest"])
@pytest.mark.parametrize("pattern", ["llama3.2", "Llama3.2:latest", "library/*", "*3.2", "llama3.2:*"])
def test_a_rule_is_not_passed_by_with_another_spelling(asked: str, pattern: str) -> None:
    facts = RequestFacts("ollama", "chat", "inference", model=asked)
    asked_for = ask(facts, None, None, Known())
    assert Rule("r", models=(pattern,)).applies(asked_for)
    assert Rule("r", per=("model",)).subject(asked_for) == ("r", "llama3.2")
    assert not Rule("r", models=("llama3.2:1b", "llama3")).applies(asked_for)


def test_a_body_that_names_no_model_may_mean_any() -> None:
    rule = Rule("r", models=("llama3.2",))
    assert rule.applies(ask(RequestFacts("passthrough", "audio", "inference"), None, None, Known()))
    assert rule.applies(ask(RequestFacts("openai", "chat", "inference", body_bytes=9), None, None, Known()))


def test_a_pattern_does_not_fit_what_has_no_name() -> None:
    assert not Rule("tenants", tenants=("*",)).applies(ASK._replace(tenant=None))
    assert Rule("all").applies(ASK._replace(tenant=None, model=None))


def test_counters_are_kept_apart_by_what_the_rule_names() -> None:
    assert Rule("r").subject(ASK) == ("r",)
    assert Rule("r", per=("tenant", "engine")).subject(ASK) == ("r", "gpu-1", "team-a")
    assert Rule("r", per=("model",)).subject(ASK._replace(model=None)) == ("r", "")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"mode": "on"}, "mode: 'on'"),
        ({"per": ("client",)}, "per: 'client'"),
        ({"requests_per_minute": 0}, "requests_per_minute: 0 is less than 1"),
        ({"queue_length": -1}, "queue_length"),
        ({"queue_timeout_s": -0.5}, "queue_timeout_s"),
    ],
)
def test_a_rule_that_cannot_stand_is_not_made(fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Rule("r", **fields)


def test_a_counter_is_named_by_what_it_is_kept_apart_by() -> None:
    asked = ASK._replace(counted="m1", tenant=None)
    every = Rule("r", per=("tenant", "model", "engine"))
    assert Rule("r").subject(asked, ["model"]) == ("r",)
    assert every.subject(asked) == ("r", "gpu-1", "m1", "")
    assert every.subject(asked, ["model"]) == ("r", "gpu-1", OTHERS, "")
    assert every.subject(asked, ["model", "tenant"]) == ("r", "gpu-1", OTHERS, OTHERS)


def test_sizes_are_what_a_body_alone_decides() -> None:
    assert Rule("r", max_prompt_tokens=1).sized
    assert Rule("r", mode="observe", max_output_tokens=1, cap_output=True).sized
    assert not Rule("r", mode="off", max_prompt_tokens=1).sized
    assert not Rule("r", within_window=True, tokens_per_day=9).sized
