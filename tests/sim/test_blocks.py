import random

import pytest

from proxy.sim.blocks import Blocks, chain


def names(*words: str) -> list[int]:
    """Chains of blocks that hold these words."""
    made: list[int] = []
    for word in words:
        made.append(chain(made[-1] if made else 0, tuple(word.encode()), ""))
    return made


def filled(pool: Blocks, *words: str) -> list[int]:
    """Blocks taken and named after these words."""
    held = pool.take(len(words))
    for block, name in zip(held, names(*words), strict=True):
        pool.name(block, name)
    return held


def test_a_chain_depends_on_all_before_it_and_on_the_salt() -> None:
    assert names("x", "y")[1] != names("z", "y")[1]
    assert chain(0, (1,), "") != chain(0, (1,), "tenant")


def test_contents_are_found_while_held_and_after() -> None:
    pool = Blocks(8)
    held = filled(pool, "a", "b")
    assert pool.find(names("a", "b", "c")) == held
    pool.release(held)
    assert pool.find(names("a", "b", "c")) == held
    assert pool.free == pool.usable == 7


def test_only_the_run_from_the_first_block_counts() -> None:
    pool = Blocks(8)
    filled(pool, "a", "b")
    assert pool.find([names("x")[0], names("a", "b")[1]]) == []


def test_the_end_of_a_sequence_is_forgotten_before_its_beginning() -> None:
    pool = Blocks(5)
    held = filled(pool, "a", "b", "c", "d")
    pool.release(held)
    pool.take(1)
    assert pool.find(names("a", "b", "c", "d")) == held[:3]


def test_empty_blocks_are_reused_before_contents() -> None:
    pool = Blocks(5)
    full, empty = filled(pool, "a", "b"), pool.take(2)
    pool.release(full)
    pool.release(empty)
    assert pool.take(2) == empty[::-1]
    assert pool.find(names("a", "b")) == full


def test_the_least_recently_used_contents_go_first() -> None:
    pool = Blocks(4)
    old, new = filled(pool, "a"), filled(pool, "b")
    pool.release(old)
    pool.release(new)
    pool.hold(old)
    pool.release(old)
    pool.take(2)
    assert pool.find(names("a")) == old
    assert pool.find(names("b")) == []


def test_a_shared_block_is_free_only_when_the_last_holder_lets_go() -> None:
    pool = Blocks(3)
    held = filled(pool, "a")
    assert pool.idle(held) == 0
    pool.hold(held)
    pool.release(held)
    assert pool.free == 1
    pool.release(held)
    assert (pool.free, pool.idle(held)) == (2, 1)


def test_contents_held_twice_survive_the_loss_of_one_copy() -> None:
    pool = Blocks(3)
    one, two = filled(pool, "a"), filled(pool, "a")
    pool.release(one)
    pool.take(1)
    assert pool.find(names("a")) == two


def test_the_placeholder_is_never_handed_out() -> None:
    pool = Blocks(4)
    assert 0 not in pool.take(3)
    with pytest.raises(KeyError):
        pool.take(1)


def test_no_block_is_lost_or_doubled_under_random_use() -> None:
    source, pool, held = random.Random(3), Blocks(20), list[list[int]]()
    for turn in range(500):
        if held and (source.random() < 0.5 or pool.free < 5):
            pool.release(held.pop(source.randrange(len(held))))
        else:
            held.append(filled(pool, *(str(source.randrange(4)) for _ in range(source.randrange(1, 5)))))
        assert pool.free + sum(map(len, held)) == pool.usable, turn
    assert repr(pool).startswith("<Blocks")
