from hypothesis import given
from hypothesis import strategies as st

from proxy.gaps import EXACT_GAPS, TOGETHER_NS, Series, pack_stamps, unpack_stamps

MS = 1_000_000


def series(gaps: list[int], fold_every: int) -> Series:
    it = Series(7)
    for gap in gaps:
        it.recent.append(gap)
        it.last += gap
        if len(it.recent) == fold_every:
            it.fold()
    return it


def test_no_gap_is_all_zero() -> None:
    gaps = Series(7).gaps(3)
    assert (gaps.choice, gaps.number, gaps.total_ns, gaps.p50_ns, gaps.p99_ns, gaps.max_ns) == (3, 0, 0, 0, 0, 0)


def test_percentiles_of_few_gaps_are_exact_by_nearest_rank() -> None:
    slow_ones = ([30 * MS] * 49 + [3500 * MS]) * 2
    gaps = series(slow_ones, EXACT_GAPS).gaps(0)
    assert (gaps.number, gaps.p50_ns, gaps.p99_ns, gaps.max_ns) == (100, 30 * MS, 3500 * MS, 3500 * MS)
    assert gaps.total_ns == 9940 * MS


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=300), st.integers(1, 7), st.integers(1, 50))
def test_folded_gaps_keep_exact_sums_and_percentiles_within_three_percent(
    some: list[int], repeat: int, fold_every: int
) -> None:
    ordered = sorted(some * repeat)
    count = len(ordered)
    folded = series(some * repeat, fold_every).gaps(0)
    assert (folded.number, folded.total_ns, folded.max_ns) == (count, sum(ordered), ordered[-1])
    for got, percent in ((folded.p50_ns, 50), (folded.p99_ns, 99)):
        true = ordered[-(-percent * count // 100) - 1]
        assert abs(got - true) <= 0.03 * true


@given(st.lists(st.sampled_from([0, TOGETHER_NS, TOGETHER_NS * 2, 10**9]), max_size=60), st.integers(1, 70))
def test_events_too_close_for_an_engine_s_step_are_one_moment(some: list[int], fold_every: int) -> None:
    gaps = series(some, fold_every).gaps(0)
    apart = [at for at, gap in enumerate(some) if gap > TOGETHER_NS]
    assert gaps.moments == 1 + len(apart)
    assert gaps.lead == 1 + (apart[0] if apart else len(some))


def test_buckets_are_few_however_many_gaps() -> None:
    it = series([gap * 1000 for gap in range(1, 100_000)], 5000)
    assert len(it.buckets) < 600


@given(st.lists(st.integers(0, 10**14), max_size=200).map(sorted))
def test_stamps_come_back_in_microseconds(stamps: list[int]) -> None:
    assert unpack_stamps(pack_stamps(stamps)) == [stamp // 1000 * 1000 for stamp in stamps]
