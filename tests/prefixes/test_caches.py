import pytest

from proxy.events import Said
from proxy.prefixes.caches import AT_ONCE, Blocks, Slots, cache_of, replicas_of
from proxy.prefixes.texts import Texts
from tests.prefixes.readings import ids, letters, reading


@pytest.fixture
def texts():
    return Texts(letters, b"key")


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


def test_of_an_answer_in_ids_all_is_kept_but_the_last_token(texts):
    prompt, answer = range(1_000, 1_030), range(1_030, 1_049)
    for written, found in ((answer, 48), (answer[:-1], 32)):
        cache = Blocks(texts, 16)
        cache.begin(ids(texts, *prompt))
        cache.end(ids(texts, *prompt), Said("words", tuple(written)))
        assert cache.look(ids(texts, *prompt, *answer, 7)).resident == found


def test_ids_of_an_answer_are_of_no_use_to_a_prompt_of_text(texts):
    cache, asked = Blocks(texts, 16), reading(texts, "q" * 40)
    cache.begin(asked)
    cache.end(asked, Said("a" * 40, (1, 2, 3)))
    assert cache.look(reading(texts, "q" * 40)).resident == asked.chains[0].usable(16) * 16


@pytest.mark.parametrize(("theirs", "blocks"), [(500, 64), (1_000, 32), (2_000, 16)])
def test_room_is_in_tokens_of_the_engine(texts, theirs, blocks):
    cache = Blocks(texts, 16, 33)
    for _ in range(200):
        cache.fit(1_000, theirs)
    for number in range(80):
        cache.begin(ids(texts, *range(number * 100, number * 100 + 17)))
    kept = sum(cache.look(ids(texts, *range(number * 100, number * 100 + 17))).resident for number in range(80))
    assert kept / 16 == pytest.approx(blocks, rel=0.05)


def test_room_changes_by_little_at_once_and_not_where_it_is_not_known(texts):
    cache, endless = Blocks(texts, 16, 100_001), Blocks(texts, 16)
    for one in (cache, endless):
        one.fit(10**6, 10**7)
        one.fit(0, 7)
        one.fit(7, 0)
    assert cache._fitted == 100_000 - AT_ONCE
    assert endless._fitted == 0


def test_one_block_of_a_full_cache_is_not_full(texts):
    cache, one = Blocks(texts, 16, 4), ids(texts, *range(49))
    cache.begin(one)
    assert cache.look(one).resident == 48
    cache.begin(ids(texts, *range(100, 117)))
    assert cache.look(one).resident == 32


def test_slots_tell_what_was_there_when_the_turn_came(texts):
    cache, first, second = Slots(texts, 1), reading(texts, "q" * 40), reading(texts, "q" * 40)
    first.number, second.number = 1, 2
    assert cache.found(first) == 0
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
