"""The runner must be able to fail: each kind of check is given a wrong value, and names it."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases import runner
from tests.cases.__main__ import load
from tests.cases.words import faults

CHUNK = 'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
CASE: dict[str, Any] = {
    "id": "FC-900",
    "kind": "sse-framing",
    "steps": [
        {
            "client": {},
            "engine": {
                "headers": {"content-type": "text/event-stream", "x-one": "1"},
                "reads": [
                    {"t_ms": 100, "text": CHUNK, "times": 2, "every_ms": 20},
                    {"t_ms": 130, "text": "data: [DONE]\n\n"},
                ],
            },
            "check": {"outcome": "completed"},
        }
    ],
}

RIGHT: dict[str, Any] = {
    "status": 200,
    "headers": {"x-one": "1", "x-two": {"absent": True}},
    "body": {"starts_with": "data: ", "lacks": ["error"]},
    "bytes_identical": True,
    "body_end": "complete",
    "head_ms": 100,
    "forward_delay_ms": 0,
    "outcome": "completed",
    "model": "m1",
    "ttfb_ms": 100,
    "ttft_ms": 100,
    "answer_ttft_ms": 100,
    "duration_ms": 130,
    "itl_ms": {"0": [20]},
    "tpot_ms": None,
    "events": 3,
    "token_events": 2,
    "unreadable_events": 0,
    "text": "aa",
    "finish": None,
    "done": True,
    "prompt_tokens": None,
    "output_tokens": None,
    "cached_tokens": None,
    "rates": {"decode": None},
    "phases": {"queue": None, "rest": 130},
    "findings": {"lacks": ["cold_load"]},
    "engine_requests": 1,
    "engine_request": {"method": "POST", "body_identical": True, "headers": {"host": "{engine}"}},
    "engine_closed_ms": 130,
}
WRONG: dict[str, Any] = {
    "status": 201,
    "headers": {"x-two": {"present": True}},
    "body": {"contains": ["error"]},
    "bytes_identical": False,
    "body_end": "aborted",
    "head_ms": 99,
    "forward_delay_ms": {"ge": 1},
    "outcome": {"any_of": ["shed", "refused"]},
    "model": "m2",
    "ttfb_ms": 101,
    "ttft_ms": None,
    "answer_ttft_ms": {"approx": 98, "tol": 1},
    "duration_ms": {"between": [131, 140]},
    "itl_ms": {"0": [20, 10]},
    "tpot_ms": {"le": 1000},
    "events": 2,
    "token_events": 3,
    "unreadable_events": {"ge": 1},
    "text": "a",
    "finish": "stop",
    "done": False,
    "prompt_tokens": 0,
    "output_tokens": {"ge": 0},
    "cached_tokens": 0,
    "rates": {"decode": 1},
    "phases": {"queue": 0},
    "findings": {"contains": ["cold_load"]},
    "engine_requests": 0,
    "engine_request": {"headers": {"host": "proxy.test"}},
    "engine_closed_ms": None,
}


def verdict(check: dict[str, Any], after: dict[str, Any] | None = None) -> runner.Verdict:
    case = copy.deepcopy(CASE)
    case["steps"][0]["check"] = check
    case["check"] = after or {}
    assert faults(case) == []
    return runner.run(case)


@pytest.mark.parametrize("gzipped", [False, True])
def test_a_file_of_cases_may_hold_any_character(gzipped: bool, tmp_path: Path) -> None:
    cases = [{"id": "FC-900", "why": "a\u2028b\x85c\x0bd"}, {"id": "FC-901"}]
    text = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases).encode()
    file = tmp_path / ("cases.jsonl.gz" if gzipped else "cases.jsonl")
    file.write_bytes(gzip.compress(text) if gzipped else text)
    assert list(load(file)) == cases


def test_what_is_so_passes() -> None:
    assert verdict(RIGHT, {"metrics": {"requests": 1, "ttft.sum_ms": 100, "itl.count": 1}}).reasons == ()


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_so_fails_by_its_name(name: str) -> None:
    found = verdict({name: WRONG[name]})
    assert found.word == "fail"
    assert found.reasons[0].startswith(f"step 0: {name}")


def test_one_alternative_that_holds_is_enough_and_none_is_not() -> None:
    assert verdict({"either": [{"status": 500}, {"status": 200, "done": True}]}).word == "pass"
    assert verdict({"either": [{"status": 500}, {"status": 200, "done": False}]}).word == "fail"


@pytest.mark.parametrize(
    "after",
    [
        {"metrics": {"requests": 2}},
        {"metrics": {"ttft.p50_ms": {"ge": 1000}}},
        {"report": {"duration.count": 2}},
        {"engine_requests": 3},
        {"never_shown": ["FC-900-0"]},
        {"findings": {"contains": ["model_swaps"]}},
        {"memory_growth_bytes": {"le": -1}},
    ],
    ids=lambda after: next(iter(after)),
)
def test_checks_after_all_steps_can_fail(after: dict[str, Any]) -> None:
    assert verdict({}, after).word == "fail"


def test_a_word_outside_the_vocabulary_fails_by_name() -> None:
    case = copy.deepcopy(CASE)
    case["steps"][0]["check"] = {"ttft_mss": 1}
    found = runner.run(case)
    assert (found.word, "'ttft_mss'" in found.reasons[0]) == ("fail", True)


def test_a_case_for_the_hand_is_listed_and_not_played() -> None:
    found = runner.run({"id": "FC-901", "machine": False, "expect": "something"})
    assert (found.word, found.reasons) == ("by hand", ("something",))


def test_another_request_at_the_engine_than_the_clients_fails_always() -> None:
    case = copy.deepcopy(CASE)
    case["config"] = {"ask_usage": True}
    case["steps"][0]["check"] = {"engine_request": {"body_identical": True}}
    assert runner.run(case).word == "fail"
