import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.decoding import MOST, OBJECTS, PIECE, Shape, Unreadable, loads, loads_pairs, loads_short


class Inner(msgspec.Struct):
    name: str | None = None
    size: int = 0


class Outer(msgspec.Struct):
    inner: Inner | None = None
    many: list[Inner] | None = None
    word: str | None = None
    words: list[str] | None = None
    free: Any = None


OUTER = Shape(Outer)


def test_json_as_it_should_be():
    assert loads(b'{"a":[1,2.5,"x",null,true]}') == {"a": [1, 2.5, "x", None, True]}


@pytest.mark.parametrize(
    ("data", "value"),
    [
        pytest.param(b"[Infinity,-Infinity]", [float("inf"), float("-inf")], id="infinity"),
        pytest.param(b'"a\xff"', "a\ufffd", id="no UTF-8"),
        pytest.param(rb'"a\ud800"', "a?", id="lone surrogate"),
        pytest.param(b'"a\nb"', "a\nb", id="control character"),
        pytest.param(b"\xef\xbb\xbf1", 1, id="byte order mark"),
        pytest.param(b"1" + b"0" * 400, 10**400, id="huge number"),
        pytest.param(b"[" + b"1" * 5_000 + b"]", [float("inf")], id="more digits than anybody reads"),
        pytest.param(rb'["\ud800",-' + b"1" * 5_000 + b"]", ["?", float("-inf")], id="the same beside what is mended"),
    ],
)
def test_what_other_decoders_read_is_read(data, value):
    assert loads(data) == value


def test_what_is_mended_a_piece_at_a_time_is_the_same():
    text = "\u20ac" * PIECE  # three bytes each: pieces end within them
    assert loads(b'"' + text.encode() + b'\xff"') == text + "\ufffd"


def test_objects_are_shown_as_they_are_written():
    shown = []
    loads_pairs(
        b'\xef\xbb\xbf{"a":[{"b":NaN},{"c":' + b"1" * 5_000 + b'}],"a":"\xff"}', lambda pairs: shown.append(pairs)
    )
    assert [[name for name, _ in pairs] for pairs in shown] == [["b"], ["c"], ["a", "a"]]
    with pytest.raises(Unreadable):
        loads_pairs(b"{", dict)


def test_strings_are_valid_unicode():
    assert loads(rb'{"\udc00":"\ud800x"}') == {"?": "?x"}
    assert str(loads(b"[NaN]")) == "[nan]"


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"{", b"[DONE]", b"{'a':1}", b"[" * 200_000, b'{"a":' * 50_000, b"1" * 5_000 + b"x", b"\xff\xfe"],
)
def test_what_is_no_json_is_unreadable(data):
    with pytest.raises(Unreadable):
        loads(data)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"word": "a", "inner": {"name": "n", "size": 1}}, Outer(Inner("n", 1), word="a")),
        ({"word": 5, "inner": {"name": "n"}}, Outer(Inner("n"))),
        ({"inner": {"name": 5, "size": 3}}, Outer(Inner(None, 3))),
        ({"inner": [1]}, Outer()),
        ({"many": [{"name": "a"}, {"name": []}, 7, {"size": "x"}]}, Outer(many=[Inner("a"), Inner(), Inner()])),
        ({"many": {"name": "a"}}, Outer()),
        ({"words": ["a", 1]}, Outer()),
        ({"free": {"a": [1]}, "word": False}, Outer(free={"a": [1]})),
        (None, Outer()),
        ([1], Outer()),
        ("x", Outer()),
    ],
)
def test_members_of_an_odd_type_are_left_out(value, found):
    assert OUTER.read(json.dumps(value).encode()) == found
    assert OUTER.of(value) == found


def test_a_value_that_only_the_second_decoder_reads_keeps_its_other_members():
    assert OUTER.read(b'{"word":"a","free":NaN}').word == "a"
    with pytest.raises(Unreadable):
        OUTER.read(b"nope")


@given(st.binary(max_size=60))
def test_bytes_give_a_struct_or_are_unreadable(data):
    with contextlib.suppress(Unreadable):
        assert isinstance(OUTER.read(data), Outer)


def test_of_a_list_that_the_first_decoder_refuses_few_objects_are_looked_at():
    many = OUTER.read(json.dumps({"many": [{"name": 5}, 7, *[{"name": "a"}] * 1_000]}).encode()).many
    assert many == [Inner(), *[Inner("a")] * (MOST - 2)]


def test_a_list_is_read_as_its_objects_are():
    assert OUTER.several(b'[{"word":"a"},{}]') == [Outer(word="a"), Outer()]
    assert OUTER.several(b'[{"word":"a"},5,{"word":6},[],null,{"word":"b","free":NaN}]') == [
        Outer(word="a"), Outer(), Outer(word="b", free=pytest.approx(float("nan"), nan_ok=True)),
    ]  # fmt: skip
    assert OUTER.several(b'{"word":"a"}') == OUTER.several(b"5") == []
    for few in (b"{}", b'{"word":7}'):
        assert len(OUTER.several(b"[" + b",".join([few] * 1_000) + b"]")) == MOST
    for much in (b"[" + b"{}," * OBJECTS + b'"' + b" " * 40_000 + b'"]', b"nope", b'[{},"' + b'a","' * 100_000 + b'"]'):
        with pytest.raises(Unreadable):
            OUTER.several(much)


def test_plain_values_weigh_more_in_a_text_that_the_first_decoder_refuses():
    ids = b'"free":[' + b"151643," * 100_000 + b"1]"
    assert len(OUTER.read(b'{"word":"a",' + ids + b"}").free) == 100_001
    with pytest.raises(Unreadable):
        OUTER.read(b'{"word":5,' + ids + b"}")


def test_an_engines_text_of_very_many_objects_is_not_read():
    usual, much = (b'{"a":[' + b"{}," * count + b'"' + b" " * 40_000 + b'"]}' for count in (OBJECTS - 300, OBJECTS))
    assert len(loads_short(usual)["a"]) == OBJECTS - 299
    prompt, ids = (b'{"a":[' + b"151643," * count + b"1]}" for count in (131_071, 1_000_000))
    assert len(loads_short(prompt)["a"]) == 131_072
    assert loads(much)
    for read in (loads_short, Shape(Outer).read):
        for text in (much, ids):
            with pytest.raises(Unreadable):
                read(text)
