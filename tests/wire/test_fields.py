import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import fields

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("odd", [True, False, -1, 1.0, math.nan, math.inf, "3", None, [], {}, 10**30])
def test_what_is_no_count_is_unknown(odd):
    assert fields.count(odd) is None


@pytest.mark.parametrize(
    ("stated", "limit"),
    [
        ((999,), 999),
        ((999.0,), 999),
        ((999.9,), 999),
        (("999",), 999),
        ((" 9_99.0 ",), 999),
        ((5, 999), 999),
        ((None, "7", 5.0), 7),
        ((10**400, 1), 2**53),
        ((math.inf,), 2**53),
        (("1e999",), 2**53),
    ],
)
def test_an_output_limit_is_the_largest_number_that_an_engine_could_read(stated, limit):
    assert fields.output_limit(*stated) == limit


@pytest.mark.parametrize(
    "stated", [(), (None,), (True,), (-1,), ("-1", 5), (0,), (0, 5), (0.5,), (math.nan,), ("many",), ([9],), ({},)]
)
def test_what_limits_no_output_is_no_limit(stated):
    assert fields.output_limit(*stated) is None


def test_counts_are_whole_numbers_zero_included():
    assert [fields.count(0), fields.count(7)] == [0, 7]


@pytest.mark.parametrize("odd", [True, -0.1, -1, math.nan, math.inf, -math.inf, "3", None, [], {}, 10**400, 1e300])
def test_what_is_no_duration_is_unknown(odd):
    assert fields.duration_ns(odd, fields.NS_PER_MS) is None


def test_durations_come_in_nanoseconds():
    assert fields.duration_ns(11.568, fields.NS_PER_MS) == 11_568_000
    assert fields.duration_ns(2, fields.NS_PER_S) == 2_000_000_000
    assert fields.duration_ns(4883583458, 1) == 4_883_583_458
    assert fields.duration_ns(0, 1) == 0


def test_two_stamps_give_a_duration_unless_they_run_backwards():
    assert fields.between_ns(1795962579.25, 1795962579.5) == 250_000_000
    assert fields.between_ns(2.0, 1.0) is None
    assert fields.between_ns(None, 1.0) is None
    assert fields.between_ns(1.0, "2") is None


@given(JSON)
def test_nothing_raises_and_nothing_has_an_odd_type(value):
    assert fields.count(value) is None or fields.count(value) >= 0
    assert fields.duration_ns(value, 10**9) is None or fields.duration_ns(value, 10**9) >= 0
    assert fields.string(value) is None or fields.text(value) == value
    assert isinstance(fields.text(value), str)
    assert isinstance(fields.mapping(value), dict)
    assert isinstance(fields.items(value), list)
    assert all(isinstance(each, dict) for each in fields.objects(value))
    assert fields.flag(value) in (None, True, False)
