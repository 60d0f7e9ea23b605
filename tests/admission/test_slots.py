from proxy.admission.slots import START_NS, Slots


def test_so_many_at_once() -> None:
    slots = Slots(2)
    slots.take()
    assert slots.free
    assert slots.wait_ns() == 0
    slots.take()
    assert not slots.free
    slots.give(10)
    assert slots.free
    assert repr(slots) == "<Slots 1 of 2, 0 waiting>"


def test_the_wait_is_guessed_from_how_long_others_took_and_who_is_ahead() -> None:
    slots = Slots(2)
    slots.take()
    slots.take()
    assert slots.wait_ns() == START_NS // 2
    for _ in range(100):
        slots.take()
        slots.give(10 * START_NS)
    alone = slots.wait_ns()
    assert abs(alone - 5 * START_NS) < START_NS // 100
    slots.waiting = 1
    assert slots.wait_ns() == 2 * alone
    slots.give(10 * START_NS)
    assert slots.free
    assert slots.wait_ns() > 0


def test_who_held_one_for_nothing_says_nothing_of_the_wait() -> None:
    slots = Slots(1)
    for held_ns in (20 * START_NS, *[None] * 40):
        slots.take()
        slots.give(held_ns)
    slots.take()
    assert slots.wait_ns() > 4 * START_NS
