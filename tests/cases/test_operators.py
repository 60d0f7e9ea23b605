"""Operators hold for what they say, and never for an unknown value."""

from typing import Any

import pytest

from tests.cases.operators import mismatch


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1.0),
        (12.5, 12.5000000001),
        ("a", "a"),
        (True, True),
        (None, None),
        ({"approx": 10, "tol": 2}, 12),
        ({"ge": 3}, 3),
        ({"le": 3}, 3),
        ({"between": [1, 2]}, 2),
        ({"any_of": [1, {"ge": 5}]}, 7),
        ({"any_of": [None, 1]}, None),
        ({"contains": ["b"], "lacks": ["x"], "starts_with": "a", "len": 2}, "ab"),
        ({"contains": ["one"]}, ["one", "two"]),
        ({"json": {"a": {"b": [1]}}}, '{"a":{"b":[1],"c":2},"d":3}'),
        ({"json": {"a": [{"b": 1}, 2]}}, '{"a":[{"b":1,"c":2},2]}'),
        ({"absent": True}, None),
        ({"present": True}, "x"),
    ],
)
def test_it_holds(expected: Any, actual: Any) -> None:
    assert mismatch(expected, actual) is None


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, True),
        (0, None),
        (0, False),
        ("", None),
        (None, 0),
        (1, "1"),
        ({"approx": 10, "tol": 2}, 13),
        ({"ge": 3}, 2),
        ({"between": [1, 2]}, None),
        ({"le": 3}, None),
        ({"lacks": ["a"]}, None),
        ({"len": 0}, None),
        ({"any_of": [1, 2]}, 3),
        ({"contains": ["b"], "lacks": ["a"]}, "ab"),
        ({"json": {"a": 1}}, "no json"),
        ({"json": {"a": {"b": 2}}}, '{"a":{"b":1}}'),
        ({"json": {"a": [{"b": 1}]}}, '{"a":[{"b":1},{"b":1}]}'),
        ({"json": {"a": [{"b": 1}]}}, '{"a":[{"c":1}]}'),
        ({"json": {"a": []}}, '{"a":{}}'),
        ({"absent": True}, ""),
        ({"present": True}, None),
    ],
)
def test_it_does_not_hold(expected: Any, actual: Any) -> None:
    assert mismatch(expected, actual) is not None


def test_a_bare_time_may_be_half_a_millisecond_off() -> None:
    assert mismatch(100, 100.5, 0.5) is None
    assert mismatch(100, 100.6, 0.5) is not None
    assert mismatch({"le": 100}, 100.4, 0.5) is not None
