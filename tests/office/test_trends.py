from typing import Any

import pytest

from proxy.exporters.books import BooksExporter
from proxy.office.trends import trends
from proxy.records import Outcome, PrefixVerdict, RequestRecord, Usage
from tests.support.records import AT_S, record, timeline

S = 1_000_000_000


def used(model: str, after_s: float, *findings: str, for_s: float = 1, **changes: Any) -> RequestRecord:
    line = timeline(at_s=AT_S + after_s, total_ns=int(for_s * S), **changes.pop("line", {}))
    return record(model=model, findings=findings, timeline=line, **changes)


def refused(model: str, after_s: float, outcome: Outcome) -> RequestRecord:
    return used(model, after_s, outcome=outcome, line={"first_token_ns": None})


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


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(
            [
                used("a", 0, "cold_load", for_s=3),
                used("b", 0.2, "cold_load", for_s=6),
                used("a", 0.4, "cold_load", for_s=5.6),
                used("b", 0.6, "cold_load", for_s=5.6),
            ],
            id="of which both stay: who came meanwhile waited for the same load",
        ),
        *(
            pytest.param(
                [
                    refused("a", 0, outcome),
                    used("a", 2, "cold_load"),
                    refused("b", 4, outcome),
                    used("b", 6, "cold_load"),
                    refused("c", 8, outcome),
                    used("c", 10, "cold_load"),
                ],
                id=f"that were not used before: {outcome}",
            )
            for outcome in Outcome
            if outcome is not Outcome.COMPLETED
        ),
        pytest.param(
            [
                used("a", 0, route="read"),
                used("a", 2, "cold_load"),
                used("b", 4, route="read"),
                used("b", 6, "cold_load"),
                used("c", 8, route="manage"),
                used("c", 10, "cold_load"),
            ],
            id="of which somebody only read",
        ),
        pytest.param(
            [
                one
                for number, model in enumerate("ababab")
                for one in (
                    used(model, 10 * number, "cold_load"),
                    used(model, 10 * number + 5, line={"finish": "unload", "first_token_ns": None}),
                )
            ],
            id="that were told to go",
        ),
    ],
)
def test_no_model_was_pushed_out_of_those(records: list[RequestRecord]) -> None:
    assert trends(records) == {}


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(
            [used(model, 10 * number, "cold_load", for_s=15) for number, model in enumerate("ababab")],
            id="while the next waits already",
        ),
        pytest.param(
            [
                one
                for number, model in enumerate("ababab")
                for one in (
                    used(model, 10 * number, "cold_load", for_s=8),
                    used(model, 10 * number + 1, for_s=60),
                    used(model, 10 * number + 2, for_s=5),
                )
            ],
            id="while others of theirs are not over",
        ),
        pytest.param(
            [
                used(model, 10 * number, "cold_load", outcome=Outcome.CLIENT_GONE)
                for number, model in enumerate("ababab")
            ],
            id="whose clients left in the middle of their answers",
        ),
    ],
)
def test_models_are_pushed_out(records: list[RequestRecord]) -> None:
    assert trends(records) == trends(reversed(records)) == {"model_swaps": ["ollama"]}


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
