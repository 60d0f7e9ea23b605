import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.wire.splicing import _string_end, find, members, splice
from tests.wire.test_fields import JSON

PATH = ("stream_options", "include_usage")


@pytest.mark.parametrize(
    ("text", "spliced"),
    [
        pytest.param('{"a":1}', '{"stream_options":{"include_usage":true},"a":1}', id="absent"),
        pytest.param("{}", '{"stream_options":{"include_usage":true}}', id="empty object"),
        pytest.param(" {\n } \n", ' {"stream_options":{"include_usage":true}\n } \n', id="empty with space"),
        pytest.param('\t{ "a" : 1 }', '\t{"stream_options":{"include_usage":true}, "a" : 1 }', id="white space stays"),
        pytest.param('{"stream_options":{}}', '{"stream_options":{"include_usage":true}}', id="empty options"),
        pytest.param('{"stream_options": null}', '{"stream_options": {"include_usage":true}}', id="null"),
        pytest.param(
            '{"stream_options" : { "x":[1, {"y":"}"}] }, "b":2}',
            '{"stream_options" : {"include_usage":true, "x":[1, {"y":"}"}] }, "b":2}',
            id="other options",
        ),
        pytest.param(
            '{"stream_options":{"include_usage":false}}', '{"stream_options":{"include_usage":true}}', id="replaced"
        ),
        pytest.param(
            r'{"m":"\"stream_options\":{}\\","a":[{"stream_options":1}]}',
            r'{"stream_options":{"include_usage":true},"m":"\"stream_options\":{}\\","a":[{"stream_options":1}]}',
            id="only the top level counts",
        ),
        pytest.param(
            r'{"stream\u005foptions":null}', r'{"stream\u005foptions":{"include_usage":true}}', id="escaped name"
        ),
    ],
)
def test_one_member_is_set_and_all_other_bytes_stay(text, spliced):
    assert splice(text.encode(), PATH, b"true") == spliced.encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"stream_options":5}',
        '{"stream_options":[]}',
        '{"stream_options":null,"stream_options":{}}',
        '{"stream_options":{"include_usage":1,"include_usage":2}}',
        '{"stream_options":{',
        '{"stream_options":"',
        '{"stream_options"',
        '{"stream_options" 1}',
        '{"stream_options":}',
        '{"stream_options":1 2}',
        "{stream_options:1}",
        '{"stream_options":{}',
        '{"a":1,stream_options}',
    ],
)
def test_what_is_not_plain_is_left_alone(text):
    assert splice(text.encode(), PATH, b"true") is None


def test_a_member_is_found_by_its_path():
    text = b'{"a": {"b": [1, 2], "c": "x"}, "d": 1.5e3}'
    assert find(text, ("a", "b")) == b"[1, 2]"
    assert find(text, ("d",)) == b"1.5e3"
    assert find(text, ("a", "z")) is None
    assert find(text, ("d", "z")) is None
    assert find(b"no", ("a",)) is None


def test_one_level_is_enough():
    assert splice(b'{"max_tokens": 900,"n":1}', ("max_tokens",), b"64") == b'{"max_tokens": 64,"n":1}'
    assert splice(b'{"n":1}', ("return_token_ids",), b"true") == b'{"return_token_ids":true,"n":1}'


SPACES = st.sampled_from([None, 0, 2, "\t"])


@given(
    st.dictionaries(st.text(max_size=4) | st.sampled_from(["p", "q", "\\", '"']), JSON, max_size=5),
    SPACES,
    st.booleans(),
)
def test_decoders_see_the_same_object_with_one_member_set(body, indent, ascii_only):
    text = json.dumps(body, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    spliced = splice(text, ("p",), b"[7]")
    assert spliced is not None
    before = json.loads(text) | {"p": [7]}
    assert json.dumps(json.loads(spliced), sort_keys=True) == json.dumps(before, sort_keys=True)
    if "p" not in body:
        head, put, tail = spliced.partition(b'"p":[7],' if body else b'"p":[7]')
        assert put
        assert head + tail == text


@given(st.lists(st.sampled_from([*'{}[]":,\\p1 \n', '"p":', "true", '{"p":1', "{}"]), max_size=20).map("".join))
@example('{"p":[1]}')
@example("{ }")
def test_no_text_raises_and_what_is_changed_is_one_member(text):
    spliced, held = splice(text.encode(), ("p",), b"1"), find(text.encode(), ("p",))
    head, brace, rest = text.partition("{")
    comma = "" if rest.lstrip().startswith("}") else ","
    if spliced is not None and held is not None:
        assert (find(spliced, ("p",)), splice(spliced, ("p",), held)) == (b"1", text.encode())
    elif spliced is not None:
        assert spliced.decode() == f'{head}{brace}"p":1{comma}{rest}'


def test_members_come_in_order_with_their_places():
    text = b' {"a": [1], "b":"x"} '
    assert [(member.name, text[member.start : member.end]) for member in members(text)] == [
        ("a", b"[1]"),
        ("b", b'"x"'),
    ]
    assert list(members(b" { } ")) == []


def end_of_string(text, at):
    """Byte by byte; None where it is open."""
    at += 1
    while at < len(text):
        if text[at] == ord('"'):
            return at + 1
        at += 2 if text[at] == ord("\\") else 1
    return None


@given(st.text(alphabet='"\\a \n', max_size=4), st.text(alphabet='"\\a \n', max_size=12))
def test_a_string_ends_at_the_first_quote_that_no_escape_is_for(before, behind):
    text, at = f'{before}"{behind}'.encode(), len(before)
    end = end_of_string(text, at)
    if end is None:
        with pytest.raises(ValueError, match="an open string"):
            _string_end(text, at)
    else:
        assert _string_end(text, at) == end


def test_a_text_of_nothing_but_escapes_is_gone_through_once():
    text = b'{"m":"' + rb"\"" * 1_000_000 + b'","stream_options":null}'
    assert splice(text, PATH, b"true") == text.replace(b"null", b'{"include_usage":true}')
    assert splice(text.replace(b'","', b","), PATH, b"true") is None
