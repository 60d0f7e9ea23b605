import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.cutting import MOST, NAMES, cut, read
from proxy.wire.decoding import OBJECTS
from tests.wire.test_fields import JSON


def cuts(text: bytes, *names: str, whole: bool = False) -> bytes:
    body = read(text)
    assert body is not None
    return cut(text, body, names or NAMES, whole=whole)


@pytest.mark.parametrize(
    ("text", "nulled", "gone"),
    [
        pytest.param(
            b'{"choices":[{"index":0,"token_ids":[1,2]}],"prompt_token_ids":[3,4],"x":null}',
            b'{"choices":[{"index":0,"token_ids":null}],"prompt_token_ids":null,"x":null}',
            b'{"choices":[{"index":0}],"x":null}',
            id="at the top and in a choice",
        ),
        pytest.param(
            b'{ "choices" : [ {"token_ids": [1, 2], "text":"a"} ] }',
            b'{ "choices" : [ {"token_ids": null, "text":"a"} ] }',
            b'{ "choices" : [ { "text":"a"} ] }',
            id="first, and with spaces",
        ),
        pytest.param(
            b'{"choices":[{"token_ids":[7]},{"token_ids":[7]},{"token_ids":[8]}]}',
            b'{"choices":[{"token_ids":null},{"token_ids":null},{"token_ids":null}]}',
            b'{"choices":[{},{},{}]}',
            id="several choices, two of them alike",
        ),
        pytest.param(
            b'{"choices":[{"index":0,"meta_info":{"id":"a","x":[{"y":"}"}]}}]}',
            b'{"choices":[{"index":0,"meta_info":null}]}',
            b'{"choices":[{"index":0}]}',
            id="an object",
        ),
        pytest.param(
            b'{"choices":[{"text":"a", "token_ids": []}]}',
            b'{"choices":[{"text":"a", "token_ids": null}]}',
            b'{"choices":[{"text":"a"}]}',
            id="an empty list, after a comma and a space",
        ),
        pytest.param(
            b'{"prompt_token_ids":  [1], "choices":[{"token_ids":[1]} , {"x":1 , "token_ids":\t[1] }]}',
            b'{"prompt_token_ids":  null, "choices":[{"token_ids":null} , {"x":1 , "token_ids":\tnull }]}',
            b'{ "choices":[{} , {"x":1  }]}',
            id="at the top first, and spelt in several ways",
        ),
        pytest.param(
            b'{"choices":[{"text":"token_ids","x":"\\"token_ids\\":[1]","token_ids":[1]}]}',
            b'{"choices":[{"text":"token_ids","x":"\\"token_ids\\":[1]","token_ids":null}]}',
            b'{"choices":[{"text":"token_ids","x":"\\"token_ids\\":[1]"}]}',
            id="strings that hold the name stay",
        ),
    ],
)
def test_a_member_is_cut_and_all_other_bytes_stay(text, nulled, gone):
    assert cuts(text) == nulled
    assert cuts(text, whole=True) == gone


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"choices":[{"token_ids":null}],"prompt_token_ids":null}', id="null already"),
        pytest.param(b'{"choices":[{"index":0}]}', id="not there"),
        pytest.param(b'{"choices":[{"token_ids":[1],"token_ids":[2]}]}', id="twice in one object"),
        pytest.param(b'{"choices":[{"token_ids":[1],"x":{"token_ids":[2]}}]}', id="at another place too"),
        pytest.param(b'{"choices":[{"token\\u005fids":[1]}]}', id="an escaped name"),
        pytest.param(
            b'{"choices":[{"x":{"token_ids":[2]},"token\\u005fids":[1]}]}', id="an escaped name beside another"
        ),
        pytest.param(b'{"choices":[{"token_ids" :[1]}]}', id="a space before the colon"),
        pytest.param(b'{"choices":[{"token_ids":[1]}],"token_ids":[1]}', id="at the top, where it cannot be"),
        pytest.param(
            b'{"choices":[{"prompt_token_ids":[1]},{"prompt_token_ids":[2]}],"x":{"prompt_token_ids":[3]}}',
            id="and deeper",
        ),
        pytest.param(
            b'{"choices":[' + b",".join([b'{"token_ids":[1]}'] * (MOST + 1)) + b"]}", id="more than anyone asks"
        ),
        pytest.param(b'{"delta":{"token_ids":[1]}}', id="elsewhere alone"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_where_it_is_not_plain_nothing_is_cut(text, whole):
    assert cuts(text, whole=whole) == text


def test_two_that_stand_alone_side_by_side_stay_where_they_would_have_to_go():
    text = b'{"choices":[{"token_ids":[1],"prompt_token_ids":[2],"x":1}]}'
    assert cuts(text, whole=True) == text
    assert cuts(text) == b'{"choices":[{"token_ids":null,"prompt_token_ids":null,"x":1}]}'


def test_only_the_named_members_are_cut():
    text = b'{"choices":[{"token_ids":[1],"meta_info":{}}]}'
    assert cuts(text, "meta_info", whole=True) == b'{"choices":[{"token_ids":[1]}]}'


def test_a_text_of_very_many_objects_is_not_read():
    text = b'{"choices":[{"token_ids":[1]}],"x":[' + b",".join([b"{}   "] * OBJECTS) + b"]}"
    assert read(text) is None
    assert read(text.replace(b"{}", b"[]")) is not None


@pytest.mark.parametrize("text", [b"", b"[1]", b'{"choices":5}', b'{"choices":[', b'{"choices":[{"token_ids":nope}]}'])
def test_what_is_no_answer_is_not_read(text):
    assert read(text) is None


CHOICE = st.fixed_dictionaries(
    {"index": st.integers(0, 9)},
    optional={
        "text": st.text() | st.sampled_from(['"token_ids":[1]', "token_ids"]),
        "token_ids": st.none() | st.lists(st.integers(0, 3), max_size=3),
        "prompt_token_ids": st.none() | st.lists(st.integers(0, 3), max_size=3),
        "finish_reason": st.none() | st.text(max_size=3),
        "extra": JSON,
    },
)


@given(st.lists(CHOICE, max_size=3), st.booleans(), st.sampled_from([None, (",", ":")]), st.booleans())
def test_decoders_see_the_same_answer_but_for_what_is_cut(choices, ascii_only, separators, whole):
    body = {"id": "x", "choices": choices, "usage": None}
    text = json.dumps(body, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "surrogatepass")
    if read(text) is None:
        return
    short = cuts(text, "token_ids", "prompt_token_ids", whole=whole)
    if short == text:
        return
    for choice in choices:
        for name in ("token_ids", "prompt_token_ids"):
            if choice.get(name) is not None:
                choice[name] = None
                if whole:
                    del choice[name]
    assert json.loads(short) == json.loads(json.dumps(body))


@given(st.text(alphabet='{}[]":,\\token_ids 1null', max_size=60))
def test_no_text_raises(text):
    body = read(text.encode())
    assert body is None or isinstance(cut(text.encode(), body, NAMES, whole=False), bytes)


def test_a_long_prompts_ids_are_cut_in_one_piece():
    ids = b"[" + b",".join(b"%d" % (7919 * at % 150_000) for at in range(100_000)) + b"]"
    text = b'{"choices":[{"index":0}],"prompt_token_ids":' + ids + b"}"
    assert cuts(text) == b'{"choices":[{"index":0}],"prompt_token_ids":null}'
