import json

from proxy.lists import merge


def merged(*answers: object) -> object:
    return json.loads(merge(json.dumps(answer).encode() for answer in answers))


def test_lists_of_several_engines_become_one_in_order():
    first = {"object": "list", "data": [{"id": "a", "owned_by": "vllm"}, {"id": "b"}]}
    second = {"object": "list", "data": [{"id": "b", "owned_by": "sglang"}, {"id": "c"}]}
    assert merged(first, second) == {
        "object": "list",
        "data": [{"id": "a", "owned_by": "vllm"}, {"id": "b"}, {"id": "c"}],
    }


def test_both_shapes_are_known_at_once():
    llamacpp = {"models": [{"name": "x"}], "object": "list", "data": [{"id": "x"}]}
    assert merged(llamacpp, {"models": [{"name": "y"}]}) == {
        "models": [{"name": "x"}, {"name": "y"}],
        "object": "list",
        "data": [{"id": "x"}],
    }


def test_what_is_no_list_is_left_out():
    assert merged([1], "x", {"data": 3}, {"data": [3, {"id": None}, {"id": "a"}]}) == {"data": [{"id": "a"}]}
    assert merge([b"\xff", b"["]) == b"{}"
