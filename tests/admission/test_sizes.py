from typing import Any

import pytest

from proxy.admission.ask import Ask
from proxy.admission.rules import Rule
from proxy.admission.sizes import cap, too_large

ASK = Ask("chat", "m1", None, "", low=90, n=110, prompts=1, max_output=500, window=100)


@pytest.mark.parametrize(
    ("fields", "ask", "limit"),
    [
        pytest.param({}, {}, None, id="no limit"),
        pytest.param({"max_prompt_tokens": 89}, {}, "max_prompt_tokens", id="over, whatever the count's error"),
        pytest.param({"max_prompt_tokens": 90}, {}, None, id="inside the error"),
        pytest.param({"within_window": True}, {}, None, id="inside the window"),
        pytest.param({"within_window": True}, {"low": 101}, "within_window", id="over the window"),
        pytest.param({"within_window": True}, {"low": 101, "prompts": 2}, None, id="two prompts have a window each"),
        pytest.param({"within_window": True}, {"low": 101, "window": None}, None, id="a window that nobody knows"),
        pytest.param({}, {"low": 101}, None, id="a window that nobody asked to keep"),
        pytest.param({"max_output_tokens": 499}, {}, "max_output_tokens", id="too much output"),
        pytest.param({"max_output_tokens": 499, "cap_output": True}, {}, None, id="too much, but capped"),
        pytest.param({"max_output_tokens": 500}, {}, None, id="as much output as may be"),
        pytest.param({"max_output_tokens": 1}, {"max_output": None}, "max_output_tokens", id="no limit of the output"),
        pytest.param({"max_output_tokens": 1}, {"max_output": None, "kind": "embed"}, None, id="no output to limit"),
        pytest.param({"max_output_tokens": 900}, {"unread": "x"}, "max_output_tokens", id="output that nobody knows"),
        pytest.param({"max_output_tokens": 1}, {"unread": "x", "kind": "rerank"}, None, id="none, whatever it says"),
        pytest.param({"max_output_tokens": 1, "cap_output": True}, {"unread": "x"}, None, id="whoever caps must know"),
        pytest.param({"max_prompt_tokens": 900}, {"unread": "x"}, "max_prompt_tokens", id="a prompt that nobody knows"),
        pytest.param({"max_prompt_tokens": 900}, {"unread_prompt": "x"}, "max_prompt_tokens", id="a doubtful prompt"),
        pytest.param({"max_output_tokens": 900}, {"unread_prompt": "x"}, None, id="a doubtful prompt, and sure output"),
        pytest.param({"within_window": True}, {"unread": "x"}, None, id="the engine looks at its window itself"),
        pytest.param({"max_prompt_tokens": 300}, {"max_output": 65_536}, None, id="output never counts as prompt"),
    ],
)
def test_a_request_is_denied_for_its_size(fields: dict[str, Any], ask: dict[str, Any], limit: str | None) -> None:
    denial = too_large(Rule("r", **fields), ASK._replace(**ask))
    assert (denial and denial.limit) == limit


def test_a_prompt_that_alone_is_in_doubt_is_no_reason_to_cap() -> None:
    rule = Rule("r", max_output_tokens=500, cap_output=True)
    assert cap(rule, ASK._replace(unread_prompt="it brings a template of its own")) is None


def test_a_denial_says_whether_it_is_for_the_size_or_for_what_cannot_be_read() -> None:
    for low, unread in ((90, "it is a form"), (901, "")):
        denial = too_large(Rule("r", max_prompt_tokens=900), ASK._replace(low=low, unread="it is a form"))
        assert denial is not None
        assert denial.unread == unread


@pytest.mark.parametrize(
    ("fields", "asked", "capped"),
    [
        ({"max_output_tokens": 100, "cap_output": True}, 500, 100),
        ({"max_output_tokens": 100, "cap_output": True}, None, 100),
        ({"max_output_tokens": 100, "cap_output": True}, 100, None),
        ({"max_output_tokens": 100, "cap_output": True, "mode": "observe"}, 500, None),
        ({"max_output_tokens": 100}, 500, None),
        ({"cap_output": True}, 500, None),
    ],
)
def test_output_is_capped_only_by_a_rule_in_force_that_says_so(
    fields: dict[str, Any], asked: int | None, capped: int | None
) -> None:
    made = cap(Rule("r", **fields), ASK._replace(max_output=asked))
    assert made == (None if capped is None else (capped, "r.max_output_tokens"))
    assert cap(Rule("r", **fields), ASK._replace(max_output=asked, kind="embed")) is None


def test_what_cannot_be_read_for_certain_is_capped_whatever_it_seems_to_ask_for() -> None:
    rule = Rule("r", max_output_tokens=100, cap_output=True)
    assert cap(rule, ASK._replace(max_output=5, unread="it has `max_tokens` twice")) == (100, "r.max_output_tokens")
