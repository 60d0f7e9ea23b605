from hypothesis import given
from hypothesis import strategies as st

from proxy.prefixes.chains import TOKEN, Chain, pack
from proxy.prefixes.shadow import RESTORE, SAVED, Added, BlockShadow, Leading, SlotShadow, common


def chain(keys):
    return Chain(keys, len(keys) + 1, b"")


def packed(text):
    return pack([ord(letter) for letter in text])


@given(st.lists(st.lists(st.integers(0, 9), unique=True, max_size=6), max_size=30), st.integers(0, 8))
def test_it_holds_what_an_lru_cache_of_that_many_blocks_holds(requests, capacity):
    shadow, cache, ever = BlockShadow(capacity), [], set()
    for keys in requests:
        here = next((k for k, key in enumerate(keys) if key not in cache), len(keys))
        known = next((k for k, key in enumerate(keys) if key not in ever), len(keys))
        assert shadow.look(chain(keys), 1) == Leading(here, known)
        shadow.hold(keys)
        for key in reversed(keys):
            cache = [k for k in cache if k != key] + [key]
        cache = cache[max(0, len(cache) - capacity) :]
        ever |= set(keys)
        assert len(shadow) == len(ever)


def test_of_a_prompt_that_was_not_read_nothing_is_there_but_what_others_brought_or_used():
    shadow = BlockShadow(None)
    shadow.hold([1, 2], 1)
    shadow.hold([1, 2, 3, 4], 2)
    shadow.hold([1, 2, 3], 3)
    shadow.withdraw([1, 2, 3, 4], 2)
    assert shadow.look(chain([1, 2, 3, 4]), 1) == Leading(3, 3)
    shadow.withdraw([1, 2, 3], 3)
    shadow.withdraw([1, 2], 1)
    assert shadow.look(chain([1, 2, 3, 4]), 1) == Leading(3, 3)


def test_what_was_evicted_and_came_back_for_a_prompt_that_was_not_read_is_evicted_again():
    shadow = BlockShadow(2)
    shadow.hold([1, 2])
    shadow.hold([3, 4])
    shadow.hold([1, 2], 5)
    shadow.withdraw([1, 2], 5)
    assert shadow.look(chain([1, 2]), 1) == Leading(0, 2)


def test_memory_of_evicted_blocks_is_bounded_too():
    for capacity, remembered, kept in ((2, 5, 5), (None, 5, 7), (8, 5, 12)):
        shadow = BlockShadow(capacity, remembered)
        shadow.hold(range(20))
        assert len(shadow) == kept


def test_a_cache_of_unknown_size_forgets_by_our_own_bound_and_learns_its_size_later():
    shadow = BlockShadow(None)
    shadow.hold([1, 2, 3])
    shadow.resize(1)
    assert shadow.look(chain([1, 2, 3]), 1) == Leading(1, 3)
    shadow.clear()
    assert shadow.look(chain([1]), 1) == Leading(0, 0)


@given(st.text("ab"), st.text("ab"))
def test_the_common_prefix_is_counted_in_tokens(one, other):
    expected = next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    assert common(packed(one), packed(other)) == expected


def test_a_repeated_prompt_computes_its_last_token():
    slots = SlotShadow(1)
    taken = slots.begin(packed("hello world"))
    slots.end(taken.slot, packed("hello world, yes"))
    assert (taken.reused, slots.look(packed("hello world"))) == (0, 10)


def test_a_slot_at_work_shares_nothing():
    slots = SlotShadow(2)
    slots.begin(packed("hello world"))
    assert slots.begin(packed("hello world"))[:2] == (1, 0)


def test_with_all_slots_at_work_the_request_waits_for_the_best_one():
    slots = SlotShadow(1)
    slots.begin(packed("hello world"))
    assert slots.begin(packed("hello worlds"))[1] == 11


def test_the_least_recently_used_slot_is_taken_for_a_strange_prompt():
    slots = SlotShadow(2)
    for text in ("aaaa", "bbbb"):
        slots.end(slots.begin(packed(text))[0], packed(text))
    assert slots.begin(packed("cccc"))[0] == 0


def test_a_slot_whose_prompt_was_not_read_has_what_it_had():
    slots = SlotShadow(1)
    slots.end(slots.begin(packed("aaaaaaaa"))[0], packed("aaaaaaaa"))
    slots.withdraw(slots.begin(packed("bbbbbbbb")), packed("bbbbbbbb"))
    assert (slots.look(packed("aaaaaaaaa")), slots.look(packed("bbbbbbbbb"))) == (8, 0)
    assert not slots._busy
    at_work = slots.begin(packed("aaaaaaaaa"))
    slots.withdraw(slots.begin(packed("cccccccc")), packed("cccccccc"))
    assert slots._busy == {at_work.slot}
    refused = slots.begin(packed("dddddddd"))
    slots.begin(packed("ddddddddd"))
    slots.withdraw(refused, packed("dddddddd"))
    assert slots.look(packed("dddddddddd")) == 9


def test_what_was_put_aside_for_a_prompt_that_was_not_read_is_in_its_slot_alone():
    slots = SlotShadow(1)
    slots.end(slots.begin(packed("aaaaaaaa"))[0], packed("aaaaaaaa"))
    refused = slots.begin(packed("bbbbbbbb"))
    assert list(slots._saved) == [packed("aaaaaaaa")]
    slots.withdraw(refused, packed("bbbbbbbb"))
    assert not slots._saved
    slots.begin(packed("bbbbbbbb"))
    slots.withdraw(slots.begin(packed("cccccccc")), packed("cccccccc"))
    assert list(slots._saved) == [packed("aaaaaaaa")], "of another one, which was read"


def test_what_the_template_adds_counts_for_how_alike_prompts_are():
    for added, slot in ((Added(), 1), (Added(opening=2, template=50), 1), (Added(opening=1, template=50), 0)):
        slots = SlotShadow(2)
        slots.end(slots.begin(packed("uHi"))[0], packed("uHi there"))
        taken = slots.begin(packed("u" + "x" * 30), added)
        assert (taken.slot, taken.reused, taken.saved) == (slot, 1 - slot, False)


def test_what_came_back_from_host_memory_for_a_prompt_that_was_not_read_is_there_again():
    slots = SlotShadow(1)
    for text in ("aaaaaaaa", "bbbbbbbb"):
        slots.end(slots.begin(packed(text))[0], packed(text))
    slots.withdraw(slots.begin(packed("aaaaaaaaaa")), packed("aaaaaaaaaa"))
    assert (slots.look(packed("aaaaaaaaaa")), slots.look(packed("bbbbbbbbbb"))) == (8, 8)


def test_a_prompt_put_aside_comes_back_from_host_memory():
    slots = SlotShadow(1)
    for text in ("aaaaaaaa", "bbbbbbbb"):
        slots.end(slots.begin(packed(text))[0], packed(text))
    assert slots.begin(packed("aaaaaaaaaa"))[1] == 8
    assert slots.look(packed("bbbbbbbb")) == 7


def test_a_prompt_that_is_the_begin_of_a_saved_one_is_not_saved():
    slots = SlotShadow(2)
    texts = ("aaaaaaaa", "aaaa")
    taken = [slots.begin(packed(text))[0] for text in texts]
    for slot, text in zip(taken, texts, strict=True):
        slots.end(slot, packed(text))
    for text in ("cccc", "dddd"):
        slots.end(slots.begin(packed(text))[0], packed(text))
    assert list(slots._saved) == [packed("aaaaaaaa")]


def test_host_memory_is_bounded_and_keeps_no_prompt_twice():
    slots = SlotShadow(1, saved_tokens=8)
    for text in ("aaaa", "bbbb", "aaaaaa", "bbbbbb", "cccccc", "dddddd"):
        slots.end(slots.begin(packed(text))[0], packed(text))
    assert sum(map(len, slots._saved)) <= 8 * 4
    slots.clear()
    assert slots.look(packed("dddddd")) == 0


def test_prompts_in_host_memory_are_bounded_however_short_they_are():
    slots = SlotShadow(1)
    for number in range(SAVED + 50):
        slots.end(slots.begin(pack([number, number])).slot, pack([number, number]))
    assert len(slots._saved) == SAVED
    assert slots.look(pack([0, 0, 1])) == 0
    assert slots.look(pack([100, 100, 1])) == 2


class Whole(SlotShadow):
    """Holds every saved prompt against the new one, as llama.cpp does."""

    def _better(self, packed, held, shared, added):
        best, keep = None, added.to(shared) / max(1, len(held) // TOKEN + added.template)
        for saved in self._saved:
            found = common(saved, packed)
            kept = added.to(found) / (len(saved) // TOKEN + added.template)
            if kept >= RESTORE and kept > keep and found > shared:
                best, keep, shared = saved, kept, found
        return best


PROMPTS = st.lists(st.tuples(st.text("ab", min_size=1, max_size=24), st.integers(1, 3), st.integers(0, 9)), max_size=40)


@given(PROMPTS, st.integers(1, 3))
def test_prompts_that_are_passed_over_are_none_that_would_come_back(prompts, count):
    quick, whole = SlotShadow(count), Whole(count)
    for text, opening, template in prompts:
        both = [slots.begin(packed(text), Added(opening, template)) for slots in (quick, whole)]
        assert both[0] == both[1]
        for slots in (quick, whole):
            slots.end(both[0].slot, packed(text + "b"))
        assert quick._saved == whole._saved


def test_those_that_wait_will_be_there_before():
    slots = SlotShadow(2)
    for text in ("aaaa", "bbbb"):
        slots.begin(packed(text))
    assert not slots.free
    ahead = [packed("dddd")]
    found = [slots.look(packed(text * 5), ahead=ahead) for text in "abd"]
    assert found == [0, 4, 4], "the slot that is at work for the longest time is free first"
    assert [slots.look(packed(text * 5)) for text in "abd"] == [4, 4, 0]


def test_a_load_empties_slots_and_host_memory_and_those_at_work_stay_at_work():
    slots = SlotShadow(2)
    busy = slots.begin(packed("aaaa"))
    for text in ("bbbb", "cccc"):
        slots.end(slots.begin(packed(text)).slot, packed(text))
    slots.clear()
    assert [slots.look(packed(text)) for text in ("aaaa", "bbbb", "cccc")] == [0, 0, 0]
    assert slots.begin(packed("dddd")).slot != busy.slot
    slots.withdraw(busy, packed("aaaa"))
    assert slots.look(packed("aaaa")) == 0
    assert slots.begin(packed("eeee")).slot == busy.slot
