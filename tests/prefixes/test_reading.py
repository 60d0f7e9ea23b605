import pytest

from proxy.prefixes.canon import render
from proxy.prefixes.ledger import Sight
from proxy.prefixes.reading import Reading
from proxy.prefixes.scale import Belief, Line
from proxy.prefixes.shadow import Added
from proxy.prefixes.texts import Texts
from proxy.records import Message, Part, PrefixVerdict, Prompt
from tests.prefixes.prompts import chat, raw


def letters(text):
    return [ord(letter) for letter in text]


def reading(prompt):
    chains = Texts(letters, b"key").chains(16)
    segments = render(prompt)
    if prompt.ids:
        made = [chains.of_ids(1, ids) for ids in prompt.ids]
    elif len(prompt.texts) > 1:
        made = [chains.chain(1, render(raw(text))) for text in prompt.texts]
    else:
        made = [chains.chain(1, segments)]
    return Reading("1", "m", 1, prompt, segments, tuple(made), Sight(0, 0, 0, 0, 0, 0), PrefixVerdict(16, 0))


SAID = chat(("user", "hello"))
"""Rendered: 5 tokens of the text, 19 of what frames it."""
DRAWN = Prompt(messages=(Message("user", (Part("text", "see"), Part("image", "a"), Part("text", "?"))),))


def test_a_template_adds_its_words_behind_what_opens_the_first_message():
    asked = reading(SAID)
    asked.belief = Belief(Line(22.3, 1.0, 1.0, 1.0))
    assert (asked.tokens, asked.shape, asked.added) == (24, "chat", Added(len("_user\n"), 22))
    assert asked.added.to(5) == 5
    assert asked.added.to(6) == 28
    assert reading(raw("hello")).opening == reading(Prompt(ids=((1, 2),))).opening == 1


def test_what_is_left_over_of_a_prompt_with_images_is_in_them():
    asked = reading(DRAWN)
    assert (asked.pictured, asked.opening) == (False, len("_user\n"))
    asked.look_closer()
    assert (asked.pictured, asked.opening) == (True, len("_user\nsee_") + 4 * 64)


@pytest.mark.parametrize(
    ("prompt", "least", "most"),
    [
        pytest.param(SAID, 3, 2 * 24 + 512, id="half the text, and no frame of ours"),
        pytest.param(raw("hello world"), 6, 2 * 11 + 512, id="half of a raw one"),
        pytest.param(Prompt(ids=((1, 2, 3, 4),)), 4, 2 * 4 + 512, id="all of one in its own tokens"),
        pytest.param(raw("مرحبا" * 20), 8, 4 * 100 + 512, id="little of what other vocabularies know better"),
        pytest.param(raw("0123456789" * 10), 50, 4 * 100 + 512, id="much of digits that are read one by one"),
        pytest.param(Prompt(texts=("مرحبا" * 2, "مرحبا" * 18)), 56, 4 * 100 + 512, id="of several in another script"),
        pytest.param(Prompt(texts=("a" * 10, "b" * 30)), 26, 2 * 40 + 512, id="more of several than the first"),
    ],
)
def test_an_engine_can_have_read_a_prompt_by_what_it_counts(prompt, least, most):
    asked = reading(prompt)
    can = [asked.read_in(count) for count in (least - 1, least, most, most + 1)]
    assert can == [False, True, True, False]


def test_what_an_engine_reads_besides_is_not_in_the_prompt():
    assert not reading(SAID._replace(unseen=1)).read_in(24)
    spoken = reading(Prompt(messages=(Message("user", (Part("audio", ""), Part("text", "hello"))),)))
    spoken.look_closer()
    assert not spoken.read_in(24)
