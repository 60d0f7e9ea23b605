from dataclasses import replace

import pytest

from proxy.engines.gauges import Gauges, Total
from proxy.exporters.means import NAMES, Compared, Stretch
from proxy.office.reconcile import Ours, Snapshot, cache_contradicted, compare, stretches
from proxy.prefixes.ledger import TEMPLATE, Ledger
from proxy.records import Class, Outcome, Phase, PhaseBreakdown, PrefixVerdict
from tests.support.records import MS, record, timeline

NOTHING = Gauges(totals={})


def snapshot(engine: Total | None = None, ours: Total | None = None, at_s: float = 0.0) -> Snapshot:
    gauges = Gauges(totals={"ttft": engine} if engine else {})
    return Snapshot(0, at_s, gauges, Ours({"ttft": ours} if ours else {}))


def total(mean_s: float, count: float) -> Total:
    return Total(sum_s=mean_s * count, count=count)


def test_means_are_of_the_window_alone() -> None:
    before = snapshot(total(9.0, 10), total(5.0, 3))
    after = snapshot(Total(sum_s=90 + 20, count=10 + 40), Total(sum_s=15 + 20.4, count=3 + 40))
    seen = compare(before, after)["ttft"]
    assert (seen.engine_s, seen.ours_s) == (0.5, pytest.approx(0.51))
    assert (seen.engine_count, seen.our_count, seen.apart) == (40, 40, False)


def test_an_empty_window_has_no_mean() -> None:
    same = snapshot(total(1.0, 5), total(1.0, 5))
    assert compare(same, same) == {"ttft": Compared(None, None, 0, 0, None, "unknown")}


def test_counters_that_fell_compare_with_nothing() -> None:
    assert compare(snapshot(total(1.0, 100)), snapshot(total(1.0, 3))) == {}


def test_what_both_counted_between_two_moments_can_be_kept() -> None:
    before, after = snapshot(total(1.0, 10), total(2.0, 3), 60.0), snapshot(total(2.0, 15), total(2.0, 8), 120.0)
    (kept,) = stretches("e", before, after)
    assert kept == Stretch(
        engine="e",
        name="ttft",
        since_s=60.0,
        until_s=120.0,
        theirs=Total(sum_s=20, count=5),
        ours=Total(sum_s=10, count=5),
    )


def test_a_time_in_which_nobody_counted_is_not_kept() -> None:
    same = snapshot(total(1.0, 5), total(1.0, 5))
    assert list(stretches("e", same, same)) == []


def test_a_mean_that_records_do_not_have_is_not_kept() -> None:
    before, after = (Snapshot(0, 0.0, Gauges(totals={"itl": total(1.0, count)}), Ours()) for count in (1, 2))
    assert "itl" not in NAMES
    assert (list(stretches("e", before, after)), list(compare(before, after))) == ([], ["itl"])


def test_our_sums_are_of_completed_requests_and_known_phases() -> None:
    ours = Ours()
    ours.add(record())
    ours.add(record(outcome=Outcome.CLIENT_GONE))
    ours.add(record(timeline=timeline(gaps_ms=(), first_token_ns=None)))
    assert ours.totals == {"ttft": Total(sum_s=0.299, count=1)}
    assert ours.copy() == ours
    assert ours.copy().totals is not ours.totals


def test_times_begin_where_the_engine_is_asked_as_its_own_do() -> None:
    ours = Ours()
    waited = timeline(ttft_ms=4_000, admission_ns=3_700 * MS, dispatched_ns=3_800 * MS)
    ours.add(record(timeline=waited))
    ours.add(record(timeline=timeline(dispatched_ns=None)))
    assert ours.totals["ttft"] == Total(sum_s=0.2, count=1)


@pytest.mark.parametrize(
    ("source", "blocked_ns", "counted"),
    [
        pytest.param("clock", 0, True, id="the client reads along"),
        pytest.param("clock", 1, False, id="by our clock, and a slow client is in it"),
        pytest.param("vllm.metrics", 1, True, id="the engine says it, whoever reads"),
    ],
)
def test_a_slow_client_is_in_no_mean(source: str, blocked_ns: int, counted: bool) -> None:
    ours = Ours()
    decode = Phase("decode", 9_000 * MS, Class.DERIVED, source)
    ours.add(replace(record(timeline=timeline(blocked_ns=blocked_ns)), breakdown=PhaseBreakdown((decode,))))
    assert ("decode" in ours.totals) is counted
    assert "ttft" in ours.totals


def cached(queries: float | None, hits: float | None, audited: int, reusable: int) -> Snapshot:
    gauges = replace(NOTHING, prefix_queries=queries, prefix_hits=hits)
    ours = Ours()
    if audited:
        ours.add(record(prefix=PrefixVerdict(16, audited, infinite=reusable)))
    return Snapshot(0, 0.0, gauges, ours)


@pytest.mark.parametrize(
    ("queries", "hits", "audited", "reusable", "contradicted"),
    [
        pytest.param(135_000, 43_000, 102_400, 0, True, id="recomputation counted as hits"),
        pytest.param(135_000, 43_000, 102_400, 40_000, False, id="shared prompts explain them"),
        pytest.param(135_000, 43_000, 50_000, 0, False, id="most of the traffic goes around us"),
        pytest.param(900, 800, 900, 0, False, id="too few tokens to say"),
        pytest.param(None, 43_000, 102_400, 0, False, id="the engine does not say"),
    ],
)
def test_hits_that_no_shared_prompt_explains(
    queries: float | None, hits: float, audited: int, reusable: int, contradicted: bool
) -> None:
    assert cache_contradicted(cached(0, 0, 0, 0), cached(queries, hits, audited, reusable)) is contradicted


@pytest.mark.parametrize("hits", range(0, 400, 20))
def test_counters_and_answers_contradict_an_engine_by_one_rule(hits: int) -> None:
    books = Ledger()
    for _ in range(10):
        books.add(PrefixVerdict(16, 200, 0, infinite=10, bins=(("compulsory", 200),), reported=hits // 10))
    by_counters = cache_contradicted(cached(0, 0, 0, 0), cached(2_000, hits, 2_000, 100 - TEMPLATE))
    assert by_counters is (books.verdict == "contradicted")


@pytest.mark.parametrize(
    ("prefix", "reusable"),
    [
        pytest.param(PrefixVerdict(16, 1_000, infinite=480), 480 + TEMPLATE, id="words of the template"),
        pytest.param(PrefixVerdict(16, 36, infinite=0), 36, id="of a short prompt"),
        pytest.param(PrefixVerdict(16, 1_000, infinite=480, reported=480), 480, id="are in what the engine says"),
        pytest.param(PrefixVerdict(16, 1_000), 1_000, id="of another prompt than ours all may be shared"),
    ],
)
def test_tokens_that_hits_may_be_of(prefix: PrefixVerdict, reusable: int) -> None:
    ours = Ours()
    ours.add(record(prefix=prefix))
    assert (ours.audited, ours.reusable) == (prefix.tokens, reusable)
