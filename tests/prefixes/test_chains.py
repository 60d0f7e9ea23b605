import gc
import tracemalloc
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefixes.canon import render
from proxy.prefixes.chains import LONGEST, Chains, Generations, blocks, messages, pack, root_of
from tests.prefixes.prompts import chat, raw

ROOT = root_of(b"key", "engine", "model")
texts = st.text("abc ", max_size=40)


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def shared(one, other):
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), texts), max_size=6), st.integers(1, 7))
def test_a_chain_by_segments_is_the_chain_of_the_tokens(pairs, block):
    chains = Chains(letters, block)
    segments = render(chat(*pairs)) if pairs else ()
    whole = [n for s in segments for n in ([s.marker] if s.marker else letters(s.text))]
    for _ in range(2):  # the second time every step is known
        assert list(chains.chain(ROOT, segments).keys) == list(chains.of_ids(ROOT, whole).keys)
        assert chains.chain(ROOT, segments).tail == chains.of_ids(ROOT, whole).tail


@given(texts, texts, st.integers(1, 5))
def test_keys_agree_exactly_as_far_as_whole_blocks_do(one, other, block):
    chains = Chains(letters, block)
    a, b = (chains.chain(ROOT, render(raw(text))) for text in (one, other))
    assert shared(a.keys, b.keys) == shared(one, other) // block


def test_nothing_is_shared_between_models_salts_or_installs():
    roots = [root_of(b"key", "e", "m"), root_of(b"key", "e", "n"), root_of(b"key", "em"), root_of(b"other", "e", "m")]
    chains = Chains(letters, 1)
    assert len({chains.of_ids(root, [1]).keys[0] for root in roots}) == 4


@given(texts, texts, st.integers(1, 5))
def test_an_answer_continues_the_chain_of_its_prompt(prompt, answer, block):
    chains = Chains(letters, block)
    chain = chains.chain(ROOT, render(raw(prompt)))
    whole = chains.of_ids(ROOT, letters(prompt + answer))
    for extended in (chains.extend(ROOT, chain, answer), chains.extend(ROOT, chain, letters(answer))):
        assert (list(extended.keys), extended.tokens, extended.tail) == (list(whole.keys), whole.tokens, whole.tail)


def test_one_token_is_always_computed():
    chains = Chains(letters, 4)
    assert [chains.of_ids(ROOT, range(n)).usable(4) for n in (0, 3, 4, 5, 8, 9)] == [0, 0, 0, 1, 1, 2]


def test_text_beyond_the_bound_is_counted_and_not_followed():
    chains = Chains(lambda text: range(len(text)), 16)
    chain = chains.chain(ROOT, render(raw("x" * (LONGEST + 100))))
    assert (chain.tokens, len(chain.keys)) == (LONGEST + 100, LONGEST // 16)
    assert len(chains.extend(ROOT, chain, [1] * 64).keys) == LONGEST // 16


def test_text_seen_before_is_not_encoded_again():
    seen = []
    chains = Chains(lambda text: seen.append(text) or letters(text), 4)
    first = chat(("system", "a long text"), ("user", "x"))
    chains.chain(ROOT, render(first))
    assert chains.strange(render(chat(("user", "a long text"), ("user", "y")))) == ["y"]
    seen.clear()
    chains.learn("y", letters("y"))
    chains.chain(ROOT, render(chat(("user", "a long text"), ("user", "y"))))
    assert seen == []


def test_text_is_not_kept():
    chains = Chains(letters, 4)
    chains.chain(ROOT, render(raw("planted-secret")))
    assert "planted-secret" not in repr([vars(chains._steps), vars(chains._packed)])


USES = st.lists(st.tuples(st.sampled_from(["put", "get", "drop"]), st.integers(0, 12), st.integers(1, 6)), max_size=80)


@given(USES, st.integers(1, 12))
def test_memory_keeps_what_is_used_and_is_bounded(uses, limit):
    memory: Generations[int] = Generations(limit, lambda weight: weight)
    used: dict[int, tuple[int, int]] = {}  # what is kept, and how much was used when it was last
    total = 0
    for use, key, weight in uses:
        if use == "drop":
            memory.drop(key)
            used.pop(key, None)
            continue
        found = memory.get(key)
        if key in used and total - used[key][1] <= limit:
            assert found == used[key][0]
        value = weight if use == "put" else found
        if use == "put":
            memory.put(key, weight)
        if value is not None:
            total += value + (found or 0) * (use == "put")
            used[key] = value, total
        assert sum([*memory._young.values(), *memory._old.values()]) <= 2 * limit + 6


def test_what_is_used_stays_and_takes_no_more_room_than_there_is():
    memory: Generations[int] = Generations(1_000)
    for key in range(20_000):
        memory.put(key, key)
        if key % 500 == 0:
            for one in range(0, key, 7):
                memory.get(one)
        memory.get(3)
    assert memory.get(3) == 3
    assert len(memory._young) + len(memory._old) <= 2_001


@pytest.mark.parametrize("tokens", [1, 40, 600], ids=["short", "usual", "long"])
def test_conversations_that_all_go_on_take_bounded_memory(monkeypatch, tokens):
    monkeypatch.setattr("proxy.prefixes.chains.KEPT_STEPS", 200_000)
    monkeypatch.setattr("proxy.prefixes.chains.KEPT_TEXTS", 200_000)
    said = [[(f"{talk} {turn} ".ljust(tokens, "x"), "user") for turn in range(12)] for talk in range(30)]
    tracemalloc.start()
    chains = Chains(letters, 4)
    for turn in range(1, 13):
        for talk in said:
            segments = render(chat(*((role, text) for text, role in talk[:turn])))
            chains.strange(segments)
            chains.chain(ROOT, segments)
            del segments
    before = tracemalloc.get_traced_memory()[0]
    del chains
    gc.collect()
    assert before - tracemalloc.get_traced_memory()[0] <= 4 * 200_000 * 1.25 + 50_000
    tracemalloc.stop()


def test_conversations_that_go_on_are_not_tokenised_again():
    chains = Chains(lambda text: [1] * (len(text) // 4), 16)
    talks = [[("user", f"{talk} {turn} ".ljust(1_600)) for turn in range(50)] for talk in range(300)]
    for _ in range(2):
        for talk in talks:
            chains.chain(ROOT, render(chat(*talk)))
    assert [text for talk in talks for text in chains.strange(render(chat(*talk)))] == []


def test_blocks_are_eight_bytes():
    assert isinstance(blocks(0, b"abcd" * 4, 4), array)
    assert blocks(0, b"abcd" * 4, 4).itemsize == 8


def test_a_prompt_is_cut_behind_each_message():
    segments = render(chat(("system", "a"), ("user", "b")))
    assert [len(piece) for piece in messages(segments)] == [5, 5, 2]
    assert [list(piece) for piece in messages(render(raw("a")))] == [list(render(raw("a")))]
    assert list(messages(())) == []


def test_ids_that_no_engine_has_do_no_harm():
    assert pack([-1, 1 << 40]) == array("I", [0xFFFFFFFF, 0]).tobytes()


def test_tokens_of_a_prompt_can_be_had_packed():
    chains = Chains(letters, 4)
    assert chains.packed(render(raw("ab"))) == array("I", [97, 98]).tobytes()
