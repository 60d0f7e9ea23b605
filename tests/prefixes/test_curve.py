from random import Random

from hypothesis import given
from hypothesis import strategies as st

from proxy.prefixes.curve import INFINITE, Curve, Stack, _bucket, reach, reuse


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
    assert list(stack) == [1, 2, 3]
    stack.forget(2)
    stack.forget(5)
    assert [stack.distance(key) for key in (1, 2, 3)] == [INFINITE, 1, 0]


@given(st.lists(st.lists(st.integers(0, 9), unique=True, max_size=6), max_size=30), st.integers(0, 8))
def test_reuse_is_what_a_cache_of_that_size_gives(requests, size):
    stack, cache = Stack(), []
    for keys in requests:
        expected = next((k for k, key in enumerate(keys) if key not in cache), len(keys))
        assert reuse(reach(stack, keys, len(keys)), size) == expected
        stack.touch(reversed(keys))
        for key in reversed(keys):
            cache = [k for k in cache if k != key] + [key]
        cache = cache[max(0, len(cache) - size) :]


@given(st.lists(st.lists(st.integers(0, 9), unique=True, max_size=6), max_size=30), st.integers(1, 8))
def test_a_curve_read_at_a_size_is_the_rate_of_a_cache_of_that_size(requests, size):
    curve, stack, hits = Curve(), Stack(), 0
    for keys in requests:
        hits += reuse(reach(stack, keys, len(keys)), size)
        stack.touch(reversed(keys))
        curve.add(keys, len(keys), keys)
    blocks = sum(map(len, requests))
    assert curve.points([size]) == [(size, hits / blocks if blocks else 0.0)]
    assert curve.every == 1


def test_above_its_size_a_curve_samples_and_stays_near_the_truth():
    draw = Random(7)
    requests = [[hash((1, int(draw.expovariate(1 / 1_500))))] for _ in range(20_000)]
    exact, sampled = Curve(1 << 30), Curve(400)
    for keys in requests:
        exact.add(keys, 1, keys)
        sampled.add(keys, 1, keys)
    assert sampled.every > 1
    assert len(sampled._stack) <= 400
    for size in (64, 512, 2_048):
        assert abs(sampled.rate(size) - exact.rate(size)) < 0.08


@given(st.integers(0, 1 << 40))
def test_buckets_rise_with_the_size_and_are_narrow(size):
    assert _bucket(size) <= _bucket(size + 1) <= _bucket(size) + 1
    assert size == 0 or _bucket(size) < _bucket(int(size * 1.126) + 1)
