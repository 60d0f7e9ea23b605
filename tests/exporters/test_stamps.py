from proxy.exporters.stamps import token_gaps
from proxy.records import Gaps
from tests.support.records import MS, timeline


def test_gaps_of_one_choice_are_exact() -> None:
    assert token_gaps(timeline(gaps_ms=(10, 30, 20))) == [(10 * MS, 1), (30 * MS, 1), (20 * MS, 1)]


def test_where_stamps_ran_out_the_folded_gaps_keep_count_sum_median_and_maximum() -> None:
    cut = timeline(gaps_ms=(10,) * 98 + (500, 400))._replace(stamps=b"\x01\x02")
    gaps = token_gaps(cut)
    assert sum(times for _, times in gaps) == 100
    assert abs(sum(gap * times for gap, times in gaps) - 1880 * MS) < 100
    assert gaps[0] == (10 * MS, 50)
    assert (500 * MS, 1) in gaps


def test_choices_are_not_mixed() -> None:
    two = timeline()._replace(gaps=(Gaps(0, 2, 20, 10, 10, 10), Gaps(1, 1, 7, 7, 7, 7), Gaps(2, 0, 0, 0, 0, 0)))
    assert sum(times for _, times in token_gaps(two)) == 3
    assert sum(gap * times for gap, times in token_gaps(two)) == 27


def test_no_token_no_gap() -> None:
    assert token_gaps(timeline(gaps_ms=())) == []
