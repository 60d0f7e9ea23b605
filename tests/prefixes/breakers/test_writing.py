import pytest

from proxy.prefixes.breakers.writing import (
    WORD,
    begins_value,
    ends_value,
    figures,
    inside_word,
    last_words,
    pieces,
    size,
)


def test_words_are_told_apart_in_scripts_that_set_no_blanks():
    assert WORD.findall("at 10:15, caf\u00e9") == ["at", "10", "15", "caf\u00e9"]
    assert WORD.findall("\u5ba2\u6237\u738b\u5c0f\u660e3\u53f7") == [
        "\u5ba2\u6237",
        "\u738b\u5c0f",
        "\u660e",
        "3",
        "\u53f7",
    ]


@pytest.mark.parametrize(
    ("text", "at", "inside"),
    [("word", 2, True), ("word", 0, False), ("word", 4, False), ("a b", 1, False), ("\u5ba2\u6237", 1, False)],
    ids=["word", "begin", "end", "blank", "no-blanks"],
)
def test_a_place_is_inside_a_word_or_not(text, at, inside):
    assert inside_word(text, at) == inside


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("at 10:15", "10:15"),
        ("id=4c21", "4c21"),
        ("user:anna", "anna"),
        ("<s>4c21</s>", "4c21</s>"),
        ("see https://a.example/1", "https://a.example/1"),
        ("\u4eca\u5929\u662f2026\u5e743\u67082\u65e5", "2026\u5e743\u67082\u65e5"),
        ("\u5ba2\u6237\uff1aAnna", "Anna"),
    ],
    ids=["blank", "equals", "label", "element", "address", "chinese-date", "wide-colon"],
)
def test_a_value_begins_behind_what_sets_it_apart(text, value):
    last = max(at for at in range(1, len(text) - 3) if begins_value(text, at))
    assert text[last:] == value


def test_figures_of_every_script_are_read():
    assert figures("\u0661\u0660:\u0661\u0665") == "10:15"
    assert figures("10:15") == "10:15"


def test_a_value_ends_before_a_blank_or_before_letters_without_blanks():
    assert ends_value("Anna now", 4)
    assert ends_value("Anna\u5bf9\u8bdd", 4)
    assert not ends_value("10:15", 2)
    assert not ends_value("3\u65e5", 1)
    assert not ends_value("Anna", 4)


@pytest.mark.parametrize("behind", ["</user>", '"}', ") and", "' |", "|", "]", "\u300d"])
def test_a_value_ends_before_a_closing_sign(behind):
    assert ends_value("Anna" + behind, 4)


def test_letters_that_are_not_set_apart_say_more():
    assert size("four") == 4
    assert size("caf\u00e9") == 4
    assert size("\u4f60\u597d a") == 8


def test_sentences_and_lines_are_found_in_every_script():
    found = list(pieces("It is 10:15. All is well!\nSee a.b: yes"))
    assert found == [("It is 10:15.", 0), ("All is well!", 13), ("See a.b:", 26), ("yes", 35)]
    assert [piece for piece, _ in pieces("\u4f60\u597d\u3002\u518d\u89c1")] == ["\u4f60\u597d\u3002", "\u518d\u89c1"]
    assert list(pieces("One. Two.", 5)) == [("Two.", 5)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Help our clients. Place: ", "Place: "),
        ("\u56de\u7b54\u5ba2\u6237\u3002\n\u5929\u6c14\uff1a", "\u5929\u6c14\uff1a"),
        ("Rules.\n## Customer\n- ", "## Customer\n- "),
        ("Help our clients.\n- ", "- "),
        ("\u56de\u7b54\u5ba2\u6237\u3002", ""),
        ("Rules\nYou talk to Mr. ", "You talk to Mr. "),
        ('{"app": "desk",\n "session": {\n  "id": "', ' "session": {\n  "id": "'),
        ("You talk to ", "You talk to "),
        ("", ""),
    ],
    ids=["sentence", "no-blanks", "heading", "no-heading", "ended", "title", "opened", "all", "empty"],
)
def test_the_last_words_are_what_names_a_value(text, words):
    assert last_words(text) == words
