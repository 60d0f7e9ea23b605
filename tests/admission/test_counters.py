from proxy.admission.counters import COUNTERS, LOOKS, TENANTS, Counters, Keys

SHARED = ("limit", "rule", "(others)", "")
CROWD = ("limit", "rule", "(others)", "(others)")


def own(n: int) -> tuple[str, ...]:
    return ("limit", "rule", f"m{n}", "")


def keys(n: int) -> Keys:
    return own(n), SHARED, CROWD


def tenant(n: int) -> Keys:
    return ("limit", "rule", "m", f"t{n}"), ("limit", "rule", "(others)", f"t{n}"), CROWD


def full() -> Counters[list[int]]:
    counters = Counters[list[int]]()
    for n in range(COUNTERS):
        counters.keep(keys(n), lambda: [1])
    return counters


def test_a_counter_is_made_once_and_found_again() -> None:
    counters = Counters[list[int]]()
    assert counters.find(keys(0)) is None
    made = counters.keep(keys(0), list)
    assert counters.find(keys(0)) is counters.keep(keys(0), list) is made
    assert len(counters) == 1
    assert list(counters.items()) == [(own(0), made)]


def test_a_crowd_of_models_shares_what_is_left_and_pushes_nobody_out() -> None:
    counters = full()
    first = counters.find(keys(0))
    assert counters.find(keys(-1)) is None
    assert counters.keep(keys(-1), list) is counters.keep(keys(-2), list)
    assert counters.find(keys(-3)) is counters.find((SHARED, SHARED, CROWD))
    assert counters.find(keys(0)) is first
    assert len(counters) == COUNTERS + 1


def test_a_crowd_of_tenants_shares_too_and_pushes_nobody_out() -> None:
    """A header named them, and each had a counter for ever: a budget is not idle until its day is over."""
    counters = Counters[list[int]]()
    for n in range(TENANTS + 500):
        counters.keep(tenant(n), lambda: [1])
    assert len(counters) == TENANTS + 1
    assert counters.find(tenant(-1)) is counters.find(tenant(-2)) is not None
    assert counters.find(tenant(0)) is not counters.find(tenant(-1))
    counters.put(own(7), [2])
    assert counters.find((own(7), own(7), own(7))) is None


def test_what_was_kept_over_a_restart_pushes_out_nothing() -> None:
    counters = Counters[list[int]]()
    made = counters.keep(keys(0), list)
    counters.put(own(0), [1])
    counters.put(own(1), [2])
    assert (counters.find(keys(0)), counters.find(keys(1))) == (made, [2])


def test_what_is_idle_leaves_in_time_and_the_rest_stays() -> None:
    counters = full()
    for n in range(0, COUNTERS, 2):
        counters.keep(keys(n), list).append(1)
    for _ in range(COUNTERS // LOOKS):
        counters.sweep(lambda counter: len(counter) == 1)
    assert [key for key, _ in counters.items()] == [own(n) for n in range(0, COUNTERS, 2)]
    assert counters.keep(keys(-1), list) is counters.find(keys(-1)) is not counters.find(keys(-2))
    empty = Counters[int]()
    empty.sweep(lambda counter: True)
    assert len(empty) == 0


def test_some_of_many_are_shown() -> None:
    assert [key for key, _ in full().some(2)] == [own(COUNTERS - 1), own(COUNTERS - 2)]
