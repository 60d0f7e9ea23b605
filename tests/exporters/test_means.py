import pytest

from proxy.engines.gauges import Total
from proxy.exporters.means import NOTHING, compared


def total(mean_s: float, count: float) -> Total:
    return Total(sum_s=mean_s * count, count=count)


@pytest.mark.parametrize(
    ("engine", "ours", "verdict"),
    [
        pytest.param(total(1.0, 100), total(1.06, 100), "apart", id="six percent"),
        pytest.param(total(1.0, 100), total(0.94, 95), "apart", id="six percent the other way"),
        pytest.param(total(1.0, 100), total(1.04, 100), "agree", id="four percent"),
        pytest.param(total(0.02, 100), total(0.024, 100), "small", id="less than the way costs"),
        pytest.param(total(1.0, 19), total(2.0, 19), "few", id="too few"),
        pytest.param(total(1.0, 100), total(2.0, 80), "other_traffic", id="other traffic"),
        pytest.param(total(1.0, 100), NOTHING, "unknown", id="nothing of ours"),
        pytest.param(NOTHING, total(1.0, 100), "unknown", id="nothing of the engine's"),
        pytest.param(total(0.0, 100), total(0.0, 100), "agree", id="nothing waits"),
    ],
)
def test_means_are_apart_over_five_percent_of_the_same_requests(engine: Total, ours: Total, verdict: str) -> None:
    seen = compared(engine, ours)
    assert (seen.verdict, seen.apart) == (verdict, verdict == "apart")


def test_the_difference_is_a_share_of_the_engine_s_mean() -> None:
    assert compared(total(2.0, 30), total(1.5, 30)).difference == -0.25


@pytest.mark.parametrize(
    ("engine", "ours"), [(NOTHING, NOTHING), (total(0.0, 9), total(1.0, 9)), (total(1, 9), NOTHING)]
)
def test_without_two_means_there_is_no_difference(engine: Total, ours: Total) -> None:
    assert compared(engine, ours).difference is None
