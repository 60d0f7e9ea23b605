"""Prometheus text is read as Prometheus reads it."""

import pytest

from tests.cases.exposition import parse, quantile

TEXT = """# HELP a_total things
# TYPE a_total counter
a_total{model="m1",outcome="completed"} 2.0
a_total{model="m\\"2",outcome="shed"} 3 1700000000
b_seconds_bucket{le="0.1"} 1 # {request_id="x"} 0.05
b_seconds_bucket{le="1.0"} 3
b_seconds_bucket{le="+Inf"} 4
b_seconds_count 4
bad{x="1"} NaN
worse -1
"""


def test_totals_are_over_all_labels_but_the_named() -> None:
    assert (parse(TEXT).total("a_total"), parse(TEXT).total("a_total", outcome="shed")) == (5, 3)


def test_labels_are_unescaped_and_counted() -> None:
    assert parse(TEXT).label_values("model") == {"m1", 'm"2'}


NAMES = ["a} 5", "b\u2028c\x85", "d\\n", 'e"\n', '{"f": 1}']


def test_a_label_may_hold_braces_quotes_and_what_other_texts_take_for_a_line_end() -> None:
    escaped = (name.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for name in NAMES)
    found = parse("".join(f'a_total{{model="{name}"}} 2\n' for name in escaped))
    assert found.label_values("model") == set(NAMES)
    assert found.total("a_total") == 2 * len(NAMES)


def test_what_no_exposition_should_have_is_named() -> None:
    assert parse(TEXT).faults() == ["sample bad{'x': '1'} is nan", "sample worse{} is -1.0"]


@pytest.mark.parametrize(("q", "value"), [(0.25, 0.1), (0.5, 0.55), (0.99, 1.0)])
def test_quantiles_are_linear_within_a_bucket_and_end_at_the_last_finite_edge(q: float, value: float) -> None:
    assert quantile(q, parse(TEXT).buckets("b_seconds")) == pytest.approx(value)


def test_no_sample_has_no_quantile() -> None:
    assert quantile(0.5, {}) is None
