from hypothesis import given
from hypothesis import strategies as st

from proxy.sim.words import PIECE, WORDS, answer, encode, number, render


def test_a_token_is_about_four_characters_of_prose() -> None:
    text = "The quick brown fox jumps over the lazy dog while considerable machinery hums along quietly. " * 20
    assert 3 < len(text) / len(encode(text)) < 5


@given(st.text())
def test_no_character_is_lost(text: str) -> None:
    assert "".join(PIECE.findall(text)) == text
    assert len(encode(text)) == len(PIECE.findall(text))


def test_special_marks_are_one_token() -> None:
    assert encode("<|im_end|>\n") == (number("<|im_end|>"), number("\n"))


def test_an_answer_sent_back_as_history_gives_the_same_tokens() -> None:
    prompt = encode(render([("user", "hello there")]))
    pieces = answer(prompt, 40)
    again = encode(render([("user", "hello there"), ("assistant", "".join(pieces)), ("user", "go on")]))
    said = (*prompt, *map(number, pieces))
    assert again[: len(said)] == said


def test_the_same_prompt_gets_the_same_answer_and_another_choice_another() -> None:
    assert answer((1, 2, 3), 20) == answer((1, 2, 3), 20) != answer((1, 2, 3), 20, choice=1)
    assert len(answer((1,), 7)) == 7


def test_no_word_of_an_answer_is_longer_than_a_token() -> None:
    assert max(map(len, WORDS.split())) == 4
