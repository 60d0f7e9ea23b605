import pytest

from proxy.exporters.books import BooksExporter
from proxy.office.trends import trends
from proxy.records import Outcome, PrefixVerdict, RequestRecord, Usage
from tests.support.records import AT_S, record, timeline


def used(model: str, after_s: float, *findings: str, engine: str = "ollama") -> RequestRecord:
    return record(model=model, findings=findings, engine=engine, timeline=timeline(at_s=AT_S + after_s))


def loads(*models: str, every_s: float = 30) -> list[RequestRecord]:
    return [used(model, number * every_s, "cold_load") for number, model in enumerate(models)]


@pytest.mark.parametrize(
    ("records", "swaps"),
    [
        pytest.param(loads("a", "b", "a", "b", "a"), True, id="two models in turn"),
        pytest.param(loads("a", "b", "c", "a", "b"), True, id="three models in turn"),
        pytest.param(loads("a", "b", "a"), False, id="once may be chance"),
        pytest.param(loads("a", "b", "c", "d"), False, id="each for the first time"),
        pytest.param(loads("a", "a", "a", "a"), False, id="one model with other options"),
        pytest.param(loads("a", "A:latest", "a", "library/a"), False, id="one model by other names"),
        pytest.param(loads("a", "b", "a", "b", "a", every_s=301), False, id="unloaded for want of use"),
        pytest.param([used("a", 0), used("b", 1), used("a", 2), used("b", 3)], False, id="both stay in memory"),
    ],
)
def test_loads_alternate_when_a_model_used_just_now_had_to_go(records: list[RequestRecord], swaps: bool) -> None:
    assert ("model_swaps" in trends(records)) is swaps
    assert trends(reversed(records)) == trends(records)


def test_engines_are_looked_at_apart() -> None:
    both = [used(model, second, "cold_load", engine=model) for second, model in enumerate("ababab")]
    assert trends(both) == {}
    assert trends([*both, *loads("a", "b", "a", "b", "a")]) == {"model_swaps": ["ollama"]}


def reusing(cached: int | None, expected: int | None = 560, **changes: object) -> RequestRecord:
    return record(prefix=PrefixVerdict(16, 570, expected), usage=Usage(570, 1, cached), **changes)


@pytest.mark.parametrize(
    ("records", "without"),
    [
        pytest.param([reusing(0)] * 10, True, id="none reused"),
        pytest.param([reusing(0)] * 9, False, id="too few"),
        pytest.param([reusing(0)] * 10 + [reusing(560)], False, id="one reused"),
        pytest.param([reusing(0)] * 10 + [reusing(8, 15)], False, id="one reused that could not have been"),
        pytest.param([reusing(None)] * 20, False, id="not said"),
        pytest.param([reusing(0, 15)] * 20, False, id="less than a block to reuse"),
        pytest.param([reusing(0, None)] * 20, False, id="nothing expected"),
        pytest.param([reusing(0, outcome=Outcome.ENGINE_ERROR)] * 20, False, id="failures"),
        pytest.param([record(), record(prefix=PrefixVerdict(16, 570, 560), usage=None)] * 20, False, id="not audited"),
    ],
)
def test_a_cache_without_effect(records: list[RequestRecord], without: bool) -> None:
    assert ("cache_no_effect" in trends(records)) is without


@pytest.mark.parametrize("hits", [0, 560, 570])
@pytest.mark.parametrize("requests", [1, 9, 10, 30])
def test_a_finding_of_the_cache_and_the_verdict_of_its_books_agree(requests: int, hits: int) -> None:
    settled = PrefixVerdict(16, 570, 560, infinite=560, bins=(("hit", hits), ("compulsory", 570 - hits)), reported=hits)
    records = [record(prefix=settled, usage=Usage(570, 1, hits)) for _ in range(requests)]
    books = BooksExporter()
    for one in records:
        books.export(one)
    (row,) = books.report()["engines"]
    assert ("cache_no_effect" in trends(records)) is (row["verdict"] == "no_effect")
