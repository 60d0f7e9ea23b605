import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefixes.scale import SAME, SLOPES, Scale, shape
from proxy.records import Prompt
from tests.prefixes.prompts import chat, raw


def taught(*pairs):
    scale = Scale()
    for ours, theirs in pairs:
        scale.learn("chat", ours, theirs)
    return scale.line("chat")


def test_before_any_answer_our_tokens_are_the_engines():
    assert Scale().line("chat") == SAME
    assert taught((0, 5)) == SAME, "of no text nothing can be told"
    assert SAME.whole(9) == 9


def test_of_short_prompts_a_template_is_known_at_once():
    line = taught((9, 31))
    assert line.template == pytest.approx(22, abs=1)
    assert line.whole(487) == pytest.approx(509, rel=0.05)


def test_of_long_prompts_what_is_more_is_vocabulary():
    line = taught(*[(1_000, 1_300)] * 9)
    assert line.template < 10
    assert line.whole(2_000) == pytest.approx(2_600, rel=0.02)


def test_of_short_and_long_ones_both_are_known():
    line = taught(*[(ours, round(22 + 1.2 * ours)) for ours in (9, 40, 12, 700, 15, 2_000, 90)])
    assert line.slope == pytest.approx(1.2, abs=0.03)
    assert line.template == pytest.approx(22, abs=2)


def test_a_text_in_another_script_is_not_taken_for_a_template():
    line = taught(*[(ours, ours) for ours in (300, 2_000, 400, 900)], (200, 430), (800, 800))
    assert abs(line.template) < 50
    own = line.through(200, 430)
    assert own.slope == pytest.approx(2, abs=0.2)
    assert own.whole(200) == 430


def test_a_vocabulary_is_the_models_and_a_template_its_shapes():
    scale = Scale()
    for ours in (9, 200, 90, 400, 1_000):
        scale.learn("chat", ours, round(22 + 1.2 * ours))
    assert scale.line("led").slope == scale.line("chat").slope
    scale.learn("led", 20, 24)
    scale.learn("chat with tools", 81, round(1.2 * 34))
    assert scale.line("led").template == pytest.approx(0, abs=2)
    assert scale.line("chat with tools").template == pytest.approx(-47 * 1.2, abs=10)


def test_another_tokenizer_behind_the_same_name_is_learnt_in_its_turn():
    draw, scale = random.Random(5), Scale()
    for slope in (1.0, 1.4):
        for _ in range(100):
            ours = draw.randrange(50, 2_000)
            scale.learn("chat", ours, round(20 + slope * ours))
        assert scale.line("chat").whole(1_000) == pytest.approx(20 + slope * 1_000, rel=0.03)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=40), st.integers(0, 10**9))
def test_whatever_engines_say_it_stays_a_line(pairs, ours):
    line = taught(*pairs)
    assert line.whole(ours) >= 1
    own = line.through(ours, 100)
    assert SLOPES[0] <= own.slope <= SLOPES[1]
    assert own.whole(ours) == pytest.approx(100, abs=1 + 1e-9 * ours)


def test_prompts_have_the_shapes_that_templates_tell_apart():
    assert shape(raw("x")) == shape(Prompt(ids=((1, 2),))) == "raw"
    assert shape(chat(("user", "x"))) == "chat"
    assert shape(chat(("developer", "x"), ("user", "x"))) == "led"
    assert shape(chat(("user", "x"), tools=("{}",))) == "chat with tools"
    assert shape(Prompt(tools=("{}",))) == "chat with tools"
