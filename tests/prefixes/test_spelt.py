"""vLLM's cache in the engine's own tokens: letters are what we render, words of 7 bits what the engine has."""

import pytest

from proxy.events import Said
from proxy.prefixes.audit import Audit
from proxy.prefixes.caches import Blocks, Slots
from proxy.prefixes.spelt import Spelt
from proxy.prefixes.texts import Texts
from proxy.records import Prompt, RequestFacts, Usage
from tests.prefixes.prompts import chat

BLOCK = 4


def facts(prompt):
    return RequestFacts("openai", "chat", "inference", model="m", prompt=prompt)


def asking(text):
    return facts(chat(("user", text)))


def engine(text):
    """The engine's tokens: another one for each letter, and a template in front."""
    return [900, 901, 902, *(1_000 + ord(letter) for letter in text)]


@pytest.fixture
def texts():
    return Texts(lambda text: list(map(ord, text)), b"a key")


@pytest.fixture
def audit(texts):
    return Audit(texts, Spelt(texts, BLOCK))


def play(audit, id, text, *, ids=None, late=None, said=Said(), used=None):  # noqa: B008  # frozen
    asked = asking(text)
    first = audit.predict(id, asked, 0, ids if ids is not None else ())
    assert audit.dispatched(id, asked, 1) == first
    return first, audit.ended(id, said, used, late if late is not None else ())


def test_reuse_is_told_in_the_engines_own_tokens(audit):
    play(audit, "1", "a" * 10, ids=engine("a" * 10))
    first, settled = play(audit, "2", "a" * 12, ids=engine("a" * 12), used=Usage(15, 1, 12))
    assert (first.tokens, first.expected, first.infinite) == (15, 12, 12)
    assert (settled.tokens, dict(settled.bins)["hit"], dict(settled.bins)["structural"]) == (15, 12, 3)


def test_an_answers_own_tokens_are_part_of_the_next_prompt_but_for_the_last(audit):
    play(audit, "1", "abc", ids=[1, 2, 3], said=Said("x", (4, 5, 6, 7, 8, 9)))
    assert audit.predict("2", asking("abcd"), 0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).expected == 8
    assert audit.predict("3", asking("abcd"), 0, [1, 2, 3, 4, 5, 6, 7, 8]).expected == 4


def test_what_the_engine_did_not_spell_in_time_is_told_by_our_rendering(audit):
    play(audit, "1", "a" * 40, ids=engine("a" * 40))
    first, _ = play(audit, "2", "a" * 44)
    plain = Audit(audit._texts, Blocks(audit._texts, BLOCK))
    play(plain, "1", "a" * 40, used=Usage(len(engine("a" * 40))))
    assert first == play(plain, "2", "a" * 44)[0]
    assert first.expected > 25


def test_what_it_spells_in_its_answer_settles_the_verdict_and_enters_the_cache(audit):
    first, settled = play(audit, "1", "a" * 10, late=engine("a" * 10), used=Usage(13, 1, 0))
    assert (settled.tokens, settled.infinite) == (13, 0)
    first, settled = play(audit, "2", "a" * 12, late=engine("a" * 12), used=Usage(15, 1, 12))
    assert settled.expected == first.expected
    assert (settled.tokens, settled.infinite, dict(settled.bins)["hit"]) == (15, 12, 12)
    assert audit.predict("3", asking("a" * 12), 0, engine("a" * 12)).expected == 12


def test_text_that_is_new_is_compulsory_though_it_is_spelt_only_in_the_answer(audit):
    text = "\n".join(f"line {k} of what nobody has said before" for k in range(9))
    _, settled = play(audit, "1", text, late=engine(text))
    bins = dict(settled.bins)
    assert (bins["text_break"], bins["compulsory"] + bins["structural"]) == (0, settled.tokens)
    _, settled = play(audit, "2", "now\n" + text, late=engine("now\n" + text))
    assert dict(settled.bins)["text_break"] > 0.9 * settled.tokens


def test_a_spelling_that_was_known_changes_nothing_and_another_one_does(audit):
    ids = engine("a" * 10)
    play(audit, "1", "a" * 10, ids=ids)
    _, settled = play(audit, "2", "a" * 10, ids=ids, late=ids)
    assert settled.infinite == 12
    _, settled = play(audit, "3", "a" * 10, ids=ids, late=[*ids[:8], 7, 7, 7, 7, 7])
    assert (settled.expected, settled.infinite) == (12, 8)


def test_a_prompt_that_is_spelt_at_its_end_takes_no_room_before_it(texts):
    audit = Audit(texts, Spelt(texts, BLOCK, 7))
    play(audit, "1", "a" * 18, late=engine("a" * 18))
    _, settled = play(audit, "2", "a" * 19, late=engine("a" * 19))
    assert (settled.attainable, settled.infinite) == (20, 20)


def test_a_prompt_that_the_engine_never_spells_takes_up_room(texts):
    audit = Audit(texts, Spelt(texts, BLOCK, 7))
    play(audit, "1", "a" * 18, ids=engine("a" * 18))
    play(audit, "2", "b" * 30, said=Said("c"))
    first, _ = play(audit, "3", "a" * 18, ids=engine("a" * 18))
    assert (first.expected, first.infinite) == (0, 20)


def test_a_small_cache_forgets_in_the_engines_tokens(texts):
    audit = Audit(texts, Spelt(texts, BLOCK, 4))
    play(audit, "1", "abcdefgh", ids=list(range(9)))
    play(audit, "2", "ijklmnop", ids=list(range(100, 109)))
    first, _ = play(audit, "3", "abcdefgh", ids=list(range(9)))
    assert (first.expected, first.infinite) == (4, 8)


def test_ids_of_the_client_are_the_engines_own(audit):
    asked = facts(Prompt(ids=(tuple(range(9)),)))
    audit.dispatched("1", asked, 0)
    audit.ended("1", Said("x", (9, 10, 11, 12)), None, [5, 5, 5, 5, 5])
    assert audit.predict("2", facts(Prompt(ids=((*range(12), 1),))), 0).expected == 12
    assert audit.predict("3", asking("abcdefgh"), 0, [*range(12), 1]).expected == 12


def test_several_prompts_are_kept_each_by_itself(audit):
    asked = facts(Prompt(texts=("a" * 9, "b" * 9)))
    audit.dispatched("1", asked, 0)
    audit.ended("1", Said("x"), None)
    assert audit.predict("2", asked, 0).expected == 16


def test_text_seen_under_another_beginning_is_a_break_in_the_engines_tokens_too(audit):
    rules = "\n".join(f"rule number {k} of the house" for k in range(20))
    double = [token for letter in rules for token in (ord(letter), 7)]
    play(audit, "1", "10:01\n" + rules, ids=[1, *double])
    _, settled = play(audit, "2", "10:02\n" + rules, ids=[2, *double])
    bins = dict(settled.bins)
    assert sum(bins.values()) == settled.tokens == 1 + len(double)
    assert 0.9 * settled.tokens < bins["text_break"] <= settled.tokens


def test_a_restarted_engine_has_nothing_in_any_tokens(audit):
    play(audit, "1", "a" * 10, ids=engine("a" * 10))
    audit.restarted()
    assert audit.predict("2", asking("a" * 10), 0, engine("a" * 10)).infinite == 0
    assert audit.predict("3", asking("a" * 10), 0).infinite == 0


def test_another_replica_has_it_in_its_own_tokens(texts):
    caches = [Spelt(texts, BLOCK), Spelt(texts, BLOCK)]
    one, other = (Audit(texts, cache, caches) for cache in caches)
    play(one, "1", "a" * 10, ids=engine("a" * 10))
    _, settled = play(other, "2", "a" * 10, ids=engine("a" * 10))
    assert dict(settled.bins)["other_replica"] == 12


@pytest.mark.parametrize("make", [lambda texts: Blocks(texts, BLOCK), lambda texts: Slots(texts, 1)])
def test_a_cache_that_is_not_kept_in_the_engines_tokens_pays_them_no_heed(texts, make):
    told, untold = Audit(texts, make(texts)), Audit(texts, make(texts))
    for number in range(2):
        spoken = play(told, str(number), "a" * 10, ids=[1, 2, 3], late=[4, 5, 6], said=Said("b"))
        assert spoken == play(untold, str(number), "a" * 10, said=Said("b"))
