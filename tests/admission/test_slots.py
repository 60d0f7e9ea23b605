import pytest

from proxy.admission.slots import LEAST_NS, LONGEST_NS, START_NS, Slots

SECOND = 1_000_000_000


def held(slots: Slots, *seconds: int) -> Slots:
    """The same, when one exchange of each of these lengths was served, up to the moment 0."""
    for length in seconds:
        slots.take(-length * SECOND)
        slots.give(-length * SECOND, 0, served=True)
    return slots


def full(slots: Slots) -> Slots:
    """The same, with every slot taken at the moment 0."""
    for _ in range(slots.limit):
        slots.take(0)
    return slots


def test_so_many_at_once() -> None:
    slots = Slots(2)
    slots.take(0)
    assert slots.free
    assert slots.wait_ns(0) == 0
    slots.take(0)
    assert not slots.free
    slots.give(0, 10, served=True)
    assert slots.free
    assert repr(slots) == "<Slots 1 of 2, 0 waiting>"


def test_the_wait_is_guessed_from_how_long_others_took_and_who_is_ahead() -> None:
    slots = full(held(Slots(2), *[10] * 100))
    assert slots.wait_ns(0) == 5 * SECOND
    slots.waiting = 1
    assert slots.wait_ns(0) == 10 * SECOND
    slots.give(0, 10 * SECOND, served=True)
    assert slots.free
    assert slots.wait_ns(0) > 0


@pytest.mark.parametrize(
    ("lengths", "mean"), [((20,), 20), ((20, 40), 30), ((10, 20, 30, 40, 50), 30)], ids=["one", "two", "five"]
)
def test_the_first_ones_count_alike_and_the_start_is_forgotten(lengths: tuple[int, ...], mean: int) -> None:
    """One of 20 s beside the guess of one second made it five: whoever came back then was refused again."""
    assert full(held(Slots(1), *lengths)).wait_ns(0) == mean * SECOND


def test_of_many_about_the_last_ten_count() -> None:
    slots = full(held(Slots(1), *[100] * 20, *[10] * 10))
    assert 10 * SECOND < slots.wait_ns(0) < 25 * SECOND


def test_who_held_one_for_nothing_says_nothing_of_the_wait() -> None:
    slots = held(Slots(1), 20)
    for _ in range(40):
        slots.take(0)
        slots.give(0, SECOND, served=False)
    assert full(slots).wait_ns(0) == 20 * SECOND


def test_those_that_run_for_more_than_twice_as_long_tell_more_than_those_before_them() -> None:
    """Nothing had ended yet, two had run for minutes, and a second was promised each time."""
    slots = full(Slots(2))
    slots.waiting = 1
    assert slots.wait_ns(SECOND) == START_NS
    assert slots.wait_ns(60 * SECOND) == 30 * SECOND
    slots.give(0, 60 * SECOND, served=False)
    slots.take(60 * SECOND)
    assert slots.wait_ns(60 * SECOND) == 15 * SECOND


@pytest.mark.parametrize(
    ("lengths", "now", "wait"),
    [((0,) * 10, 0, LEAST_NS), ((), 10**6, LONGEST_NS)],
    ids=["all were short", "one runs for days"],
)
def test_a_guess_is_a_second_at_least_and_an_hour_at_most(lengths: tuple[int, ...], now: int, wait: int) -> None:
    assert full(held(Slots(1), *lengths)).wait_ns(now * SECOND) == wait
