import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.ambiguity import doubled, respelt
from proxy.wire.decoding import Unreadable
from tests.wire.test_fields import JSON


@pytest.mark.parametrize(
    ("asked", "outside", "inside"),
    [
        pytest.param({"model": "m", "Messages": []}, "messages", "messages", id="a member"),
        pytest.param({"me\u017f\u017fages": []}, "messages", "messages", id="another alphabet's s"),
        pytest.param({"Max_Output_To\u212aens": 9}, "max_output_tokens", "max_output_tokens", id="the kelvin sign"),
        pytest.param({"messages": [{"Content": "hi"}]}, "content", "content", id="a message's"),
        pytest.param({"messages": [{"content": [{"Text": "hi"}]}]}, None, "text", id="a part's"),
        pytest.param({"messages": [{"tool_calls": [{"Function": {}}]}]}, None, "function", id="a call's"),
        pytest.param({"messages": [{"tool_calls": [{"function": {"Name": "f"}}]}]}, None, "name", id="a function's"),
        pytest.param({"input": [{"role": "user", "Content": "hi"}]}, None, "content", id="an item's of Responses"),
        pytest.param({"input": [{"content": [{"TEXT": "hi"}]}]}, None, "text", id="a part's of Responses"),
        pytest.param({"Metadata": {"Model": 1}, "Name": "x", "Text": "x"}, None, None, id="names of no weight"),
        pytest.param({"tools": [{"Function": {"Name": 1}}]}, None, None, id="tools are the client's own"),
        pytest.param(
            {"messages": [{"tool_calls": [{"function": {"name": "f", "arguments": {"Text": 1}}}]}]}, None, None,
            id="arguments are the client's own",
        ),
        pytest.param({"messages": "hi", "input": "hi"}, None, None, id="no messages"),
    ],
)  # fmt: skip
def test_a_name_in_other_letters_is_found_where_engines_read_it(
    asked: dict[str, object], outside: str | None, inside: str | None
) -> None:
    assert respelt(asked) == outside
    assert respelt(asked, inside=True) == inside


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b'{"options":{"num_predict":9},"options":{}}', "options"),
        (b' { "options" : 1 , "x" : [ ] , "options"\n:\t2 } ', "options"),
        (rb'{"option\u0073":1,"options":2}', "options"),
        (b'{"options":{"num_predict":1,"num_predict":2}}', ""),
        (b'{"messages":[{"role":"user","content":"a"},{"content":"b","role":"user","content":null}]}', "content"),
        (rb'{"a\"b":1,"a\"b":2}', ""),
        (rb'{"a\\":1,"b":{},"a\\":2}', ""),
        (b'{"\xff":1,"x\\n\xff":1,"\xff":1}', ""),
        (rb'{"a":"\\\\\\\"\",\"a\":\"","b":"a","c":["a","a:"]}', None),
        (b'[{"a":1},{"a":1},{"b":{"a":1},"a":1}]', None),
        (b'{"a":{"b":1},"b":{"a":1},"c":"}{]["}', None),
        (b"{}", None),
        (b"7", None),
    ],
)
def test_a_member_that_stands_twice_in_one_object_is_found(text: bytes, name: str | None) -> None:
    assert doubled(text) == name


@pytest.mark.parametrize("text", [b"", b"{", b'{"a":' * 50_000, b'"a":1'])
def test_what_is_no_json_is_unreadable(text: bytes) -> None:
    with pytest.raises(Unreadable):
        doubled(text)


@given(JSON, st.booleans(), st.sampled_from([None, 1]))
def test_what_has_no_name_twice_is_left_alone(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    assert doubled(text) is None


@given(st.dictionaries(st.text(max_size=4), JSON, min_size=1, max_size=4), st.data())
def test_whatever_is_put_in_twice_is_found(body: dict[str, object], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(body)))
    inner = json.dumps(body, ensure_ascii=data.draw(st.booleans()))
    text = f'{{"x": 1, "outer": [{{{json.dumps(name)}: 7, {inner[1:]}]}}'
    assert json.loads(text)["outer"][0].keys() == body.keys()
    assert doubled(text.encode("utf-8", "surrogatepass")) is not None
