from array import array

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


def test_memory_keeps_what_is_used_and_is_bounded():
    memory: Generations[int] = Generations(10)
    for n in range(100):
        memory.put(n, n)
        memory.put(-1, n) if n % 5 == 0 else memory.get(-1)
    assert memory.get(-1) == 95
    assert memory.get(0) is None
    assert len(memory._young) + len(memory._old) <= 22


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
