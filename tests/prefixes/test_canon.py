import json
from pathlib import Path

import pytest

from proxy.prefixes.canon import MARKERS, Segment, render, text_of
from proxy.prefixes.chains import Chains, pack
from proxy.records import Message, Part, Prompt
from proxy.tokens.vocabularies import load
from tests.prefixes.prompts import chat, prompt_of

VECTORS = json.loads((Path(__file__).parent / "golden" / "canon_vectors.json").read_text())
"""Rendered prompts of the public prefix-cache benchmark, with tokens of cl100k_base."""


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_prompt_is_rendered_to_exactly_these_segments_and_tokens(vector):
    segments = render(prompt_of(vector["path"], vector["body"]))
    chains = Chains(load("cl100k_base").encode_ordinary)
    assert [["sp" if segment.marker else "tx", segment.text] for segment in segments] == vector["segments"]
    assert text_of(segments) == vector["text"]
    assert chains.packed(segments) == pack(vector["tokens"])


def test_a_segment_knows_its_message_and_whose_content_it_is():
    segments = render(chat(("system", "Be brief."), ("user", "Hi"), tools=('{"a": 1}',)))
    content = [(segment.message, segment.role) for segment in segments if segment.role]
    assert content == [(0, "system"), (0, "tools"), (1, "user")]


def test_a_system_message_made_for_tools_belongs_to_no_message():
    segments = render(chat(("user", "Hi"), tools=("{}",)))
    assert [(s.message, s.role) for s in segments if s.role] == [(-1, "tools"), (0, "user")]


def test_an_image_ends_the_text_before_it_and_a_part_of_unknown_kind_is_not_rendered():
    parts = (Part("text", "a"), Part("image", "u"), Part("audio", ""), Part("text", "b"))
    segments = render(Prompt(messages=(Message("user", parts),)))
    assert [s.marker for s in segments if s.role] == [0, MARKERS["<|image|>"], 0, 0]
    assert [len(s.text) for s in segments if s.role] == [1, 9, 256, 1]


def test_token_ids_alone_render_to_nothing():
    assert render(Prompt(ids=((1, 2),))) == ()
    assert text_of([Segment("a"), Segment("b")]) == "ab"
