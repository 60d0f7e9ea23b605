from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.turns import Turns

Waiter = tuple[str | None, int]
"""Tenant, and the how manieth of all who came."""


def line(*tenants: str | None) -> Turns[Waiter]:
    turns = Turns[Waiter]()
    for n, tenant in enumerate(tenants):
        turns.join(tenant, (tenant, n))
    return turns


def anybody(waiter: Waiter) -> bool:
    return True


def served(turns: Turns[Waiter], count: int = 99) -> list[int]:
    return [waiter[1] for _ in range(count) if (waiter := turns.serve(anybody)) is not None]


def test_tenants_take_turns_and_within_one_the_first_is_first() -> None:
    assert served(line("a", "a", "a", "b", "c", "b")) == [0, 3, 4, 1, 5, 2]


def test_without_tenants_it_is_first_come_first_served() -> None:
    assert served(line(None, None, None)) == [0, 1, 2]


def test_who_cannot_be_served_holds_up_nobody_and_keeps_its_turn() -> None:
    turns = line("a", "b", "a", "b")
    assert turns.serve(lambda waiter: waiter[1] in (2, 3)) == ("a", 2)
    assert turns.serve(lambda waiter: waiter[1] == 0) == ("a", 0)
    assert served(turns) == [1, 3]
    assert turns.serve(anybody) is None


def test_a_tenant_that_came_back_waits_until_the_others_had_their_turn() -> None:
    turns = line("a", "b", "b")
    assert served(turns, 1) == [0]
    turns.join("a", ("a", 9))
    assert served(turns) == [1, 9, 2]


def test_who_leaves_is_gone_once_and_its_tenant_keeps_its_turn() -> None:
    turns = line("a", "b", "a")
    assert turns.leave("a", ("a", 0))
    assert not turns.leave("a", ("a", 0))
    assert not turns.leave("nobody", ("a", 0))
    assert len(turns) == 2
    assert list(turns) == [("a", 2), ("b", 1)]
    assert served(turns) == [2, 1]
    assert len(turns) == 0


ARRIVALS = st.lists(st.sampled_from(["greedy", "modest", "rare", None]), max_size=40)


@given(ARRIVALS, st.lists(st.one_of(st.none(), st.sampled_from(["greedy", "modest", "rare"])), max_size=80))
def test_between_two_turns_of_one_tenant_every_other_that_waits_has_its_own(
    first: list[str | None], steps: list[str | None]
) -> None:
    """A step is an arrival of that tenant, or somebody's turn (None). In the end nobody is left, and nobody twice."""
    turns, came = line(*first), len(first)
    log: list[tuple[Waiter, set[str | None]]] = []
    for step in [*steps, *[None] * (came + len(steps))]:
        if step is not None:
            turns.join(step, (step, came))
            came += 1
            continue
        waiting = {tenant for tenant, _ in turns}
        if (waiter := turns.serve(anybody)) is not None:
            log.append((waiter, waiting))
    assert sorted(n for (_, n), _ in log) == list(range(came))
    for at, ((tenant, n), _) in enumerate(log):
        earlier = [i for i in range(at) if log[i][0][0] == tenant]
        assert all(log[i][0][1] < n for i in earlier)
        if earlier:
            between = log[earlier[-1] + 1 : at]
            waited_all_the_while = set.intersection(*[waiting for _, waiting in log[earlier[-1] : at + 1]]) - {tenant}
            assert waited_all_the_while <= {other for (other, _), _ in between}


@given(ARRIVALS, st.sets(st.integers(0, 39)))
def test_who_can_be_served_is_and_nobody_else(tenants: list[str | None], able: set[int]) -> None:
    turns = line(*tenants)
    able &= set(range(len(tenants)))
    got = [waiter[1] for _ in range(len(able)) if (waiter := turns.serve(lambda each: each[1] in able)) is not None]
    assert set(got) == able
    assert turns.serve(lambda each: each[1] in able) is None
    left = Counter(tenant for tenant, _ in turns)
    assert left == Counter(tenant for n, tenant in enumerate(tenants) if n not in able)
