import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.values import (
    CROWD,
    ENTRIES_LIMIT,
    NAME_LIMIT,
    PLAIN,
    WHOLE_LIMIT,
    entries,
    members,
    parsed,
    positive,
    share,
    whole,
    word,
)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 5_000], ids=["", "{", "ff", "deep", "long"]
)
def test_what_is_no_json_is_nothing(body: bytes) -> None:
    assert parsed(body) is None


@pytest.mark.parametrize("one", [b"{}", b"[]", b'{"id": "a"}'], ids=["objects", "lists", "entries"])
def test_a_crowd_is_not_read(one: bytes) -> None:
    assert len(parsed(b"[" + b",".join([one] * 20_000) + b"]")) == 20_000
    assert parsed(b"[" + b",".join([one] * (CROWD + 1)) + b"]") is None
    assert parsed(b"[" + b",".join([b"1"] * (CROWD * PLAIN + PLAIN)) + b"]") is None


@given(st.binary())
def test_any_bytes_can_be_parsed(body: bytes) -> None:
    parsed(body)


def test_of_a_list_only_objects_count_and_not_without_end() -> None:
    assert entries([{"a": 1}, 2, None, [{}], {}]) == [{"a": 1}, {}]
    assert len(entries([{}] * (ENTRIES_LIMIT + 1))) == ENTRIES_LIMIT
    assert entries({"a": {}}) == entries("abc") == entries(None) == []


def test_an_object_has_members_and_nothing_else_has() -> None:
    assert members({"a": 1}) == {"a": 1}
    assert members([("a", 1)]) == members("a") == members(None) == {}


def test_a_word_is_short_and_can_be_written_anywhere() -> None:
    assert word("m" * (NAME_LIMIT + 1)) == "m" * NAME_LIMIT
    half = word(json.loads('"a\\ud800"'))
    assert half is not None
    assert half.encode() == b"a?"
    assert (word(""), word("", "any"), word(3), word(None, "any")) == (None, "any", None, None)


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0), (7, 7), (WHOLE_LIMIT - 1, WHOLE_LIMIT - 1)]
    + [(value, None) for value in (-1, WHOLE_LIMIT, 10**400, True, 1.0, float("nan"), "7", None, [7])],
)
def test_a_number_of_things_is_whole_and_not_below_zero(value: object, number: int | None) -> None:
    assert whole(value) == number
    assert positive(value) == (number or None)


@pytest.mark.parametrize(
    ("value", "part"),
    [(0, 0.0), (0.25, 0.25), (1, 1.0), (1.01, 1.0)]
    + [(value, None) for value in (-0.1, float("nan"), float("inf"), True, "0.5", None)],
)
def test_a_share_is_of_one(value: object, part: float | None) -> None:
    assert share(value) == part
