import msgspec
import pytest

from proxy.exporters.carry import dump, load
from proxy.exporters.prometheus import Exposition
from proxy.exporters.series import Series
from proxy.messages import EngineState, Pulse
from proxy.records import Outcome, TokenCount
from tests.support.records import record


def shown(series: Series) -> bytes:
    return Exposition(series, lambda: Pulse(at_s=0.0), dict, {}).render()[0]


def counted() -> Series:
    series = Series()
    series.export(record(counted=TokenCount(603, "exact", 603, 603, 590), tenant="t"))
    series.export(record(model="other one", outcome=Outcome.SHED))
    series.pulse(Pulse(at_s=0.0, lag_ns=(5,)))
    return series


def test_the_next_one_counts_on() -> None:
    first, second = counted(), Series()
    assert load(second, dump(first, {"records": 2})) == {"records": 2}
    assert shown(second) == shown(first)
    for series in (first, second):
        series.export(record(outcome=Outcome.ENGINE_ERROR))
    assert shown(second) == shown(first)


@pytest.mark.parametrize(("engines", "models"), [(2, 8), (3, 10), (8, 8), (30, 1), (1, 45)])
def test_what_is_shown_is_the_same_however_full_the_budget_is_and_goes_on_the_same(engines: int, models: int) -> None:
    def export(series: Series, *, listed: int, outcome: Outcome) -> None:
        names = tuple(f"m{number}" for number in range(listed))
        series.pulse(Pulse(at_s=0.0, engines=(EngineState(name="e0", models=names),)))
        for number in range(engines * models):
            engine, model = f"e{number % engines}", f"m{number // engines}"
            tenant, done = f"t{number}", Outcome.COMPLETED if number % 2 else outcome
            series.export(record(engine=engine, model=model, tenant=tenant, outcome=done))

    first, second = Series(), Series()
    export(first, listed=models // 2, outcome=Outcome.SHED)
    load(second, dump(first, {}))
    assert shown(second) == shown(first)
    for series in (first, second):
        export(series, listed=models, outcome=Outcome.CLIENT_GONE)
    assert shown(second) == shown(first)


def test_what_another_version_wrote_is_left_out() -> None:
    state = msgspec.msgpack.decode(dump(counted(), {}))
    state["counters"]["gone"] = [[["x"], 1.0, False]]
    state["counters"]["requests"].append([["too", "few"], 1.0, False])
    state["histograms"]["ttft"].append([["a", "b"], [1, 2], 3.0, False])
    state["histograms"]["itl"].append([["a"], [0] * 17, 3.0, True])
    series = Series()
    load(series, msgspec.msgpack.encode(state))
    assert shown(series) == shown(counted())
    load(series, b"no msgpack at all")
    assert shown(series) == shown(counted())
