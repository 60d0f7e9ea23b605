import time
from dataclasses import dataclass

import pytest
import throttled.utils
from hypothesis import given
from hypothesis import strategies as st
from throttled.rate_limiter.gcra import MemoryLimitAtomicAction
from throttled.store import MemoryStore

from proxy.admission.gcra import PERIOD_NS, Gcra

SECOND = 1_000_000_000
LIMITS = st.sampled_from([15, 30, 60, 120, 240])  # intervals that a float holds exactly: the oracle computes in floats


@dataclass
class Oracle:
    """throttled-py's GCRA, in its own arithmetic and with its own store, at our time."""

    limit: int

    def __post_init__(self) -> None:
        self.action = MemoryLimitAtomicAction(MemoryStore()._backend)

    def take(self, now_ns: int, units: int) -> tuple[bool, int, float]:
        """Whether they may pass (then they have), what remains, and the wait in seconds."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(throttled.utils, "now_mono_f", lambda: now_ns / SECOND)
            limited, remaining, _, retry_after = self.action.do(["key"], [60 / self.limit, self.limit, units])
        return not limited, remaining, retry_after


STEPS = st.lists(
    st.tuples(st.integers(0, 20).map(lambda n: n * SECOND // 2), st.integers(1, 15), st.integers(0, 15)), max_size=40
)


@given(LIMITS, STEPS)
def test_decisions_waits_and_remainders_are_those_of_an_independent_gcra(
    limit: int, steps: list[tuple[int, int, int]]
) -> None:
    ours, oracle, now = Gcra(limit), Oracle(limit), 1_000 * SECOND
    for after, units, _ in steps:
        now += after
        wait_ns = ours.wait_ns(now, units)
        passed, remaining, retry_after_s = oracle.take(now, units)
        assert (wait_ns == 0) is passed
        assert wait_ns == pytest.approx(retry_after_s * SECOND, abs=1)
        if passed:
            ours.charge(now, units)
            assert ours.remaining(now) == remaining


@given(LIMITS, STEPS, st.randoms(use_true_random=False))
def test_refunds_leave_the_bucket_as_if_the_truth_had_been_charged(limit: int, steps, random) -> None:  # type: ignore[no-untyped-def]
    ours, oracle, now = Gcra(limit), Oracle(limit), 1_000 * SECOND
    open_charges: list[tuple[int, int, int]] = []
    for after, charged, used in steps:
        now += after
        used = min(used, charged)
        if ours.wait_ns(now, charged) == 0:
            open_charges.append((ours.charge(now, charged), charged, used))
            assert oracle.take(now, used)[0]
    random.shuffle(open_charges)
    for charge, charged, used in open_charges:
        ours.settle(now, charge, charged, used)
    assert ours.remaining(now) == oracle.take(now, 0)[1]


def replayed(charges: list[tuple[int, int]], limit: int) -> int:
    """The theoretical arrival time (scaled) after (time, units) in a row: the definition."""
    tat = 0
    for now_ns, units in charges:
        tat = max(tat, now_ns * limit) + units * PERIOD_NS
    return tat


@given(LIMITS, st.integers(0, 300), st.randoms(use_true_random=False))
def test_any_history_is_as_if_the_truth_had_been_charged(limit: int, steps: int, random) -> None:  # type: ignore[no-untyped-def]
    """Settled in any order and between later charges; hundreds open together, and none."""
    gcra, now, truth, open_charges = Gcra(limit), SECOND, [], []
    for _ in range(steps):
        now += random.choice([0, 0, SECOND // 10, 10 * SECOND])
        if random.random() < 0.6:
            units = random.randrange(2 * limit)
            open_charges.append((gcra.charge(now, units), len(truth), units))
            truth.append((now, units))
        elif open_charges:
            charge, place, units = open_charges.pop(random.randrange(len(open_charges)))
            used = random.choice([0, units, units // 2, units + 7])
            gcra.settle(now, charge, units, used)
            truth[place] = (truth[place][0], min(units, used))
            truth += [(now, used - units)] * (used > units)
        assert gcra.full_ns(now) == max(0, -(-replayed(truth, limit) // limit) - now)


def test_a_refund_costs_no_more_where_many_are_open() -> None:
    """20,000: with a look at each open charge it took minutes."""
    gcra = Gcra(60)
    start = time.process_time()
    charges = [gcra.charge(now, 1) for now in range(20_000)]
    for charge in charges:
        gcra.settle(20_000, charge, 1, 0)
    assert time.process_time() - start < 5
    assert gcra.remaining(20_000) == 60


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(0, 10**15))
def test_after_the_wait_that_was_told_the_units_pass_and_a_moment_earlier_they_do_not(
    limit: int, units: int, now: int
) -> None:
    gcra = Gcra(limit)
    gcra.charge(now, limit)
    wait_ns = gcra.wait_ns(now, units)
    assert gcra.wait_ns(now + wait_ns, units) == 0
    assert wait_ns == 0 or gcra.wait_ns(now + wait_ns - 1, units) > 0


def test_a_minutes_worth_may_come_at_once_and_no_more() -> None:
    gcra = Gcra(5)
    assert [gcra.wait_ns(0, 1) == 0 and bool(gcra.charge(0, 1)) for _ in range(7)] == [True] * 5 + [False] * 2
    assert gcra.wait_ns(0, 1) == PERIOD_NS // 5
    assert gcra.full_ns(0) == PERIOD_NS


def test_more_than_a_minutes_worth_waits_for_a_full_bucket_and_goes_into_debt() -> None:
    gcra = Gcra(100)
    assert gcra.wait_ns(0, 250) == 0
    gcra.charge(0, 250)
    assert gcra.remaining(0) == 0
    assert gcra.wait_ns(0, 1) == pytest.approx(1.51 * PERIOD_NS)
    assert gcra.wait_ns(0, 250) == pytest.approx(2.5 * PERIOD_NS)


def test_what_was_used_beyond_the_charge_is_charged_when_it_is_known() -> None:
    gcra = Gcra(60)
    charge = gcra.charge(0, 10)
    gcra.settle(30 * SECOND, charge, 10, 70)
    assert gcra.remaining(30 * SECOND) == 0
    assert gcra.remaining(31 * SECOND) == 1


def test_a_refund_gives_back_nothing_that_time_gave_back_already() -> None:
    gcra = Gcra(60)
    early = gcra.charge(0, 10)
    gcra.charge(30 * SECOND, 20)
    gcra.settle(30 * SECOND, early, 10, 0)
    assert gcra.remaining(30 * SECOND) == 40


def test_another_limit_keeps_the_debt_in_time() -> None:
    gcra = Gcra(60)
    charge = gcra.charge(0, 30)
    gcra.change(120)
    assert gcra.full_ns(0) == PERIOD_NS // 2
    gcra.settle(0, charge, 30, 30)
    assert gcra.remaining(0) == 60


@pytest.mark.parametrize("limit", [1, 7, 30, 120, 999_983])
@pytest.mark.parametrize("used", [0, 10, 30])
def test_a_refund_after_the_limit_changed_is_the_same_share_of_the_charge(limit: int, used: int) -> None:
    gcra, now = Gcra(60), SECOND
    charge = gcra.charge(now, 30)
    gcra.change(limit)
    gcra.settle(now, charge, 30, used)
    assert gcra.full_ns(now) == pytest.approx(used * SECOND, abs=2)


def test_it_is_idle_when_nothing_would_be_lost_with_it() -> None:
    gcra = Gcra(60)
    assert gcra.idle(0)
    charge = gcra.charge(0, 1)
    assert not gcra.idle(60 * SECOND)
    gcra.settle(0, charge, 1, 1)
    assert not gcra.idle(0)
    assert gcra.idle(SECOND)
    assert repr(gcra) == "<Gcra 60 a minute, 0 open>"
