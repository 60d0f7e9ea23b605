import pytest

from proxy.prefixes.breakers.masks import LONGEST, mask


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-02 10:15", "dddd-dd-dd dd:dd"),
        ("Ana Sou\u00e7a <ana@x.org>", "aaa aaaaa <aaa@a.aaa>"),
        ("\u6771\u4eac 7", "aa d"),
    ],
)
def test_only_the_form_of_a_text_is_shown(text, expected):
    assert mask(text) == expected


def test_a_long_text_is_cut():
    assert mask("x" * 1_000) == "a" * LONGEST
