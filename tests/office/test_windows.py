import pytest

from proxy.engines.gauges import Gauges, Total
from proxy.exporters.means import Stretch
from proxy.office.windows import KEPT_NS, WINDOW_NS, Windows, nowhere
from tests.support.records import record, timeline

S = 1_000_000_000
Seen = tuple[float, float, float, float]


def gauges(count: float, mean_s: float = 0.5) -> Gauges:
    return Gauges(running=count, totals={"ttft": Total(sum_s=mean_s * count, count=count)})


def kept_by(windows: Windows, kept: list[Stretch]) -> list[Seen]:
    windows.close()
    return [(one.since_s, one.until_s, one.theirs.count, one.ours.count) for one in kept]


@pytest.fixture
def kept() -> list[Stretch]:
    return []


@pytest.fixture
def windows(kept: list[Stretch]) -> Windows:
    return Windows("e", kept.append)


def see(windows: Windows, at: int, count: float) -> None:
    windows.see(gauges(count), at * S, 1000.0 + at)


def test_before_the_first_look_nothing_is_known(windows: Windows, kept: list[Stretch]) -> None:
    assert (windows.latest, windows.compared, windows.contradicted) == (None, {}, False)
    assert kept_by(windows, kept) == []


def test_what_is_older_than_the_sliding_window_is_forgotten(windows: Windows) -> None:
    for turn, count in enumerate((0, 10, 30)):
        see(windows, turn * WINDOW_NS // S, count)
    assert windows.compared["ttft"].engine_count == 20
    assert windows.latest == gauges(30)


def test_a_restarted_engine_begins_new_windows(windows: Windows, kept: list[Stretch]) -> None:
    see(windows, 0, 100)
    see(windows, 5, 103)
    see(windows, 10, 5)
    see(windows, 15, 9)
    assert windows.compared["ttft"].engine_count == 4
    assert kept_by(windows, kept) == [(1000.0, 1005.0, 3, 0), (1010.0, 1015.0, 4, 0)]


def test_windows_that_are_kept_follow_each_other_and_miss_no_request(windows: Windows, kept: list[Stretch]) -> None:
    looks = 3 * KEPT_NS // S // 5 + 4
    for look in range(looks):
        windows.add(record(timeline=timeline(500)))
        see(windows, look * 5, look * 2)
    seen = kept_by(windows, kept)
    assert len(seen) == 4
    assert [since for since, *_ in seen[1:]] == [until for _, until, *_ in seen[:-1]]
    assert (seen[0][0], seen[-1][1]) == (1000.0, 1000.0 + (looks - 1) * 5)
    assert sum(theirs for _, _, theirs, _ in seen) == (looks - 1) * 2
    assert sum(ours for *_, ours in seen) == looks - 1  # the first look begins with one


def test_a_window_is_kept_once(windows: Windows, kept: list[Stretch]) -> None:
    see(windows, 0, 0)
    see(windows, 5, 1)
    windows.close()
    assert kept_by(windows, kept) == [(1000.0, 1005.0, 1, 0)]


def test_without_a_store_windows_go_nowhere() -> None:
    windows = Windows("e", nowhere)
    see(windows, 0, 0)
    see(windows, KEPT_NS // S, 1)
    windows.close()
    assert windows.compared["ttft"].engine_count == 1
