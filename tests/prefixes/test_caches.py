import pytest

from proxy.events import Said
from proxy.prefixes.caches import Blocks, Slots, Texts, cache_of, replicas_of
from proxy.prefixes.canon import render
from proxy.prefixes.ledger import Sight
from proxy.prefixes.reading import Reading
from proxy.records import PrefixVerdict, Prompt
from tests.prefixes.prompts import chat


def letters(text):
    return [ord(letter) for letter in text]


@pytest.fixture
def texts():
    return Texts(letters, b"key")


def reading(texts, text):
    segments = render(chat(("user", text)))
    chain = texts.chains(16).chain(1, segments)
    nothing = Sight(chain.tokens, 0, 0, 0, 0, 0)
    return Reading("1", "m", 1, chat(("user", text)), segments, (chain,), nothing, PrefixVerdict(16, chain.tokens))


def test_lines_seen_before_are_known_again(texts):
    line = "a line that is long enough to be remembered"
    assert texts.repeated(reading(texts, f"one\n{line}"), 0) == 0
    again = reading(texts, f"two, another\n{line}")
    assert 0.7 * len(line) < texts.repeated(again, 0) <= again.sight.tokens
    assert texts.repeated(again, again.sight.tokens) == 0


@pytest.mark.parametrize("between", ["\n", " "], ids=["lines", "one long line"])
def test_what_is_cached_of_a_text_says_nothing_of_the_rest(texts, between):
    def words(beginning, count):
        return between.join(f"the {beginning}{number:02} thing of this house" for number in range(count))

    rules = words("rule", 40)
    first = reading(texts, rules)
    texts.repeated(first, 0)
    behind = len("_user\n") + len(rules)
    new = reading(texts, rules + between + words("news", 40))
    assert texts.repeated(new, behind) < 0.05 * new.tokens
    again = reading(texts, words("lead", 20) + between + words("news", 40))
    assert 0.5 * again.tokens < texts.repeated(again, 0) < 0.75 * again.tokens


@pytest.mark.parametrize("asked", [range(1_000, 1_400), [k * 7_919 % 50_000 for k in range(400)]], ids=["row", "mixed"])
def test_token_ids_seen_behind_another_beginning_are_known_again(texts, asked):
    assert texts.repeated(spelt(texts, 5, *asked), 0) == 0
    assert 250 < texts.repeated(spelt(texts, 6, *asked), 0) <= 401
    assert texts.repeated(spelt(texts, 7, *asked), 401) == 0
    assert texts.repeated(spelt(texts, 2**32 - 1, *asked), 0) == 0, "no vocabulary has such an id"


def test_chains_of_one_block_size_are_shared(texts):
    assert texts.chains(16) is texts.chains(16)
    assert texts.chains(16) is not texts.chains(32)


def test_replicas_hold_prompts_in_the_same_blocks(texts):
    one, other, third = Blocks(texts, 16), Blocks(texts, 16), Blocks(texts, 32)
    slots = cache_of("ollama", texts, None, None, 4)
    assert isinstance(slots, Slots)
    assert replicas_of([one, other, third, slots], one) == [other]


def test_blocks_take_a_prompt_and_its_answer(texts):
    cache, asked = Blocks(texts, 16), reading(texts, "q" * 40)
    cache.begin(asked)
    cache.end(asked, Said("a" * 40))
    assert cache.look(asked).resident == cache.look(asked).usable
    cache.clear()
    assert cache.look(asked).resident == 0


def spelt(texts, *ids):
    prompt, chain = Prompt(ids=(ids,)), texts.chains(16).of_ids(1, ids)
    return Reading("1", "m", 1, prompt, (), (chain,), Sight(len(ids), 0, 0, 0, 0, 0), PrefixVerdict(16, len(ids)))


def test_of_an_answer_in_ids_all_is_kept_but_the_last_token(texts):
    prompt, answer = range(1_000, 1_030), range(1_030, 1_049)
    for written, found in ((answer, 48), (answer[:-1], 32)):
        cache = Blocks(texts, 16)
        cache.begin(spelt(texts, *prompt))
        cache.end(spelt(texts, *prompt), Said("words", tuple(written)))
        assert cache.look(spelt(texts, *prompt, *answer, 7)).resident == found


def test_ids_of_an_answer_are_of_no_use_to_a_prompt_of_text(texts):
    cache, asked = Blocks(texts, 16), reading(texts, "q" * 40)
    cache.begin(asked)
    cache.end(asked, Said("a" * 40, (1, 2, 3)))
    assert cache.look(reading(texts, "q" * 40)).resident == asked.chains[0].usable(16) * 16


def test_one_block_of_a_full_cache_is_not_full(texts):
    cache, one = Blocks(texts, 16, 4), spelt(texts, *range(49))
    cache.begin(one)
    assert cache.look(one).resident == 48
    cache.begin(spelt(texts, *range(100, 117)))
    assert cache.look(one).resident == 32


def test_slots_tell_what_was_there_when_the_turn_came(texts):
    cache, first, second = Slots(texts, 1), reading(texts, "q" * 40), reading(texts, "q" * 40)
    first.number, second.number = 1, 2
    assert cache.found(first) is None
    cache.begin(first)
    cache.begin(second)
    assert cache.found(first) == 0
    assert cache.found(second) == second.sight.tokens - 1
    cache.end(first, Said("a"))
    assert cache.found(second) == second.sight.tokens - 1
    cache.clear("m")
    assert cache.found(second) == 0


def test_a_slot_takes_a_prompt_and_its_answer(texts):
    cache, asked = Slots(texts, 1), reading(texts, "q" * 40)
    cache.begin(asked)
    cache.end(asked, Said())
    assert cache.look(asked).resident == cache.look(asked).usable == asked.sight.tokens - 1
