import json

import pytest

from proxy.engines.lists import merge


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


@pytest.mark.parametrize("long", [b"[" * 100_000, b'{"data":[' + b"[]," * 100_000 + b"[]]}"], ids=["deep", "crowded"])
def test_a_list_that_takes_too_long_to_read_is_left_out(long: bytes) -> None:
    assert merge([long, b'{"data":[{"id":"a"}]}']) == b'{"data":[{"id":"a"}]}'
