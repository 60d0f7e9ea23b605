from math import ceil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exporters.contract import to_dict
from proxy.exporters.summary import GROUPS, REST, distribution, report
from proxy.records import Outcome, PrefixVerdict, Usage
from tests.support.records import AT_S, MS, record, timeline


def lasting(ms: int, model: str = "a", at_s: float = AT_S, **changes: object) -> dict[str, object]:
    """A record of a request without a stream that took so long."""
    never = timeline(gaps_ms=(), first_token_ns=None, total_ns=ms * MS, at_s=at_s)
    return to_dict(record(model=model, timeline=never, **changes))


@given(st.lists(st.integers(0, 10**6), min_size=1), st.sampled_from([("p50_ms", 0.5), ("p999_ms", 0.999)]))
def test_a_percentile_is_the_nearest_rank(values: list[int], quantile: tuple[str, float]) -> None:
    name, q = quantile
    seen = distribution(value / 1000 for value in values)
    assert seen[name] == sorted(values)[ceil(q * len(values)) - 1]
    assert (seen["count"], seen["max_ms"]) == (len(values), max(values))


def test_no_value_no_percentile() -> None:
    assert set(distribution([]).values()) == {0, None}
    assert report([])["ttft"]["p99_ms"] is None


def test_distributions_are_merged_before_percentiles_are_taken() -> None:
    seen = report([*(lasting(100, "a") for _ in range(900)), *(lasting(5000, "b") for _ in range(100))])
    duration = seen["duration"]
    assert (duration["count"], duration["p90_ms"], duration["p99_ms"], duration["max_ms"]) == (1000, 100, 5000, 5000)
    assert seen["models"]["b"]["duration"]["p50_ms"] == 5000


def test_failures_stand_beside_latency_and_not_in_it() -> None:
    failed = [lasting(2, outcome=Outcome.ENGINE_OVERLOADED) for _ in range(34)]
    seen = report([*(to_dict(record(timeline=timeline(800))) for _ in range(66)), *failed])
    assert (seen["ttft"]["count"], seen["ttft"]["p50_ms"], seen["ttft"]["max_ms"]) == (66, 800, 800)
    assert (seen["requests"], seen["completed"], seen["failures"]) == (100, 66, {"engine_overloaded": 34})
    assert seen["duration"]["count"] == 66


def test_lists_are_in_no_latency() -> None:
    assert report([lasting(1, route="read")])["duration"]["count"] == 0


def test_phases_stand_in_the_order_of_life_each_by_class() -> None:
    phases = report([to_dict(record())])["phases"]
    assert list(phases) == ["proxy", "queue_prefill", "decode"]
    assert phases["decode"]["inferred"]["p50_ms"] == 470


def test_cached_tokens_are_compared_with_prompts_of_known_cache() -> None:
    seen = report(to_dict(record(usage=usage)) for usage in (Usage(100, 5), Usage(200, 6, 64), None))
    assert seen["tokens"] == {"prompt": 300, "output": 11, "cached": 64, "cache_known_prompt": 200}


def test_tokens_of_one_choice_or_prompt_of_several_are_in_no_sum() -> None:
    of_one = [f"of_one.{name}_tokens" for name in ("prompt", "cached", "output")]
    parts = (of_one[2:], of_one[1:2], of_one)
    seen = report(to_dict(record(usage=Usage(100, 5, 64), findings=tuple(names))) for names in parts)
    assert seen["tokens"] == {"prompt": 200, "output": 5, "cached": 64, "cache_known_prompt": 100}


def test_groups_beyond_the_limit_are_one() -> None:
    seen = report([lasting(1, model=f"m{n}") for n in range(GROUPS + 5)] + [lasting(1, model="m0")])
    assert next(iter(seen["models"])) == "m0"
    assert seen["models"][REST]["requests"] == 5


def test_all_spellings_of_a_model_are_one_group() -> None:
    seen = report(lasting(1, model=model) for model in ("m:latest", "M", "m", "m:1b", None))
    assert {name: group["requests"] for name, group in seen["models"].items()} == {
        "m:latest": 3,
        "m:1b": 1,
        "(none)": 1,
    }


def test_tenants_are_those_that_have_a_name() -> None:
    assert list(report([lasting(1, tenant="t"), lasting(1)])["tenants"]) == ["t"]


def test_families_of_prompts_are_those_that_are_known() -> None:
    prefixes = (PrefixVerdict(16, 9, family="f1"), PrefixVerdict(16, 9), None, PrefixVerdict(16, 9, family="f1"))
    families = report([lasting(1, prefix=prefix) for prefix in prefixes])["families"]
    assert {name: group["requests"] for name, group in families.items()} == {"f1": 2}


def test_time_windows_are_round_and_empty_ones_are_left_out() -> None:
    start = AT_S - AT_S % 60
    seen = report([lasting(1, at_s=start + second) for second in (0, 59, 60, 300)], window_s=60)
    assert [(window["from"] - start, window["requests"]) for window in seen["windows"]] == [(0, 2), (60, 1), (300, 1)]
    assert report([lasting(1, at_s=start), lasting(1, at_s=start + 3000)])["windows"][0]["s"] == 300
    assert report([lasting(1, at_s=start), lasting(1, at_s=start + 10**7)])["windows"][0]["s"] == 86400


def test_the_slowest_come_first_with_their_phases() -> None:
    slowest = report([lasting(99, route="manage"), *(lasting(n) for n in range(1, 21))])["slowest"]
    assert [row["total_s"] for row in slowest] == [n / 1000 for n in range(20, 10, -1)]
    assert "queue_prefill" in slowest[0]["phases"]


def test_findings_are_counted() -> None:
    rows = [to_dict(record(findings=("cold_load",))), to_dict(record(findings=("cold_load", "num_ctx_ignored")))]
    assert report(rows)["findings"] == {"cold_load": 2, "num_ctx_ignored": 1}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("at", -1),
        ("at", 1e18),
        ("at", 1e300),
        ("total_s", 1e308),
        ("total_s", -1e300),
        ("ttft_s", 1e30),
        ("tpot_s", 1e30),
    ],
)
def test_a_number_beyond_calendars_and_sums_is_no_record_s(key: str, value: float) -> None:
    row = {**to_dict(record()), key: value}
    with pytest.raises(msgspec.ValidationError, match=rf"\$\.{key}"):
        report([row])
