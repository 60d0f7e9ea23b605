"""The series as bytes: what one office has counted, carried over to the next, and what is lost if there is a next.

A counter that falls back to zero is lawful in Prometheus, but what was counted between two scrapes is gone. Exemplars
are not carried: they are examples.
"""

from collections.abc import Mapping

import msgspec

from proxy.exporters.histogram import Histogram, Labels
from proxy.exporters.series import Series


class _Counted(msgspec.Struct, array_like=True):
    labels: Labels
    total: float
    free: bool = False


class _Spread(msgspec.Struct, array_like=True):
    labels: Labels
    counts: list[int]
    total: float
    free: bool = False


class _State(msgspec.Struct):
    counters: dict[str, list[_Counted]]
    histograms: dict[str, list[_Spread]]
    models: list[str]
    tenants: list[str]
    owed: dict[str, int] = {}


def dump(series: Series, owed: Mapping[str, int]) -> bytes:
    """Everything counted so far, and by exporter the records that it has lost or would lose now: some 50 us, and 30 kB
    with a thousand series."""
    counters = {
        name: [_Counted(labels, total, family.free(labels)) for labels, total in family]
        for name, family in series.counters.items()
    }
    histograms = {
        name: [_Spread(labels, spread.counts, spread.total, family.free(labels)) for labels, spread in family]
        for name, family in series.histograms()
    }
    names = series.models.granted(), series.tenants.granted()
    return msgspec.msgpack.encode(_State(counters, histograms, *names, dict(owed)))


def load(series: Series, data: bytes) -> Mapping[str, int]:
    """Counts on from there; by exporter the records lost until now. What does not fit (another version wrote it) is
    left out; a fresh `series` is expected."""
    try:
        state = msgspec.msgpack.decode(data, type=_State)
    except msgspec.DecodeError:
        return {}
    series.models.grant(state.models)
    series.tenants.grant(state.tenants)
    for name, counted in state.counters.items():
        for one in counted:
            if name in series.counters and len(one.labels) == len(series.counters[name].names):
                series.counters[name].put_back(one.labels, one.total, one.free)
    for name, family in series.histograms():
        for spread in state.histograms.get(name, ()):
            if len(spread.labels) == len(family.names) and len(spread.counts) == len(family.edges) + 1:
                family.put_back(spread.labels, Histogram(spread.counts, spread.total), spread.free)
    return state.owed
