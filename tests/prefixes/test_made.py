import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefixes.canon import render
from proxy.prefixes.chains import Chains
from proxy.prefixes.made import SAMPLE, Made, Odd, made, shares
from tests.prefixes.prompts import chat, raw

RUSSIAN = "Привет, как дела сегодня"


def letters(text):
    return [ord(letter) for letter in text]


@pytest.mark.parametrize(
    ("text", "digits", "foreign"),
    [
        ("a plain text, with 1 digit among its many plain letters", 0, 0),
        (
            "a text with \u201cquotes\u201d that is cut as plain letters are, for nothing in it is of another script",
            0,
            0.04,
        ),
        ("12:34:56", 0.75, 0),
        (RUSSIAN, 0, 20 / 24),
        ("房子" * 9, 0, 1),
        ("房1", 0.5, 0.5),
        ("\ud800", 0, 1),
    ],
)
def test_what_is_odd_in_a_text(text, digits, foreign):
    assert shares(text) == (pytest.approx(digits), pytest.approx(foreign, abs=0.01))


@pytest.mark.parametrize("size", [SAMPLE - 1, 2 * SAMPLE - 1, 50 * SAMPLE])
def test_of_a_long_text_a_sample_is_looked_at(size):
    assert shares("1a д" * (size // 4)) == (pytest.approx(0.25, abs=0.26), pytest.approx(0.25, abs=0.26))


def test_what_a_beginning_is_made_of():
    odd = [Odd(10, 20, 0.0, 20.0), Odd(40, 10, 5.0, 0.0, Made(0.0, 0.0, 20.0))]
    assert made(odd, 10) == made([], 10) == Made(10)
    assert made(odd, 15) == Made(10, 0, 5)
    assert made(odd, 40) == Made(20, 0, 20)
    assert made(odd, 45) == Made(22.5, 2.5, 20)
    assert made(odd, 90) == Made(65, 5, 20)


def test_a_chain_knows_its_odd_texts_however_it_is_walked():
    chains = Chains(letters, 4)
    short, long = chat(("system", RUSSIAN)), chat(("system", RUSSIAN), ("user", "plain"), ("user", "123"))
    chains.chain(1, render(short))
    for _ in range(2):
        odd = chains.chain(1, render(long)).odd
        assert [(one.begin, one.tokens) for one in odd] == [(len("_system\n"), 24), (8 + 24 + 2 + 13 + 6, 3)]
        assert (odd[1].digits, odd[1].before.foreign) == (3, odd[0].foreign)
    assert chains.chain(1, render(raw("plain"))).odd == []
    assert chains.of_ids(1, (1, 2, 3)).odd == ()


@given(st.text(min_size=1))
def test_shares_are_of_one_whole(text):
    digits, foreign = shares(text)
    assert 0 <= digits <= 1
    assert 0 <= foreign <= 1 - digits
