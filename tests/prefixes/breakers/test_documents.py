from hypothesis import given
from hypothesis import strategies as st

from proxy.prefixes.breakers.documents import (
    Document,
    agreement,
    canonical,
    head_of,
    latest,
    lead_of,
    nearest,
    parting,
    shingles,
)
from proxy.prefixes.canon import render, text_of
from proxy.records import Message, Part, Prompt
from tests.prefixes.prompts import chat, raw


def document(prompt, answer=None, id="1"):
    return Document(id, 0.0, 1, render(prompt), answer)


@given(st.text("ab", max_size=20), st.text("ab", max_size=20))
def test_two_texts_agree_up_to_their_first_difference(one, other):
    shared = agreement(one, other)
    assert one[:shared] == other[:shared]
    assert one[shared : shared + 1] != other[shared : shared + 1] or shared == min(len(one), len(other))


def test_prompts_part_in_a_message_at_a_character():
    one, other = document(chat(("system", "It is 10:01."))), document(chat(("system", "It is 10:02.")))
    found = parting(one, other)
    assert (found.index, found.char, found.mine.role, found.comparable) == (2, 10, "system", True)
    assert text_of(one.segments)[: found.position] == text_of(other.segments)[: found.position]


def test_a_prompt_that_goes_on_where_another_one_ended_does_not_part_from_it():
    first = document(chat(("user", "Hi")), "Hello.")
    assert parting(document(chat(("user", "Hi"), ("assistant", "Hello."), ("user", "Bye"))), first) is None
    assert parting(first, first) is None


def test_where_a_message_is_missing_the_next_words_are_the_place():
    one = document(chat(("user", "a"), ("tool", "b")))
    found = parting(document(chat(("user", "a"), ("assistant", "c"))), one)
    assert (found.mine.role, found.place.role, found.place.message) == ("", "assistant", 1)
    alone = parting(document(chat(("user", "a"))), one)
    assert alone.place == alone.mine


def test_an_image_against_words_cannot_be_compared():
    picture = document(Prompt(messages=(Message("user", (Part("image", "u"),)),)))
    assert not parting(picture, document(chat(("user", "words")))).comparable


def test_an_edit_leaves_the_original_and_an_emptied_segment_goes():
    one = document(chat(("user", "Hi")))
    assert text_of(one.edited(2, "Ho").segments) == text_of(one.segments).replace("Hi", "Ho")
    assert len(one.edited(2, "").segments) == len(one.segments) - 1
    assert one.has("user")
    assert not one.has("system")


def test_the_nearest_prompt_is_the_one_with_most_in_common_and_the_latest_of_equals():
    rules = " ".join(f"rule{k} about thing{k} holds" for k in range(60))
    texts = [f"It is 10:01. {rules}", "something else entirely " * 9, f"It is 10:02. {rules}", f"It is 10:03. {rules}"]
    documents = [document(chat(("system", text))) for text in texts]
    assert nearest(documents)[1:] == [(2, 0), (3, 2)]
    assert nearest(documents[:1]) == []


def test_of_too_many_the_latest_are_taken():
    documents = [document(raw("x" * 10), "y") for _ in range(5)]
    assert latest(documents, 25) == documents[-2:]
    assert latest(documents, 1) == documents[-1:]
    assert latest(documents, 1_000) == documents


def test_shingles_do_not_see_what_stands_between_words():
    assert shingles("One two,\r\nthree  FOUR", 3) == shingles("one two three four", 3)
    assert len(shingles("one two", 3)) == 1
    assert shingles("", 3) == shingles("...", 3)
    assert len(shingles("one two three four five", 2, every=1)) == 4


def test_a_monotony_weighs_by_its_length():
    assert len(shingles("s " * 1_000, 3)) == 10


def test_the_head_is_what_the_application_wrote():
    one = chat(("system", "Be brief."), ("user", "Hi"), tools=('{"b": 1, "a": 2}',))
    assert head_of(render(one)) == 'Be brief.\n\n\n# Tools\n{"a": 2, "b": 1}'
    assert head_of(render(chat(("user", "Hi"), ("user", "Ho")))) == "Hi"
    assert head_of(render(raw("Label: "))) == "Label: "
    assert lead_of(()) == ()


def test_text_that_is_no_text_does_no_harm():
    assert len(shingles("\ud800 one two", 3)) == 1
    assert canonical("[" * 100_000) is None


def test_keys_are_sorted_and_what_is_no_json_is_none():
    assert canonical('{"b": 1, "a": {"d": 2, "c": 3}}') == '{"a": {"c": 3, "d": 2}, "b": 1}'
    assert canonical("{") is None
