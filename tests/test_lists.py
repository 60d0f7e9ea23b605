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


def test_what_one_engine_says_of_the_whole_list_is_kept_from_the_first() -> None:
    assert merged({"object": "list", "data": []}, {"object": "other", "x": 1}) == {"object": "list", "data": [], "x": 1}
    assert merged() == {}


def test_a_list_that_is_too_deep_to_read_is_left_out() -> None:
    assert merge([b"[" * 100_000, b'{"data":[{"id":"a"}]}']) == b'{"data":[{"id":"a"}]}'
