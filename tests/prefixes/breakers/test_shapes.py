import pytest

from proxy.prefixes.breakers.shapes import CLOCK, FIGURES, THING_LABEL, WORDY, is_measure, is_person, is_scrambled


@pytest.mark.parametrize(
    "text",
    ["10:15", "10h15", "3 PM", "10.15 Uhr", "20260302T101500Z", "20260302101500", "10\u65f615\u5206", "10\u6642"],
)
def test_a_time_of_day_has_many_forms(text):
    assert CLOCK.search(text)


@pytest.mark.parametrize(
    "text", ["2026-03-02", "02.03.2026", "20260302", "2026\u5e743\u67082\u65e5", "\u4ee4\u548c8\u5e743\u67082\u65e5"]
)
def test_a_date_in_figures_is_known(text):
    assert FIGURES.search(text)
    assert not CLOCK.search(text)


@pytest.mark.parametrize("text", ["2nd of March", "March 2", "2. M\u00e4rz", "2 de mar\u00e7o", "02-Mar-2026"])
def test_a_day_with_its_month_in_words_is_known(text):
    assert WORDY.search(text)


@pytest.mark.parametrize("text", ["81.20 EUR", "47.10213, -8.55312", "-3.5", "12.5 %"])
def test_a_measure_is_no_id(text):
    assert is_measure(text)


@pytest.mark.parametrize("text", ["0.8372837261523", "4c21a.9", "48213"])
def test_an_id_is_no_measure(text):
    assert not is_measure(text)


def test_letters_mixed_by_chance_are_nobodys_word():
    assert is_scrambled("fJfa0KDmYvO9")
    assert is_scrambled("kQzTbWmRxLpVnS")
    assert not is_scrambled("internationalisation")
    assert not is_scrambled("getUserAccountName")
    assert not is_scrambled("a quiet afternoon in the garden")


def test_a_person_has_few_words_in_any_script():
    assert is_person("Anna Keller, since 2019", 4)
    assert is_person("\u738b\u5c0f\u660e", 4)
    assert is_person("\u0623\u062d\u0645\u062f \u0627\u0644\u0639\u0644\u064a", 4)
    assert not is_person("\u8d44\u91d1\u5230\u8d26\u540e\u518d\u8fdb\u884c\u5904\u7406", 4)
    assert is_person("Ana de Souza", 4)
    assert not is_person("be kind", 4)
    assert not is_person("Today is Monday", 4)
    assert not is_person("", 4)


def test_what_is_called_a_place_is_nobody():
    assert THING_LABEL.search("Place: ")
    assert THING_LABEL.search("Location of the caller: ")
    assert not THING_LABEL.search("You are talking to ")
