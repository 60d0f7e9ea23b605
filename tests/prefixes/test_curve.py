from hypothesis import given
from hypothesis import strategies as st

from proxy.prefixes.curve import INFINITE, Stack, reuse


@given(st.lists(st.integers(0, 12), max_size=120), st.integers(1, 8))
def test_distances_are_those_of_a_list_kept_by_hand(uses, room):
    stack, order = Stack(room), []
    for key in uses:
        expected = order[::-1].index(key) if key in order else INFINITE
        assert stack.distance(key) == expected
        assert (key in stack) == (key in order)
        stack.touch([key])
        order = [k for k in order if k != key] + [key]
    assert len(stack) == len(order)


def test_the_oldest_keys_are_forgotten_first():
    stack = Stack()
    stack.touch([1, 2, 3])
    stack.forget(2)
    stack.forget(5)
    assert [stack.distance(key) for key in (1, 2, 3)] == [INFINITE, 1, 0]


@given(st.lists(st.lists(st.integers(0, 9), unique=True, max_size=6), max_size=30), st.integers(0, 8))
def test_reuse_is_what_a_cache_of_that_size_gives(requests, size):
    stack, cache = Stack(), []
    for keys in requests:
        expected = next((k for k, key in enumerate(keys) if key not in cache), len(keys))
        assert reuse(stack, keys, len(keys), [size, INFINITE])[0] == expected
        stack.touch(reversed(keys))
        for key in reversed(keys):
            cache = [k for k in cache if k != key] + [key]
        cache = cache[max(0, len(cache) - size) :]
