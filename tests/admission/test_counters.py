from proxy.admission.counters import COUNTERS, LOOKS, Counters

SHARED = ("limit", "rule", "(others)")


def own(n: int) -> tuple[str, ...]:
    return ("limit", "rule", f"m{n}")


def full() -> Counters[list[int]]:
    counters = Counters[list[int]]()
    for n in range(COUNTERS):
        counters.keep(own(n), SHARED, lambda: [1])
    return counters


def test_a_counter_is_made_once_and_found_again() -> None:
    counters = Counters[list[int]]()
    assert counters.find(own(0), SHARED) is None
    made = counters.keep(own(0), SHARED, list)
    assert counters.find(own(0), SHARED) is counters.keep(own(0), SHARED, list) is made
    assert len(counters) == 1
    assert list(counters.items()) == [(own(0), made)]


def test_a_crowd_of_models_shares_what_is_left_and_pushes_nobody_out() -> None:
    counters = full()
    first = counters.find(own(0), SHARED)
    assert counters.find(own(-1), SHARED) is None
    assert counters.keep(own(-1), SHARED, list) is counters.keep(own(-2), SHARED, list)
    assert counters.find(own(-3), SHARED) is counters.find(SHARED, SHARED)
    assert counters.find(own(0), SHARED) is first
    assert len(counters) == COUNTERS + 1


def test_what_is_idle_leaves_in_time_and_the_rest_stays() -> None:
    counters = full()
    for n in range(0, COUNTERS, 2):
        counters.keep(own(n), SHARED, list).append(1)
    for _ in range(COUNTERS // LOOKS):
        counters.sweep(lambda counter: len(counter) == 1)
    assert [key for key, _ in counters.items()] == [own(n) for n in range(0, COUNTERS, 2)]
    assert not counters.full
    empty = Counters[int]()
    empty.sweep(lambda counter: True)
    assert len(empty) == 0


def test_some_of_many_are_shown() -> None:
    assert [key for key, _ in full().some(2)] == [own(COUNTERS - 1), own(COUNTERS - 2)]
