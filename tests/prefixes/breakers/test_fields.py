import pytest

from proxy.prefixes.breakers.fields import fields, shared_ends


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("10:15\nAnna", ["10:15", "Anna"]),
        ('10:15", "id": 7, "user": "Anna', ["10:15", '"id": 7', '"user": "Anna']),
        ("10:15', 'user': 'Anna", ["10:15", "'user': 'Anna"]),
        ("10:15 | Anna | Oslo", ["10:15", "Anna", "Oslo"]),
        ("10:15; user: Anna", ["10:15", "user: Anna"]),
        ("10:15 user=Anna city=Oslo", ["10:15", "user=Anna", "city=Oslo"]),
        ('10:15" user="Anna', ["10:15", 'user="Anna']),
        ("Monday, 2 March 2026, 10:15", ["Monday, 2 March 2026, 10:15"]),
        ("Anna, who is 7 = seven", ["Anna, who is 7 = seven"]),
    ],
)
def test_a_record_has_fields_however_it_is_written(text, parts):
    assert fields([text, text]) == [(part, part) for part in parts]


def test_fields_that_only_some_have_are_none():
    assert fields(["a | b | c", "d | e"]) == [("a", "d"), ("b", "e")]


def test_words_that_all_begin_and_end_with_are_shared():
    assert shared_ends(["user: Anna here", "user: Bruno here"]) == (6, 5)
    assert shared_ends(["the same", "the same"]) == (0, 0)
