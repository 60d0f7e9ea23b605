from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefixes.offline import Offline, Trace
from proxy.records import Prompt
from tests.prefixes.breakers.apps import rules
from tests.prefixes.prompts import chat, raw


def letters(text):
    return [ord(letter) for letter in text]


@given(
    st.lists(st.tuples(st.text("ab", max_size=24), st.text("ab", max_size=9)), max_size=12),
    st.integers(1, 4),
    st.integers(0, 30),
)
def test_reuse_is_that_of_a_cache_kept_by_hand(requests, block, capacity):
    audit = Offline(letters, block, [capacity] if capacity else [], b"key")
    caches = {"inf": OrderedDict(), str(capacity): OrderedDict()}
    for number, (asked, said) in enumerate(requests):
        audit.add(str(number), float(number), "m", raw(asked), said)
    for row, (asked, said) in zip(audit.report([])["requests"], requests, strict=True):
        for column, reused in row["reuse"].items():
            assert reused == by_hand(caches[column], asked, said, block, None if column == "inf" else capacity)


def by_hand(cache, asked, said, block, capacity):
    usable, whole = max(0, len(asked) - 1) // block, asked + said
    found = next((k for k in range(usable) if asked[: (k + 1) * block] not in cache), usable)
    for k in reversed(range(len(whole) // block)):
        cache[whole[: (k + 1) * block]] = None
        cache.move_to_end(whole[: (k + 1) * block])
    while capacity is not None and len(cache) > capacity // block:
        cache.popitem(last=False)
    return found * block


def application(audit, requests=10, every_s=720.0):
    text = rules("offline", 20)
    for number in range(requests):
        asked = chat(("system", f"Now: {number:06}, {number * 7919 % 99991:05}\n{text}"), ("user", f"q{number}"))
        audit.add(f"r{number}", every_s * number, "m", asked, "yes")


def test_a_report_has_totals_families_breakers_and_the_curve():
    audit = Offline(letters, 16, [1_000, 100_000], b"key")
    application(audit)
    report = audit.report(list(audit.breakers()))
    assert report["totals"]["requests"] == 10
    assert set(report["totals"]["reuse"]) == {"inf", "1000", "100000"}
    assert [family["requests"] for family in report["families"]] == [10]
    (breaker,) = report["breakers"]
    assert breaker["family"] == report["families"][0]["family"] == "F1"
    assert breaker["tokens_per_hour"] == round(breaker["tokens_saved"] / 1.8)
    rates = [point["rate"] for point in report["curve"]]
    assert rates == sorted(rates)
    assert report["curve"][-1]["capacity_tokens"] == 400_000
    assert all(point["rate_prompt_only"] <= point["rate"] for point in report["curve"])


def test_prompts_of_small_families_are_searched_together():
    audit = Offline(letters, 16, [], b"key")
    text = rules("strays", 20)
    for number in range(10):
        words = rules(f"document {number}", 80)
        audit.add(f"r{number}", 60.0 * number, "m", chat(("user", f"{words}\n{text}"), ("user", "x")), "yes")
    (found,) = list(audit.breakers())
    assert found[0] == "other"
    assert found[1].kind == "docs_before_instructions"


def test_a_moment_has_no_hours():
    audit = Offline(letters, 16, [], b"key")
    text = rules("moment", 20)
    for number in range(10):
        audit.add(f"r{number}", 5.0, "m", chat(("system", f"Now: {number * 7919 % 99991:05}\n{text}")), None)
    (breaker,) = audit.report(list(audit.breakers()))["breakers"]
    assert "observed_s" not in breaker
    assert "tokens_per_hour" not in breaker


def test_of_a_minute_it_is_said_what_a_minute_cost():
    audit = Offline(letters, 16, [], b"key")
    application(audit, every_s=6.0)
    (breaker,) = audit.report(list(audit.breakers()))["breakers"]
    assert (breaker["observed_s"], breaker["tokens_observed"]) == (54.0, breaker["tokens_saved"])
    assert breaker["tokens_per_hour"] == round(breaker["tokens_saved"] * 3600 / 54)


def test_the_time_that_was_observed_is_that_of_the_file_or_that_of_the_prompts_that_are_searched(monkeypatch):
    def observed():
        audit = Offline(letters, 16, [], b"key")
        audit.add("first", -600.0, "other", raw("x"), None)
        application(audit, requests=20, every_s=6.0)
        return [one["observed_s"] for one in audit.report(list(audit.breakers()))["breakers"]]

    assert observed() == [714.0]
    monkeypatch.setattr("proxy.prefixes.offline.SAMPLE", 10)
    assert observed() == [54.0]


def test_prompts_given_as_ids_are_taken_as_they_are():
    audit = Offline(letters, 16, [], b"key")
    for name in ("1", "2"):
        audit.add(name, 0.0, "m", Prompt(ids=(tuple(range(40)),)), None)
    assert audit.report([])["requests"][1]["reuse"]["inf"] == 32


def test_models_have_caches_of_their_own_and_salts_blocks_of_their_own():
    audit = Offline(letters, 16, [], b"key")
    for name, model, salt in (("1", "a", ""), ("2", "b", ""), ("3", "a", "s"), ("4", "a", "")):
        audit.add(name, 0.0, model, Prompt(ids=(tuple(range(40)),), salt=salt), None)
    assert [row["reuse"]["inf"] for row in audit.report([])["requests"]] == [0, 0, 0, 32]


def test_an_empty_file_has_an_empty_report():
    report = Offline(letters, 16, [100], b"key").report([])
    assert report["requests"] == []
    assert report["totals"]["reuse"] == {}


def test_a_trace_is_read_by_the_rules_of_the_engine():
    trace = Trace(4, [4, 100])
    trace.add(10, [1, 2, 3])
    trace.add(8, [1, 2])
    trace.add(9, [1, 2, 5])
    assert trace.report() == {
        "requests": 3,
        "input_tokens": 27,
        "blocks": 8,
        "full_blocks": 6,
        "unique_blocks": 4,
        "hit_blocks_infinite": 4,
        "block_hit_rate": 0.5,
        "token_hit_rate_all_blocks": pytest.approx(16 / 27, abs=1e-6),
        "mean_request_hit_fraction": pytest.approx((0 + 1 + 8 / 9) / 3, abs=1e-6),
        "hits_over_full_blocks": pytest.approx(4 / 6, abs=1e-6),
        "vllm_rule_infinite": pytest.approx(12 / 27, abs=1e-6),
        "vllm_rule_lru": {"4": pytest.approx(8 / 27, abs=1e-6), "100": pytest.approx(12 / 27, abs=1e-6)},
    }


def test_a_trace_of_no_whole_block_has_no_rate_of_blocks():
    trace = Trace(512, (1_000,))
    assert trace.tokens == 0
    trace.add(5, [])
    report = trace.report()
    assert trace.tokens == 5
    assert (report["vllm_rule_infinite"], report["block_hit_rate"], report["hits_over_full_blocks"]) == (0, None, None)
