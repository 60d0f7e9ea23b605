"""Of a body that is too long to be held the figures at its ends are read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.abridging import EDGE, Ends

USAGE = {"prompt_tokens": 600, "total_tokens": 600}
LONG = [{"index": k, "embedding": [0.25, -1e-7] * 500} for k in range(40)]


def abridged(body: bytes, size: int = 65_536) -> bytes | None:
    ends = Ends()
    for at in range(0, len(body), size):
        ends.feed(body[at : at + size])
    return ends.abridged()


@pytest.mark.parametrize("indent", [None, 2], ids=["tight", "pretty"])
@pytest.mark.parametrize("size", [1_000, 65_536, 10**9])
@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ({"object": "list", "data": LONG, "model": 'm,"{', "usage": USAGE}, ("object", "model", "usage")),
        ({"model": "m", "usage": USAGE, "data": LONG}, ("model", "usage")),
        ({"embeddings": LONG, "total_duration": 5, "prompt_eval_count": 600}, ("total_duration", "prompt_eval_count")),
        ({"choices": [{"text": 'say ,"usage":{} ' * 4_000}], "usage": USAGE}, ("usage",)),
    ],
    ids=["openai", "llamacpp", "ollama", "text that looks like members"],
)
def test_members_before_and_behind_the_long_part_are_kept(body, kept, size, indent):
    assert json.loads(abridged(json.dumps(body, indent=indent).encode() + b"\n", size)) == {
        name: body[name] for name in kept
    }


@pytest.mark.parametrize(
    "body", [b"RIFF" + b'\x00,"' * 20_000, b"[" + b"1," * 40_000 + b"1]", b'{"data":"' + b"x" * 90_000, b"{" * 90_000]
)
def test_what_is_no_whole_object_gives_nothing(body):
    assert abridged(body) is None


@given(st.dictionaries(st.text(max_size=4), st.none() | st.integers() | st.text() | st.lists(st.text()), max_size=6))
def test_what_is_kept_stands_so_in_the_body(members):
    behind = {f"{name}'": value for name, value in members.items()}
    body = {**members, "the long part": "y" * (3 * EDGE), **behind}
    kept = json.loads(abridged(json.dumps(body).encode()) or b"{}")
    assert all(body[name] == value for name, value in kept.items())
    assert "the long part" not in kept
    assert members.keys() <= kept.keys(), "what stands before it is whole"


def test_a_number_that_is_cut_is_not_taken_for_a_smaller_one():
    for shift in range(12):
        before = b'{"a":"' + b"x" * (EDGE - 20 + shift) + b'","b":123456,"c":['
        assert json.loads(abridged(before + b"0," * 40_000 + b"0]}") or b"{}").get("b", 123456) == 123456
