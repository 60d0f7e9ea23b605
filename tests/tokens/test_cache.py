import tracemalloc

from proxy.tokens.cache import ENTRY_BYTES, Cache
from proxy.tokens.shapes import Shape


def cache(entries: int) -> Cache:
    return Cache(entries * ENTRY_BYTES)


def test_a_shape_is_found_by_its_text() -> None:
    kept = cache(2)
    kept.put("text", Shape(tokens=1))
    assert kept.get("text") == Shape(tokens=1)
    assert kept.get("other") is None


def test_the_least_recently_used_goes_first() -> None:
    kept = cache(2)
    kept.put("a", Shape(1))
    kept.put("b", Shape(2))
    kept.get("a")
    kept.put("c", Shape(3))
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (Shape(1), None, Shape(3))
    assert len(kept) == 2


def test_an_entry_takes_no_more_than_it_is_counted_for() -> None:
    kept = cache(2_000)
    tracemalloc.start()
    for n in range(2_000):
        kept.put(str(n), Shape(*range(n + 1_000, n + 1_000 + len(Shape()))))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 * ENTRY_BYTES < size / 2_000 < 1.05 * ENTRY_BYTES
