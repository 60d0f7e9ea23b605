import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.events import Said
from proxy.prefixes.audit import Audit
from proxy.prefixes.caches import Blocks
from proxy.prefixes.made import Made
from proxy.prefixes.scale import DOUBT, SAME, SLOPES, Belief, Scale, shape
from proxy.prefixes.texts import Texts
from proxy.records import Prompt, RequestFacts, Usage
from proxy.tokens.vocabularies import load
from tests.prefixes.prompts import chat, raw


def taught(*pairs):
    """What is believed of chats after answers: (our tokens, or what they are made of, and the engine's tokens)."""
    scale = Scale()
    for ours, theirs in pairs:
        scale.learn("chat", ours if isinstance(ours, Made) else Made(ours), theirs)
    return scale.of("chat")


def test_before_any_answer_our_tokens_are_the_engines():
    assert Scale().of("chat").line == SAME
    assert taught((0, 5)).line == SAME, "of no text nothing can be told"
    assert SAME.whole(Made(9)) == 9


def test_of_short_prompts_a_template_is_known_at_once():
    line = taught((9, 31)).line
    assert line.template == pytest.approx(22, abs=1)
    assert line.whole(Made(487)) == pytest.approx(509, rel=0.05)


def test_of_long_prompts_what_is_more_is_vocabulary():
    line = taught(*[(1_000, 1_300)] * 9).line
    assert line.template == 0
    assert line.whole(Made(2_000)) == pytest.approx(2_600, rel=0.02)


def test_of_short_and_long_ones_both_are_known():
    line = taught(*[(ours, round(22 + 1.2 * ours)) for ours in (9, 40, 12, 700, 15, 2_000, 90)]).line
    assert line.plain == pytest.approx(1.2, abs=0.03)
    assert line.template == pytest.approx(22, abs=2)


@pytest.mark.parametrize("lengths", [(1_000, 1_400), (1_400, 1_000), (300, 2_000)])
def test_two_kinds_of_text_do_not_make_a_template(lengths):
    """However many there are of both: texts of one kind are all off alike."""
    plain, code = lengths
    for count in (1, 30, 1_000):
        belief = taught(*[(plain, plain), (code, round(1.5 * code))] * count)
        assert abs(belief.line.template) < 20
        own = belief.through(Made(plain), plain)
        assert own.text(Made(16)) + own.template == pytest.approx(16, abs=1.5 * DOUBT.template)


def test_what_vocabularies_cut_otherwise_is_known_apart():
    draw, scale = random.Random(3), Scale()
    for _ in range(40):
        read = Made(draw.randrange(20, 900), draw.choice((0, 0, 90)), draw.choice((0, draw.randrange(5, 900))))
        scale.learn("led", read, round(4 + read.plain + 2.6 * read.digits + 1.7 * read.foreign))
    belief = scale.of("led")
    assert belief.line.template == pytest.approx(4, abs=5)
    assert belief.line[1:] == pytest.approx((1, 2.6, 1.7), abs=0.3)
    own = belief.through(Made(500, 0, 400), 4 + 500 + round(1.5 * 400))
    assert own.text(Made(500)) == pytest.approx(500, rel=0.02), "what is less is so in the other script"


@pytest.mark.parametrize("strange", [Made(20, 0, 180), Made(20, 180, 0), Made(500)])
def test_a_text_of_another_kind_is_not_taken_for_a_template(strange):
    known = [(ours, ours) for ours in (300, 2_000, 400, 900)]
    theirs = round(2.2 * sum(strange))
    belief = taught(*known, (strange, theirs), (800, 800))
    assert abs(belief.line.template) < 10
    own = belief.through(strange, theirs)
    assert own.text(strange) == pytest.approx(theirs, rel=0.06)
    assert own.whole(strange) == theirs


def test_a_vocabulary_is_the_models_and_a_template_its_shapes():
    scale = Scale()
    for ours in (9, 200, 90, 400, 1_000):
        scale.learn("chat", Made(ours), round(22 + 1.2 * ours))
    assert scale.of("led").line.plain == scale.of("chat").line.plain
    scale.learn("led", Made(20), 24)
    scale.learn("chat with tools", Made(81), round(1.2 * 34))
    assert scale.of("led").line.template == pytest.approx(0, abs=2)
    assert scale.of("chat with tools").line.template == pytest.approx(-47 * 1.2, abs=10)


def test_another_tokenizer_behind_the_same_name_is_learnt_in_its_turn():
    draw, scale = random.Random(5), Scale()
    for slope in (1.0, 1.4):
        for _ in range(100):
            ours = draw.randrange(50, 2_000)
            scale.learn("chat", Made(ours), round(20 + slope * ours))
        assert scale.of("chat").line.whole(Made(1_000)) == pytest.approx(20 + slope * 1_000, rel=0.03)


TOKENS = st.integers(0, 10**9)


@given(st.lists(st.tuples(st.builds(Made, TOKENS, TOKENS, TOKENS), TOKENS), max_size=40), TOKENS, TOKENS)
def test_whatever_engines_say_it_stays_a_line(pairs, plain, foreign):
    read, belief = Made(plain, 0, foreign), taught(*pairs)
    assert belief.line.whole(read) >= 1
    own = belief.through(read, 100)
    assert all(SLOPES[0] <= slope <= SLOPES[1] for slope in own[1:])
    assert own.whole(read) == pytest.approx(100, abs=1 + 1e-8 * (plain + foreign))


def test_prompts_have_the_shapes_that_templates_tell_apart():
    assert shape(raw("x")) == shape(Prompt(ids=((1, 2),))) == "raw"
    assert shape(chat(("user", "x"))) == "chat"
    assert shape(chat(("developer", "x"), ("user", "x"))) == "led"
    assert shape(chat(("user", "x"), tools=("{}",))) == "chat with tools"
    assert shape(Prompt(tools=("{}",))) == "chat with tools"


SYSTEM = "You answer in short and simple sentences, and you say so where you do not know. " * 20
ASKED = {
    "english": "the river ran slowly past a green house where nobody had lived for many years",
    "russian": "река медленно текла мимо зелёного дома где никто не жил уже много лет",
    "numbers": "4711 29.11.2026 37,5 1024 3.14159 90210 0.002 12:34:56 65536 4294967296",
}


def engine_tokens(prompt):
    """A chat in the tokens of an engine with another vocabulary, which takes digits one by one."""
    pieces = re.split(r"(\d)", "".join(f"\0{one.role}\n{part.text}\1" for one in prompt.messages for part in one.parts))
    encode = load("o200k_base").encode_ordinary
    return [token for piece in pieces for token in encode(piece)]


@pytest.mark.parametrize("kinds", [("english",), ("russian",), ("russian", "english", "numbers")])
@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_a_gap_is_the_engines_whatever_its_vocabulary(kinds, lost):
    """One system message, questions in several scripts; the engine forgets the prefix of some of them."""
    draw, texts = random.Random(9), Texts(load("cl100k_base").encode_ordinary, b"key")
    audit, seen, missed, told, tokens = Audit(texts, Blocks(texts)), set(), 0, 0, 0
    for number in range(120):
        words = ASKED[draw.choice(kinds)].split()
        asked = " ".join(draw.choice(words) for _ in range(draw.choice((5, 40, 400))))
        prompt = chat(("system", SYSTEM), ("user", asked))
        whole = engine_tokens(prompt)
        heads = [tuple(whole[:end]) for end in range(16, len(whole), 16)]
        cached = 16 * sum(head in seen for head in heads)
        seen.update(heads)
        taken = 0 if draw.random() < lost else cached
        audit.dispatched(str(number), RequestFacts("openai", "chat", "inference", model="m", prompt=prompt), 0)
        settled = audit.ended(str(number), Said("ok"), Usage(len(whole), 1, cached_tokens=taken))
        missed += cached - taken
        told += dict(settled.bins)["engine_gap"]
        tokens += len(whole)
    assert told == pytest.approx(missed, abs=0.005 * tokens)


def test_of_a_script_less_is_read_the_better_the_vocabulary_is_known_to_know_it():
    """Half of what an engine reads is read in part: a fifth of ours may be all."""
    belief, text = Belief(), Made(0.0, 0.0, 1_000.0)
    assert belief.least(text) == pytest.approx(75.0)
    for _ in range(20):
        belief.learn(text, 2_000)
    assert belief.least(text) == pytest.approx(500.0)
    for _ in range(100):
        belief.learn(text, 200)
    assert belief.least(text) < 120
    assert belief.least(Made(1_000.0)) == 500.0
