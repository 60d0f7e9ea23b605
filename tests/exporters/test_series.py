from dataclasses import replace

import pytest

from proxy.exporters.definitions import LABEL_CHARS
from proxy.exporters.series import Names, Series
from proxy.messages import EngineState, Pulse
from proxy.records import AdmissionVerdict, Outcome, PrefixVerdict, TokenCount, Usage
from tests.support.records import MS, record, timeline

LABELS = ("ollama", "llama3.2")


def test_a_good_stream_is_in_every_distribution() -> None:
    series = Series()
    series.export(record())
    assert series.times["ttft"].at(LABELS).total == 300 * MS
    assert series.times["request_duration"].at(LABELS).total == 770 * MS
    assert series.times["ttfb"].at(()).total == 300 * MS
    assert series.times["overhead"].at(()).total == MS
    assert sum(series.times["itl"].at(LABELS).counts) == 47
    assert sum(series.times["tpot"].at(LABELS).counts) == 1
    assert series.times["phase"].at(("ollama", "decode", "inferred")).total == 470 * MS


def test_a_failure_is_counted_and_in_no_latency() -> None:
    series = Series()
    never = timeline(gaps_ms=(), first_token_ns=None, first_byte_ns=2 * MS)
    series.pulse(Pulse(at_s=0.0, engines=(EngineState(name="ollama", models=("llama3.2",)),)))
    series.export(record(outcome=Outcome.ENGINE_OVERLOADED, status=503, timeline=never, usage=None))
    assert series.counters["requests"].sets == {(*LABELS, "inference", "engine_overloaded"): 1}
    empty = ("ttfb", "ttft", "itl", "tpot", "request_duration", "phase")
    assert [name for name in empty if series.times[name].sets] == []


def test_ttft_of_a_stream_that_broke_after_its_first_token_counts() -> None:
    series = Series()
    series.export(record(outcome=Outcome.TRUNCATED))
    assert sum(series.times["ttft"].at(LABELS).counts) == 1
    assert series.times["request_duration"].sets == {}


def test_an_exchange_that_never_reached_an_engine_has_no_time_of_ours_and_one_without_a_body_no_first_byte() -> None:
    series = Series()
    series.export(record(timeline=timeline(gaps_ms=(), first_token_ns=None, dispatched_ns=None, first_byte_ns=None)))
    assert (series.times["overhead"].sets, series.times["ttfb"].sets) == ({}, {})


def test_lists_and_health_checks_are_in_no_latency() -> None:
    series = Series()
    series.export(record(route="read", model=None, usage=None))
    assert series.counters["requests"].sets == {("ollama", "", "read", "completed"): 1}
    assert all(not family.sets for family in series.times.values())
    assert series.counters["prompt_unknown_requests"].sets == {}


def test_cached_tokens_are_a_share_of_prompts_whose_cached_tokens_are_known() -> None:
    series = Series()
    for usage in (Usage(100, 1), Usage(200, 1, 0), Usage(300, 1, 64), None):
        series.export(record(usage=usage))
    sums = {name: sum(family.sets.values()) for name, family in series.counters.items()}
    assert (sums["prompt_tokens"], sums["cached_tokens"], sums["cache_known_prompt_tokens"]) == (600, 64, 500)
    assert (sums["cache_unknown_requests"], sums["prompt_unknown_requests"], sums["usage_known_requests"]) == (2, 1, 3)


def test_tokens_of_one_choice_or_prompt_of_several_are_in_no_sum() -> None:
    series = Series()
    of_one = ("of_one.prompt_tokens", "of_one.cached_tokens", "of_one.output_tokens")
    for findings in (of_one[2:], of_one[1:2], of_one):
        series.export(record(usage=Usage(100, 5, 64), findings=findings))
    sums = {name: sum(family.sets.values()) for name, family in series.counters.items()}
    assert (sums["prompt_tokens"], sums["output_tokens"], sums["cached_tokens"]) == (200, 5, 64)
    assert (sums["cache_unknown_requests"], sums["prompt_unknown_requests"], sums["usage_known_requests"]) == (2, 1, 1)


def test_prompt_tokens_are_in_bins_where_the_engine_read_what_we_know() -> None:
    series, bins = Series(), (("hit", 64), ("compulsory", 36))
    for prefix, cached in (
        (PrefixVerdict(16, 100, 48, bins=bins, reported=64), 64),
        (PrefixVerdict(16, 100, 48, bins=bins), 30),
        (PrefixVerdict(16, 100, reported=64), 64),
    ):
        series.export(record(prefix=prefix, usage=Usage(100, 5, cached)))
    assert series.counters["prefix_tokens"].sets == {("ollama", "hit"): 128, ("ollama", "compulsory"): 72}
    assert series.counters["prefix_expected_tokens"].sets == {("ollama",): 48}
    assert series.counters["prefix_reported_tokens"].sets == {("ollama",): 64}


def test_our_own_count_is_compared_with_the_engine_s() -> None:
    series = Series()
    for usage in (Usage(600, 1), Usage(0, 1), None):
        series.export(record(counted=TokenCount(660, "estimated", 500, 800, 600), usage=usage))
    assert sum(series.count_error.at(("estimated",)).counts) == 1
    assert series.count_error.at(("estimated",)).total == 0.1
    cut = record(counted=TokenCount(6600, "estimated", 5000, 8000, 6000), usage=Usage(600, 1))
    series.export(replace(cut, findings=("context_truncated",)))  # that the engine left some out is no error of ours
    assert sum(series.count_error.at(("estimated",)).counts) == 1


def test_what_is_worth_an_alarm_is_counted() -> None:
    series = Series()
    stalled = timeline(gaps_ms=(10,) * 9 + (300, 240), unreadable_events=2)
    series.export(record(findings=("cold_load",), timeline=stalled))
    slow = stalled._replace(blocked_ns=500 * MS, unreadable_events=0)
    series.export(record(timeline=slow))  # the pace is the client's
    assert sum(series.times["itl"].at(("ollama", "llama3.2")).counts) == 11
    one = {("ollama",): 1}
    assert (series.counters["cold_loads"].sets, series.counters["stalls"].sets) == (one, one)
    assert series.counters["blocked_seconds"].sets == {("ollama",): 0.5}
    assert series.counters["unreadable_events"].sets == {("ollama",): 2}


def test_tokens_for_clients_that_left_are_the_engine_s_count_or_events() -> None:
    series = Series()
    series.export(record(outcome=Outcome.CLIENT_GONE))
    series.export(record(outcome=Outcome.CLIENT_GONE, usage=None))
    series.export(record(outcome=Outcome.CLIENT_GONE, usage=Usage(7, 3), findings=("of_one.output_tokens",)))
    assert series.counters["left_tokens"].sets == {("ollama",): 3 * 48}


def test_tenants_and_decisions_are_counted() -> None:
    series = Series(tenants=1)
    for tenant in ("a", "b", None):
        series.export(record(tenant=tenant, admission=AdmissionVerdict("shed", "rate_requests", None, "enforce")))
    assert series.counters["tenant_requests"].sets == {("a", "completed"): 1, ("other", "completed"): 1}
    assert series.counters["admission_decisions"].sets == {("shed", "rate_requests", "enforce"): 3}


def test_a_name_that_no_engine_knows_gets_no_label() -> None:
    series = Series()
    silent = timeline(gaps_ms=(), first_token_ns=None, token_events=0)
    for number in range(2000):
        series.export(record(model=f"typo-{number}", outcome=Outcome.ENGINE_REJECTED, status=404, timeline=silent))
    series.export(record())
    series.export(record(model=None))
    assert {labels[1] for labels in series.counters["requests"].sets} == {"other", "llama3.2", ""}


def test_a_listed_model_has_its_label_before_it_ever_answered() -> None:
    series = Series()
    series.pulse(Pulse(at_s=0.0, engines=(EngineState(name="ollama", models=("new",)),), lag_ns=(5,)))
    series.export(record(model="new", outcome=Outcome.ENGINE_ERROR))
    assert ("ollama", "new", "inference", "engine_error") in series.counters["requests"].sets
    assert series.times["loop_lag"].at(()).total == 5


def test_names_are_capped_cut_and_encodable() -> None:
    names = Names(2)
    assert names.label("x" * 500, served=True) == "x" * LABEL_CHARS
    assert names.label("\ud800", served=True) == "?"
    assert names.label("third", served=True) == "other"
    assert names.label("", served=True) == ""


def listing(*models: str) -> Pulse:
    return Pulse(at_s=0.0, engines=(EngineState(name="ollama", models=models),))


def held(series: Series) -> dict[str, set[str]]:
    """Which models have series of their own, by family."""
    families = {**series.counters, **series.times}
    return {
        name: {dict(zip(family.names, labels, strict=True))["model"] for labels, _ in family} - {"other"}
        for name, family in families.items()
        if "model" in family.names
    }


@pytest.mark.parametrize("late", [False, True], ids=["listed before", "listed after"])
def test_a_listed_model_takes_its_label_and_its_series_from_names_that_are_made_up(late: bool) -> None:
    """Engines that serve whatever they are asked for let a client make up names."""
    series = Series()
    if not late:
        series.pulse(listing("real", "tagged:latest"))
    for number in range(300):
        series.export(record(model=f"made-up-{number}"))
    series.pulse(listing("real", "tagged:latest"))
    for model in ("real", "tagged", "real"):
        series.export(record(model=model))
    assert all({"real", "tagged"} <= models for models in held(series).values() if models)
    assert sum(series.times["ttft"].at(("ollama", "real")).counts) == 2
    assert series.counters["requests"].sets["ollama", "real", "inference", "completed"] == 2
    assert len({*series.models.granted()}) <= 40


def test_nothing_that_was_counted_is_lost_with_a_label() -> None:
    series = Series(models=5)
    for number in range(60):
        if number == 30:
            series.pulse(listing(*(f"real-{number}" for number in range(20))))
        series.export(record(model=f"real-{number % 20}" if number >= 30 else f"made-up-{number}"))
        assert sum(series.counters["requests"].sets.values()) == number + 1
        assert sum(sum(spread.counts) for _, spread in series.times["ttft"]) == number + 1
    assert series.models.granted() == [f"real-{number}" for number in range(10, 15)]


def test_the_first_to_come_keeps_its_label_longest_and_listed_names_never_lose_theirs() -> None:
    lost: list[str] = []
    names = Names(3, lost.append)
    names.lists(("a", "b", "c", "d"))
    assert [names.label(name, served=True) for name in ("a", "x", "y", "z")] == ["a", "x", "y", "other"]
    assert [names.label(name, served=False) for name in ("b", "c", "d")] == ["b", "c", "other"]
    assert (lost, names.granted()) == (["y", "x"], ["a", "b", "c"])
    assert not names.yields("a")


def test_all_spellings_of_a_model_have_the_label_of_the_first_and_tenants_are_told_apart() -> None:
    series = Series()
    series.pulse(listing("m:latest"))
    for model in ("m", "M", "m:latest", "registry.ollama.ai/library/m", "m:1b"):
        series.export(record(model=model, tenant=model))
    assert {labels[1]: total for labels, total in series.counters["requests"]} == {"m": 4, "m:1b": 1}
    assert len(series.counters["tenant_requests"].sets) == 5
    assert series.models.granted() == ["m", "m:1b"]


def test_a_model_that_is_called_other_is_one_of_the_others() -> None:
    names = Names(3)
    assert names.label("other", served=True) == "other"
    assert names.granted() == []
