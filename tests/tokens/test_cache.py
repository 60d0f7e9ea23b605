import tracemalloc

from proxy.tokens.cache import ENTRY_BYTES, Cache
from proxy.tokens.shapes import Shape


def cache(entries: int, key: bytes = b"key") -> Cache:
    return Cache(entries * ENTRY_BYTES, key)


def test_a_shape_is_found_by_its_digest() -> None:
    kept = cache(2)
    kept.put(kept.digest(b"text"), Shape(tokens=1))
    assert kept.get(kept.digest(b"text")) == Shape(tokens=1)
    assert kept.get(kept.digest(b"other")) is None


def test_the_least_recently_used_goes_first() -> None:
    kept = cache(2)
    a, b, c = map(kept.digest, (b"a", b"b", b"c"))
    kept.put(a, Shape(1))
    kept.put(b, Shape(2))
    kept.get(a)
    kept.put(c, Shape(3))
    assert (kept.get(a), kept.get(b), kept.get(c)) == (Shape(1), None, Shape(3))
    assert len(kept) == 2


def test_digests_of_two_processes_have_nothing_in_common() -> None:
    assert cache(1, b"one").digest(b"text") != cache(1, b"two").digest(b"text")


def test_an_entry_takes_no_more_than_it_is_counted_for() -> None:
    kept = cache(2_000)
    tracemalloc.start()
    for n in range(2_000):
        kept.put(kept.digest(b"%d" % n), Shape(*range(n + 1_000, n + 1_000 + len(Shape()))))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 * ENTRY_BYTES < size / 2_000 < 1.05 * ENTRY_BYTES
