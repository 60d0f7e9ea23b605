import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.plain import cell, fault, json_text, markdown, paragraph, printable, seconds, without_user

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b31m\u202egnp.exe\r\n\x7fforged\u2028"


@given(st.text())
def test_nothing_that_is_shown_steers_a_terminal_or_begins_a_line(text: str) -> None:
    assert printable(text).isprintable()
    assert cell(text).isprintable()
    assert markdown(text).isprintable()
    assert all(line.isprintable() for line in paragraph(text).split("\n"))
    assert paragraph(text).count("\n") == text.count("\n")


@given(st.text().filter(str.isprintable))
def test_what_can_be_printed_is_left_alone(text: str) -> None:
    assert printable(text) == paragraph(text) == json_text(text) == text


def test_what_cannot_be_printed_is_left_out() -> None:
    assert printable(HOSTILE) == "]0;owned[31mred31mgnp.exeforged"
    assert printable("日本 é😀") == "日本 é😀"


def test_a_long_name_is_cut_and_shows_it() -> None:
    assert printable("x" * 50, 10) == "xxxxxxx..."
    assert printable("x" * 10, 10) == "x" * 10


@given(st.recursive(st.none() | st.text(), st.lists, max_leaves=5) | st.dictionaries(st.text(), st.text()))
def test_json_means_the_same_however_it_is_looked_at(value: object) -> None:
    for indent in (None, 2):
        text = json_text(json.dumps(value, ensure_ascii=False, indent=indent))
        assert json.loads(text) == value
        assert all(line.isprintable() for line in text.split("\n"))


def test_a_character_beyond_the_first_plane_is_two_escapes() -> None:
    assert json_text('"\U000e0001"') == '"\\udb40\\udc01"'


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@cf/meta", "\t=1", "\r\n@x", "=cmd|' /C calc'!A0"])
def test_a_spreadsheet_calculates_nothing(text: str) -> None:
    assert cell(text)[0] == "'"


def test_a_name_that_is_no_formula_is_a_cell_as_it_is() -> None:
    assert cell("org/model-1:7b=x") == "org/model-1:7b=x"


def test_markdown_shows_what_it_was_given() -> None:
    assert markdown("a|b`c[d](e)<f>\\") == "a\\|b\\`c\\[d](e)\\<f>\\\\"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://u:p@h:1", "http://h:1"),
        ("http://u:p/w@h", "http://h"),
        ("http://u:p//w@h/x", "http://h/x"),
        ("u:p@http://h", "http://h"),
        ("http://a@b@h", "http://h"),
        ("//u:p@h", "h"),
        ("http://h:1/x", "http://h:1/x"),
    ],
)
def test_no_password_is_left_in_an_address(url: str, shown: str) -> None:
    assert without_user(url) == shown


def test_a_file_that_is_named_already_is_not_named_again() -> None:
    assert fault(FileNotFoundError(2, "No such file or directory", "keys.json")) == "No such file or directory"
    assert fault(OSError("holds a line without an end")) == "holds a line without an end"
    assert fault(ValueError("no UTF-8")) == "no UTF-8"


def test_a_time_has_as_many_places_on_every_surface() -> None:
    assert [seconds(spent) for spent in (0.0, 0.0004, 0.001, 0.099, 0.1, 1.234)] == [
        *("0.000", "0.000", "0.001", "0.099", "0.10", "1.23"),
    ]
