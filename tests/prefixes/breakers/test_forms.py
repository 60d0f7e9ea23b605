import pytest

from proxy.prefixes.breakers.documents import Document, parting
from proxy.prefixes.breakers.forms import FORMS, OneForm, another_form, form_between, form_of
from proxy.prefixes.canon import render
from tests.prefixes.prompts import chat

REST = " and what follows is the same in both texts, for a good while longer than by chance."


def document(text):
    return Document("1", 0.0, 1, render(chat(("system", text))))


def text_in(found):
    return next(found.content("system"))[1].text


def form_of_kind(kind):
    return next(form for form in FORMS if form.kind == kind)


PAIRS = [
    ("bom", "\ufeffYou are" + REST, "You are" + REST),
    ("unicode_norm", "caf\u00e9" + REST, "cafe\u0301" + REST),
    ("unicode_norm", "caf\\u00e9" + REST, "caf\u00e9" + REST),
    ("whitespace", '{"a":1,"b":[2,3]}' + REST, '{"a": 1, "b": [2, 3]}' + REST),
    ("trailing_space", "line \nnext" + REST, "line\nnext" + REST),
    ("trailing_space", "the end ", "the end"),
    ("trailing_space", "the end  \n", "the end"),
    ("trailing_space", "the end\n", "the end"),
    ("whitespace", "\n\nthe begin" + REST, "the begin" + REST),
    ("whitespace", "line\r\nnext" + REST, "line\nnext" + REST),
    ("whitespace", "line\n\nnext" + REST, "line\nnext" + REST),
    ("whitespace", "two  blanks" + REST, "two blanks" + REST),
    ("locale_number", "1,234.50 euros" + REST, "1.234,50 euros" + REST),
    ("locale_number", "12 000 euros" + REST, "12000 euros" + REST),
    ("other", "don\u2019t" + REST, "don't" + REST),
    ("other", "Please" + REST, "please" + REST),
]


@pytest.mark.parametrize(("kind", "one", "other"), PAIRS, ids=range(len(PAIRS)))
def test_the_same_text_in_two_forms_is_known(kind, one, other):
    assert form_of(one, other) == kind
    found = another_form(parting(document(one), document(other)))
    assert found is not None
    assert (found[0], found[1].form.kind, found[1].role) == (kind, kind, "system")
    assert found[1].carries(document(one))


@pytest.mark.parametrize(("kind", "one", "other"), PAIRS, ids=range(len(PAIRS)))
def test_mended_all_have_the_shortest_form_or_of_equals_that_of_most(kind, one, other):
    mended = another_form(parting(document(one), document(other)))[1].mend(
        [document(text) for text in (one, other, other)]
    )
    assert {text_in(found) for found in mended} == {min(other, one, key=len)}


def test_another_value_is_no_other_form():
    assert form_between("It is 10:01." + REST, "It is 10:02." + REST, 10) is None
    assert form_of("1.5", "15") is None
    assert another_form(parting(document("a" + REST), document("b" + REST))) is None


def test_a_mark_at_the_begin_is_a_form_whatever_value_stands_behind_it():
    kind, _ = another_form(parting(document("\ufeffIt is 10:01." + REST), document("It is 11:02." + REST)))
    assert kind == "bom"


def test_texts_that_differ_in_more_than_their_form_get_the_standard_one():
    texts = ["one\r\nx" + REST, "one\ny" + REST]
    mended = OneForm(form_of_kind("whitespace"), "system").mend([document(text) for text in texts])
    assert [text_in(found)[:5] for found in mended] == ["one\nx", "one\ny"]


def test_a_text_in_the_usual_form_is_left_alone():
    """Empty lines are nobody's fault where only line ends differ."""
    texts = ["one\r\n\r\ntwo  blanks" + REST + "\r\n", "one\n\ntwo  blanks" + REST + " x\n"]
    first, second = map(document, texts)
    mended = another_form(parting(second, first))[1].mend([first, second])
    assert [text_in(found) for found in mended] == [texts[0].replace("\r", ""), texts[1]]


def test_numbers_take_the_usual_form_line_by_line():
    texts = ["1.500,00 euros\nx", "1,500.00 euros\ny", "1,500.00 euros\nz"]
    mended = OneForm(form_of_kind("locale_number"), "system").mend([document(text) for text in texts])
    assert text_in(mended[0]) == "1,500.00 euros\nx"


def test_a_long_run_of_blanks_costs_little():
    assert form_of("a" + " " * 200_000 + "b", "a" + " " * 200_000 + "c") is None
