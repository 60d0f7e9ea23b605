from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from proxy.sim.cost import Cost
from proxy.sim.jobs import Job, Step, Truth
from proxy.sim.slots import Runner, common

FLAT = Cost(weights_s=0.01, token_s=0.0001)
"""10 ms up to 100 tokens, then 0.1 ms a token."""


def job(id: str, prompt: int, output: int, first: int = 1) -> Job:
    return Job(id, tuple(range(first, first + prompt)), (7,) * output)


def run(runner: Runner) -> list[Step]:
    steps: list[Step] = []
    while (due := runner.due()) is not None:
        step = runner.step(due)
        assert step is not None
        steps.append(step)
    return steps


def truths(steps: list[Step]) -> dict[str, Truth]:
    return {truth.id: truth for step in steps for truth in step.ended}


def test_a_batch_holds_decodes_first_and_then_prompts_in_the_order_of_slots() -> None:
    runner = Runner(3, FLAT, batch=100)
    runner.submit(0, job("a", 10, 9))
    runner.submit(1, job("b", 150, 1, 1_000))
    runner.submit(1, job("c", 30, 1, 5_000))
    sizes = [dict(step.scheduled) for step in run(runner)]
    assert sizes[:4] == [{"a": 10}, {"a": 1, "b": 99}, {"a": 1, "b": 51, "c": 30}, {"a": 1}]


def test_new_work_is_looked_for_between_batches_only() -> None:
    runner = Runner(2, FLAT)
    runner.submit(0, job("a", 500, 1))
    runner.submit(1_000_000, job("b", 10, 1, 5_000))
    truth = truths(run(runner))["b"]
    assert truth.queue_ns == 50_000_000 - 1_000_000


def test_with_one_slot_the_second_waits_for_the_end_of_the_first() -> None:
    runner = Runner(1, FLAT)
    runner.submit(0, job("a", 10, 5))
    runner.submit(1, job("b", 10, 5))
    assert (runner.running, runner.waiting) == (0, 2)
    ended = truths(run(runner))
    assert ended["b"].scheduled_ns == ended["a"].last_token_ns
    assert (runner.running, runner.waiting) == (0, 0)


def test_the_slot_with_the_longest_common_prefix_is_taken_and_one_token_is_always_computed() -> None:
    runner = Runner(2, FLAT)
    runner.submit(0, job("a", 40, 1, 1))
    runner.submit(0, job("b", 40, 1, 900))
    runner.submit(10**9, job("again", 40, 1, 1))
    runner.submit(2 * 10**9, job("other", 60, 1, 900))
    ended = truths(run(runner))
    assert (ended["again"].cached_tokens, ended["other"].cached_tokens) == (39, 40)


def test_an_answer_stays_in_its_slot_for_the_next_turn() -> None:
    runner = Runner(1, FLAT)
    first = job("a", 10, 6)
    runner.submit(0, first)
    runner.submit(10**9, Job("b", (*first.prompt, *first.answer, 3), (1,)))
    assert truths(run(runner))["b"].cached_tokens == 15


def test_interference_is_the_time_that_prompts_add_to_a_batch_with_decodes() -> None:
    runner = Runner(2, FLAT)
    runner.submit(0, job("a", 10, 4))
    runner.submit(15_000_000, job("b", 499, 1, 1_000))
    assert truths(run(runner))["a"].interference_ns == 40_000_000


def test_aborts_free_the_slot_or_the_place_in_the_queue() -> None:
    runner = Runner(1, FLAT)
    for id in ("a", "b", "c"):
        runner.submit(0, job(id, 10, 50))
    assert runner.idle_at() is None
    runner.step(0)
    for id in ("a", "b", "nobody"):
        runner.abort(1, id)
    ended = truths(run(runner))
    assert [ended[id].aborted for id in "abc"] == [True, True, False]
    assert ended["c"].scheduled_ns == 10_000_000
    assert repr(runner) == "<Runner 0 of 1 slots busy, 0 waiting>"
    assert runner.idle_at() == ended["c"].last_token_ns


def test_nothing_is_due_before_the_next_arrival() -> None:
    runner = Runner(1, FLAT)
    runner.submit(5_000, job("a", 10, 1))
    assert (runner.due(), runner.step(4_999)) == (5_000, None)


def test_common_counts_what_both_begin_with() -> None:
    assert [common((1, 2, 3), (1, 2, 4)), common((1, 2), (1, 2, 3)), common((), (1,)), common((2,), (1,))] == [
        2,
        2,
        0,
        0,
    ]


@given(
    st.integers(1, 3),
    st.integers(8, 64),
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 90), st.integers(1, 12), st.booleans()), max_size=12),
)
def test_every_job_ends_once_within_slots_and_batch(
    slots: int, batch: int, rows: list[tuple[int, int, int, bool]]
) -> None:
    runner = Runner(slots, FLAT, batch)
    moments: list[tuple[int, Job | str]] = []
    for index, (at, prompt, output, leaves) in enumerate(rows):
        moments.append((at * 1_000_000, job(str(index), prompt, output)))
        moments += [((at + 25) * 1_000_000, str(index))] if leaves else []
    for at, item in sorted(moments, key=lambda moment: moment[0]):
        (runner.submit if isinstance(item, Job) else runner.abort)(at, item)  # type: ignore[operator]
    steps = run(runner)
    ended = Counter(truth.id for step in steps for truth in step.ended)
    assert ended == Counter(str(index) for index in range(len(rows)))
    assert all(step.size <= batch and len(step.scheduled) <= slots for step in steps)
    assert all(before.end_ns <= after.start_ns for before, after in pairwise(steps))
    for truth in truths(steps).values():
        assert truth.aborted or truth.output_tokens == rows[int(truth.id)][2]
