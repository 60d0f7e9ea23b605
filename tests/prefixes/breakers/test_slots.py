from itertools import pairwise

import pytest

from proxy.prefixes.breakers.documents import Document, parting
from proxy.prefixes.breakers.slots import (
    SENTENCE,
    Slot,
    heading,
    sentence,
    slots,
    value_start,
    values,
)
from proxy.prefixes.canon import render
from tests.prefixes.breakers.apps import rules
from tests.prefixes.prompts import chat

RULES = rules("slots", 8)


def document(text, at_s=0.0):
    return Document("1", at_s, 1, render(chat(("system", text), ("user", "x"))))


def text_in(found):
    return next(found.content("system"))[1].text


def slots_of(texts):
    documents = [document(text) for text in texts]
    pairs = [parting(later, earlier) for earlier, later in pairwise(documents)]
    return documents, [slot for slot, _ in slots(documents, [one for one in pairs if one])]


def test_a_value_is_found_in_every_member_and_goes_with_its_line():
    texts = [
        f"You help.\nNow: 2026-03-0{day} 10:1{minute}\n{RULES}" for day, minute in ((1, 1), (1, 2), (2, 3), (3, 4))
    ]
    documents, found = slots_of(texts)
    slot = max(found, key=lambda one: sum(map(one.carries, documents)))
    assert all(map(slot.carries, documents))
    assert {text_in(one) for one in slot.mend(documents)} == {f"You help.\n{RULES}"}


def test_members_without_the_value_stay_as_they_are():
    texts = [f"You help. You talk to {name}.\n{RULES}" for name in ("Anna B", "Carl D", "Eva F", "Gil H")]
    documents, found = slots_of([*texts, f"You help.\n{RULES}"])
    best = max(found, key=lambda one: sum(map(one.carries, documents[:4])) - one.carries(documents[4]))
    assert [best.carries(one) for one in documents] == [True] * 4 + [False]
    assert {text_in(one) for one in best.mend(documents)} == {f"You help.\n{RULES}"}


def test_a_place_that_does_not_occur_is_nowhere():
    assert Slot("system", "missing", "").find(document("text")) is None
    assert Slot("system", "te", "missing").find(document("text")) is None
    assert Slot("tool", "", "").find(document("text")) is None
    assert Slot("system", "", "").find(document("text")) == (2, 0, 4)


def test_values_come_with_their_surroundings():
    documents = [document(f"Today is Monday, {day} March 2026.\n{RULES}", day * 86_400.0) for day in (2, 9)]
    seen = values(documents, Slot("system", "Today is Monday, ", " March 2026.\n"), [0, 1])
    assert (seen.texts, seen.times_s, seen.talks) == (("2", "9"), (172_800.0, 777_600.0), (0, 1))
    assert seen.wide == ("2 March 2026.", "9 March 2026.")


def test_words_that_all_values_begin_and_end_with_are_no_part_of_them():
    documents = [document(f"Hi.\nYou talk to {name} now.\n{RULES}") for name in ("Anna", "Bruno")]
    seen = values(documents, Slot("system", "Hi.\n", "\nService"), [0, 1])
    assert seen.texts == ("Anna", "Bruno")
    assert seen.label == "You talk to "


def test_blanks_around_a_value_are_no_part_of_it():
    documents = [document(text) for text in ("Hi.\n\nIt is Monday.\nNext", "Hi.\nIt is Friday.\n\nNext")]
    seen = values(documents, Slot("system", "Hi.\n", "Next"), [0, 1])
    assert seen.texts == ("Monday.", "Friday.")
    assert seen.wide == ("Monday.", "Friday.")
    blank = values([document("Hi.\n \nNext")], Slot("system", "Hi.\n", "Next"), [0])
    assert blank.texts == ("",)


def test_one_value_alone_is_kept_whole():
    seen = values([document("Hi.\nAnna\n")], Slot("system", "Hi.\n", "\n"), [0])
    assert seen.texts == ("Anna",)
    assert values([], Slot("system", "", ""), []).texts == ()


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("One. It is 10:01 now. Two.", "10:01", "It is 10:01 now."),
        ("One.\nNow: 10:01\nTwo.", "10:01", "Now: 10:01\n"),
        ("One. It is 10:01.\nTwo.", "10:01", " It is 10:01."),
        ("One.\nIt is 10:01.\nTwo.", "10:01", "It is 10:01.\n"),
        ("10:01", "10:01", "10:01"),
        ("a" * SENTENCE + " 10:01 b", "10:01", "10:01"),
    ],
    ids=["sentence", "line", "end-of-line", "whole-line", "all", "too-long"],
)
def test_a_value_stands_in_a_sentence_or_line(text, value, expected):
    begin = text.index(value)
    first, last = sentence(text, begin, begin + len(value))
    assert text[first:last] == expected


def test_a_document_takes_its_heading_along():
    text = "Head.\n\nContext\n[1] words"
    assert text[heading(text, text.index("[1]")) :] == "Context\n[1] words"
    assert heading("Context [1]", 8) == 0


def test_a_paragraph_of_words_is_no_heading():
    text = f"{'Words and words. ' * 9}\n[1] words"
    assert text[heading(text, text.rindex("words")) :] == "[1] words"


def test_a_value_takes_its_label_along_where_members_read_on_without_both():
    """The label ends a long line, which only the members without it can tell."""
    line = "A rule of many words that goes on for longer than a sentence about one thing would ever do here"
    texts = [f"You help.\n<rule>{line}</rule> Client: {name}\n{RULES}" for name in ("Anna", "Carl")]
    without = f"You help.\n<rule>{line}</rule>\n{RULES}"
    slot = Slot("system", "</rule> Client: ", "\nService")
    mended = slot.mend([document(text) for text in (*texts, without)])
    assert {text_in(one) for one in mended} == {without}


def test_members_without_the_value_are_none_of_its_values():
    names = ("Anna", "Carl", "Eva", "Gil")
    documents = [document(f"You help at Halden{end}\n{RULES}") for end in (*(f" Client: {one}" for one in names), "")]
    seen = values(documents, Slot("system", "You help at ", "\nService"), range(5))
    assert seen.texts == names
    assert seen.label == "You help at Halden Client: "


def test_a_value_goes_as_the_members_read_that_never_had_it():
    """No full stop ends the label, so the sentence goes on: the members without it say where it ends."""
    texts = [f"You help. User: {name} Be kind to all.\n{RULES}" for name in ("Anna", "Carl")]
    slot = Slot("system", "You help. User: ", " Be kind")
    plain = document(f"You help. Be kind to all.\n{RULES}")
    assert {text_in(one) for one in slot.mend([*map(document, texts), plain])} == {text_in(plain)}


def test_a_value_at_the_begin_does_not_take_the_next_words_along():
    documents = [document(f"{lead}You are here to help.\n{RULES}") for lead in ("Day: Monday ", "Day: Friday ", "")]
    assert {text_in(one) for one in Slot("system", "Day: ", " You").mend(documents)} == {text_in(documents[2])}


def test_a_long_span_moves_from_the_begin_of_its_paragraph():
    text = f"Head.\n\nContext\n[1] {'words ' * 60}\n\n{RULES}"
    slot = Slot("system", "Context\n[1] ", "\n\nService")
    assert text_in(slot.mend([document(text)])[0]) == f"Head.\n\n{RULES}"


def test_a_value_begins_behind_a_blank_or_an_opening_sign():
    assert value_start("id=4c21a", 5) == 3
    assert value_start("at 2026-03-02", 12) == 3
    assert value_start("x" * 50, 50) == 18


def test_of_a_text_that_comes_and_goes_nothing_is_a_value_too():
    texts = [f"Rules:\n{line}{RULES}" for line in ("", "Be brief.\n", "", "Be brief.\n")]
    documents = [document(text) for text in texts]
    slot = Slot("system", "Rules:\n", RULES[:32])
    assert values(documents, slot, range(4)).texts == ("", "Be brief.", "", "Be brief.")
    assert values(documents[1::2], slot, range(2)).texts == ("Be brief.", "Be brief.")


def test_of_several_lines_the_first_may_be_meant_alone():
    slot = Slot("system", "Rules:\n", "\nService", first_line=True)
    assert text_in(slot.mend([document("Rules:\nat 10:15\nAnna\nService")])[0]) == "Rules:\nAnna\nService"
    assert slot.find(document("Rules:\nat 10:15\nService")) == (2, 7, 15)
