import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.ask import OTHERS, Ask
from proxy.admission.counters import COUNTERS, TENANTS
from proxy.admission.gcra import PERIOD_NS
from proxy.admission.hold import Hold, Now, Spent
from proxy.admission.limits import SHOWN, UNLIMITED, Limits, Weighed
from proxy.admission.quota import Quota
from proxy.admission.rules import Rule
from proxy.records import AdmissionVerdict

ASK = Ask("chat", "m1", "team-a", "gpu-1", low=90, n=100, prompts=1, max_output=None, window=4096, counted="m1")
START = Now(10**12, 36_000.0)


def later(seconds: float) -> Now:
    return Now(START.ns + round(seconds * 1e9), START.wall_s + seconds)


def admit(limits: Limits, ask: Ask = ASK, now: Now = START) -> tuple[Weighed, Hold | None]:
    weighed = limits.weigh(ask, now)
    return weighed, None if weighed.refusal is not None else limits.take(weighed, ask, now)


def refusal(limits: Limits, ask: Ask = ASK, now: Now = START) -> str | None:
    denial = limits.weigh(ask, now).refusal
    return denial.name if denial is not None else None


def test_without_rules_everything_passes() -> None:
    weighed, hold = admit(Limits())
    assert (weighed.refusal, weighed.observed, weighed.mode, weighed.cap) == (None, None, "off", None)
    assert hold is not None
    hold.settle(Spent(START, 1, 1, 1))


@pytest.mark.parametrize(
    ("fields", "passes", "denied_by", "wait_s"),
    [
        ({"requests_per_minute": 2}, 2, "r.requests_per_minute", 30),
        ({"tokens_per_minute": 200}, 2, "r.tokens_per_minute", 27),
        ({"tokens_per_hour": 250}, 2, "r.tokens_per_hour", 3600),
        ({"tokens_per_day": 250}, 2, "r.tokens_per_day", 50_400),
        ({"max_prompt_tokens": 80}, 0, "r.max_prompt_tokens", None),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_a_limit_denies_and_says_truly_when_to_come_back(
    fields: dict[str, Any], passes: int, denied_by: str, wait_s: int | None
) -> None:
    limits = Limits([Rule("r", **fields)])
    for _ in range(passes):
        assert admit(limits)[1] is not None
    denial = limits.weigh(ASK, START).refusal
    assert denial is not None
    assert denial.name == denied_by
    assert denial.wait_ns == (None if wait_s is None else wait_s * 10**9)
    if wait_s is not None:
        assert refusal(limits, now=later(wait_s - 0.001)) == denied_by
        assert refusal(limits, now=later(wait_s)) is None


def test_a_prompt_is_held_against_the_low_end_of_its_count_and_charged_with_the_best_guess() -> None:
    limits = Limits([Rule("r", tokens_per_hour=190)])
    assert admit(limits)[1] is not None
    assert refusal(limits) is None
    assert refusal(limits, ASK._replace(low=91)) == "r.tokens_per_hour"


def test_all_rules_pass_or_nothing_is_taken() -> None:
    limits = Limits([Rule("a", requests_per_minute=10), Rule("b", requests_per_minute=1)])
    admit(limits)
    for _ in range(20):
        assert admit(limits)[1] is None
    assert limits.quotas(ASK, START)[0] == Quota(1, 0, PERIOD_NS)
    limits.replace([Rule("a", requests_per_minute=10)])
    assert limits.quotas(ASK, START)[0] == Quota(10, 9, PERIOD_NS // 10)


def test_of_several_denials_the_most_patient_is_told() -> None:
    rates = [Rule("short", requests_per_minute=60), Rule("long", requests_per_minute=1)]
    limits = Limits(rates)
    admit(limits)
    assert refusal(limits) == "long.requests_per_minute"
    limits.replace([*rates, Rule("never", max_prompt_tokens=1)])
    assert refusal(limits) == "never.max_prompt_tokens"


def test_observing_takes_what_would_pass_and_writes_down_what_would_not() -> None:
    limits = Limits([Rule("r", mode="observe", requests_per_minute=1), Rule("s", mode="observe", max_prompt_tokens=9)])
    first, _ = admit(limits, ASK._replace(low=1))
    second, hold = admit(limits)
    assert (first.observed, first.mode) == (None, "observe")
    assert (second.refusal, second.rules) == (None, ())
    assert second.observed is not None
    assert second.observed.name == "r.requests_per_minute"
    assert hold is not None
    assert limits.quotas(ASK, START) == (None, None)


def test_the_strictest_mode_is_told() -> None:
    observed, enforced = Rule("o", mode="observe"), Rule("e")
    assert Limits([observed, enforced]).weigh(ASK, START).mode == "enforce"
    assert Limits([observed]).weigh(ASK, START).mode == "observe"
    assert Limits([Rule("off", mode="off")]).weigh(ASK, START).mode == "off"


def test_the_smallest_cap_is_written() -> None:
    capped = [Rule(str(n), max_output_tokens=n, cap_output=True) for n in (500, 300)]
    assert Limits(capped).weigh(ASK, START).cap == (300, "300.max_output_tokens")


def test_what_the_engine_says_settles_rates_and_budgets() -> None:
    rules = [Rule("r", tokens_per_minute=1000, tokens_per_day=2000, requests_per_minute=10)]
    limits = Limits(rules)
    _, hold = admit(limits)
    assert hold is not None
    hold.settle(Spent(START, 1, 40, 140))
    hold.settle(Spent(START, 0, 0, 0))  # only the first call counts
    requests, tokens = limits.quotas(ASK, START)
    assert (requests and requests.remaining, tokens and tokens.remaining) == (9, 1860)
    counters = {counter["limit"]: counter["remaining"] for counter in limits.snapshot(START)["counters"]}
    assert counters["tokens_per_minute"] == 960


def test_tenants_have_counters_of_their_own_where_the_rule_says_so() -> None:
    limits = Limits([Rule("r", per=("tenant",), requests_per_minute=1)])
    admit(limits)
    assert refusal(limits) == "r.requests_per_minute"
    assert refusal(limits, ASK._replace(tenant="team-b")) is None


def test_a_changed_limit_keeps_what_was_used() -> None:
    limits = Limits([Rule("r", requests_per_minute=2, tokens_per_hour=1000)])
    admit(limits)
    limits.replace([Rule("r", requests_per_minute=4, tokens_per_hour=150)])
    requests, tokens = limits.quotas(ASK, START)
    assert (requests and requests.remaining, tokens and tokens.remaining) == (2, 50)


def test_slots_follow_their_rule_at_once() -> None:
    rule = Rule("r", max_concurrency=1)
    limits = Limits([rule])
    ((_, slots),) = limits.gates(limits.weigh(ASK, START), ASK)
    slots.take(0)
    limits.replace([Rule("r", max_concurrency=2)])
    assert slots.free
    limits.replace([])
    assert slots.limit == UNLIMITED
    limits.replace([rule])
    assert not slots.free


def test_budgets_survive_a_restart_and_rates_need_not() -> None:
    rules = [Rule("r", per=("tenant",), tokens_per_hour=1000, tokens_per_day=5000, requests_per_minute=1)]
    limits = Limits(rules)
    admit(limits)
    again = Limits(rules)
    again.restore(json.loads(json.dumps({"budgets": list(limits.kept())})))
    again.restore({})
    again.restore({"budgets": [{"key": ["tokens_per_year", "r"], "window": 0, "used": 1}]})
    again.restore({"budgets": [{"key": ["tokens_per_day", "gone"], "window": 0, "used": 1}]})
    assert [(c["allowed"], c["remaining"]) for c in again.snapshot(START)["counters"]] == [(1000, 900), (5000, 4900)]
    assert again.quotas(ASK, START) == (Quota(1, 1, 0), Quota(1000, 900, 3600 * 10**9))


def test_a_snapshot_is_json_and_tells_decisions_and_what_is_left() -> None:
    limits = Limits([Rule("r", requests_per_minute=2, max_concurrency=3, tokens_per_day=100)])
    weighed, _ = admit(limits)
    limits.gates(weighed, ASK)[0][1].take(0)
    limits.note(AdmissionVerdict(mode="enforce"))
    limits.note(AdmissionVerdict("shed", "rate_requests", "r.requests_per_minute", "enforce"))
    limits.note(AdmissionVerdict("shed", "rate_requests", "r.requests_per_minute", "enforce"))
    shown = json.loads(json.dumps(limits.snapshot(START)))
    assert shown["rules"] == [{"name": "r", "mode": "enforce"}]
    assert {(d["decision"], d["reason"], d["count"]) for d in shown["decisions"]} == {
        ("admitted", None, 1),
        ("shed", "rate_requests", 2),
    }
    assert [(c["limit"], c["remaining"], c["allowed"]) for c in shown["counters"]] == [
        ("tokens_per_day", 0, 100),
        ("requests_per_minute", 1, 2),
        ("max_concurrency", 2, 3),
    ]


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_a_snapshot_shows_the_rules_as_they_are_after_others_came(mode: str) -> None:
    fields = {"requests_per_minute": 20, "max_concurrency": 3, "tokens_per_day": 1_000}
    limits = Limits([Rule("r", **fields), Rule("gone", **fields)])
    weighed, _ = admit(limits)
    for _, slots in limits.gates(weighed, ASK):
        slots.take(0)
    limits.replace([Rule("r", mode, **{name: 2 * limit for name, limit in fields.items()})])
    shown = limits.snapshot(START)["counters"]
    assert {(c["rule"], c["limit"], c["allowed"], c["remaining"]) for c in shown} == {
        ("r", "requests_per_minute", 40, 38),  # as long as before to be worked off
        ("r", "tokens_per_day", 2_000, 2_000 - ASK.n),
        ("r", "max_concurrency", 6, 5),
    }
    limits.replace([])
    assert limits.snapshot(START)["counters"] == []


def counters(limits: Limits, now: Now = START) -> list[tuple[str, ...]]:
    return [(c["limit"], *c["subject"]) for c in limits.snapshot(now)["counters"]]


EVERY = Rule("r", per=("model",), requests_per_minute=60, tokens_per_hour=3_000, max_concurrency=1)


def test_looking_leaves_no_counter_and_a_rejected_request_none_for_long() -> None:
    limits = Limits([EVERY])
    limits.weigh(ASK, START)
    limits.quotas(ASK, START)
    assert counters(limits) == []
    for n in range(30):
        asked = ASK._replace(counted=f"m{n}")
        limits.sweep(START)
        weighed, hold = admit(limits, asked)
        limits.gates(weighed, asked)
        assert hold is not None
        hold.settle(Spent(START, 1, 0, 0))
    assert len([key for key in counters(limits) if key[0] == "tokens_per_hour"]) == 1
    for _ in range(30):
        limits.sweep(later(60))
    assert {key[0] for key in counters(limits)} == {"max_concurrency"}


def test_invented_names_do_not_fill_the_memory() -> None:
    limits = Limits([EVERY])
    for n in range(COUNTERS + 500):
        asked = ASK._replace(counted=f"m{n}")
        limits.sweep(START)
        weighed, _ = admit(limits, asked)
        for _, slots in limits.gates(weighed, asked):
            slots.take(0)
    assert len(list(limits.kept())) == COUNTERS + 1
    assert {tuple(one["key"]) for one in list(limits.kept())} >= {("tokens_per_hour", "r", OTHERS)}
    assert len(counters(limits)) == SHOWN
    assert refusal(limits, ASK._replace(counted="m0")) is None
    assert refusal(limits, ASK._replace(counted="one more"), later(60)) == "r.tokens_per_hour"
    assert limits.quotas(ASK._replace(counted="m0"), START)[0] == Quota(60, 59, PERIOD_NS // 60)


def test_what_runs_without_a_count_is_settled_however_many_come_in_between() -> None:
    limits = Limits([Rule("r", tokens_per_hour=1_000)])
    _, hold = admit(limits, ASK._replace(n=0, low=0))
    for _ in range(10):
        limits.sweep(START)
    assert hold is not None
    hold.settle(Spent(START, 1, 0, 700))
    assert [c["remaining"] for c in limits.snapshot(START)["counters"]] == [300]


ODD_BUDGETS: list[Any] = [
    5, None, {}, {"key": ["tokens_per_hour", "r"]}, {"key": "tokens_per_hour", "window": 10, "used": 1},
    {"key": ["tokens_per_hour"], "window": 10, "used": 1}, {"key": ["tokens_per_hour", 7], "window": 10, "used": 1},
    {"key": ["tokens_per_hour", "r"], "window": 10, "used": -(10**9)},
    {"key": ["tokens_per_hour", "r", *"abcd"], "window": 10, "used": 1},
    {"key": ["tokens_per_hour", "r", "m" * 9_999], "window": 10, "used": 1},
]  # fmt: skip


def test_odd_things_are_left_out_and_counted_and_the_rest_is_taken_up() -> None:
    limits = Limits([Rule("r", tokens_per_hour=1_000)])
    good = {"key": ["tokens_per_hour", "r"], "window": 10, "used": 400}
    assert limits.restore({"budgets": [*ODD_BUDGETS, good]}) == len(ODD_BUDGETS)
    assert [c["remaining"] for c in limits.snapshot(START)["counters"]] == [600]
    assert [limits.restore(odd) for odd in (5, None, [], {"budgets": None}, {"budgets": {}})] == [1] * 5


def test_a_file_of_any_length_fills_no_memory() -> None:
    limits = Limits([Rule("r", per=("model",), tokens_per_hour=1_000)])
    kept = [{"key": ["tokens_per_hour", "r", f"m{n}"], "window": 10, "used": 1} for n in range(TENANTS + 9)]
    assert limits.restore({"budgets": kept}) == 0
    assert len(list(limits.kept())) == TENANTS


def test_every_tenant_s_budget_is_there_after_a_restart() -> None:
    rules = [Rule("r", per=("tenant",), tokens_per_hour=1_000)]
    asks = [ASK._replace(tenant=f"t{n}") for n in range(2 * COUNTERS)]
    limits, again = Limits(rules), Limits(rules)
    for asked in asks:
        limits.take(limits.weigh(asked, START), asked, START).settle(Spent(START, 1, 900, 1_000))
    again.restore(json.loads(json.dumps({"budgets": list(limits.kept())})))
    assert {refusal(again, asked) for asked in asks} == {"r.tokens_per_hour"}


def test_a_body_is_looked_at_closely_where_a_rule_judges_it() -> None:
    assert Limits([EVERY, Rule("s", max_prompt_tokens=9)]).sized
    assert not Limits([EVERY]).sized


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 400), st.integers(0, 500), st.integers(0, 300))))
def test_nothing_that_is_left_is_ever_negative(steps: list[tuple[int, int, int, int]]) -> None:
    limits = Limits([Rule("r", tokens_per_minute=500, tokens_per_hour=900, requests_per_minute=3)])
    seconds = 0
    for after, n, prompt, output in steps:
        seconds += after
        _, hold = admit(limits, ASK._replace(n=n, low=n), later(seconds))
        if hold is not None:
            hold.settle(Spent(later(seconds), 1, prompt, prompt + output))
        assert all(counter["remaining"] >= 0 for counter in limits.snapshot(later(seconds))["counters"])
