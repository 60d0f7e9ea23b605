from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.sim.cost import SECOND, Cost
from proxy.sim.devices import ADMISSION_STUDY
from proxy.sim.jobs import Job, Step, Truth
from proxy.sim.machine import Limits, Machine

FLAT = Cost(weights_s=0.01, token_s=0.0001)
"""10 ms up to 100 tokens, then 0.1 ms a token."""


def job(id: str, prompt: int, output: int, kind: int | None = None) -> Job:
    """A job of its own tokens; jobs of one `kind` begin alike."""
    seed = kind if kind is not None else sum(id.encode()) + 1_000
    return Job(id, tuple(range(seed * 10_000, seed * 10_000 + prompt)), tuple(range(1, output + 1)))


def run(machine: Machine, limit: int = 100_000) -> list[Step]:
    """Step until there is nothing to do."""
    steps: list[Step] = []
    while (due := machine.due()) is not None and len(steps) < limit:
        step = machine.step(due)
        assert step is not None
        steps.append(step)
    return steps


def truths(steps: list[Step]) -> dict[str, Truth]:
    return {truth.id: truth for step in steps for truth in step.ended}


def sizes(steps: list[Step]) -> list[dict[str, int]]:
    return [dict(step.scheduled) for step in steps]


def test_a_prompt_is_read_in_chunks_of_the_budget() -> None:
    machine = Machine(Limits(budget=100), FLAT)
    machine.submit(0, job("a", 250, 2))
    assert sizes(run(machine)) == [{"a": 100}, {"a": 100}, {"a": 50}, {"a": 1}]


def test_decodes_come_first_and_the_rest_of_the_budget_reads_prompts() -> None:
    machine = Machine(Limits(budget=100), FLAT)
    machine.submit(0, job("a", 10, 4))
    machine.submit(1, job("b", 150, 1))
    assert sizes(run(machine)) == [{"a": 10}, {"a": 1, "b": 99}, {"a": 1, "b": 51}, {"a": 1}]


def test_a_partly_read_prompt_outranks_everybody_who_waits() -> None:
    machine = Machine(Limits(budget=100), FLAT)
    machine.submit(0, job("long", 250, 1))
    machine.submit(0, job("short", 10, 1))
    assert sizes(run(machine)) == [{"long": 100}, {"long": 100}, {"long": 50, "short": 10}]


def test_the_long_prefill_threshold_lets_a_short_prompt_share_the_step() -> None:
    machine = Machine(Limits(budget=100, long_prefill=40), FLAT)
    machine.submit(0, job("long", 120, 1))
    machine.submit(0, job("short", 10, 1))
    assert sizes(run(machine)) == [{"long": 40, "short": 10}, {"long": 80}]


def test_no_more_jobs_run_than_there_are_places() -> None:
    machine = Machine(Limits(sequences=2), FLAT)
    for id in "abc":
        machine.submit(0, job(id, 10, 3))
    steps = run(machine)
    assert max(len(step.scheduled) for step in steps) == 2
    assert truths(steps)["c"].queue_ns == steps[3].start_ns


def test_an_arrival_during_a_step_is_taken_in_at_its_end() -> None:
    machine = Machine(Limits(), FLAT)
    machine.submit(0, job("a", 10, 3))
    machine.submit(4_000_000, job("b", 10, 1))
    truth = truths(run(machine))["b"]
    assert (truth.step_wait_ns, truth.queue_ns, truth.prefill_ns) == (6_000_000, 0, 10_000_000)


def test_an_idle_engine_starts_the_moment_a_job_arrives() -> None:
    machine = Machine(Limits(), FLAT)
    machine.submit(5 * SECOND, job("a", 10, 1))
    assert machine.step(5 * SECOND - 1) is None
    step = machine.step(6 * SECOND)
    assert step is not None
    assert step.start_ns == 5 * SECOND


def test_an_equal_prompt_takes_whole_blocks_from_the_cache_but_never_all() -> None:
    machine = Machine(Limits(block=16), FLAT)
    machine.submit(0, job("a", 64, 1, kind=1))
    machine.submit(SECOND, job("b", 64, 1, kind=1))
    machine.submit(2 * SECOND, job("c", 70, 1, kind=1))
    ended = truths(run(machine))
    assert [ended[id].cached_tokens for id in "abc"] == [0, 48, 64]


def test_without_caching_nothing_is_found() -> None:
    machine = Machine(Limits(block=16, caching=False), FLAT)
    machine.submit(0, job("a", 64, 1, kind=1))
    machine.submit(SECOND, job("b", 64, 1, kind=1))
    assert truths(run(machine))["b"].cached_tokens == 0


def test_two_equal_prompts_in_one_step_share() -> None:
    machine = Machine(Limits(block=16), FLAT)
    machine.submit(0, job("a", 64, 1, kind=1))
    machine.submit(0, job("b", 64, 1, kind=1))
    assert sizes(run(machine)) == [{"a": 64, "b": 16}]


def test_an_answer_is_part_of_the_next_prompts_prefix() -> None:
    machine = Machine(Limits(block=16), FLAT)
    first = job("a", 20, 30)
    machine.submit(0, first)
    machine.submit(SECOND, Job("b", (*first.prompt, *first.answer, 7), (1,)))
    assert truths(run(machine))["b"].cached_tokens == 48


def test_a_salt_separates_caches() -> None:
    machine = Machine(Limits(block=16), FLAT)
    machine.submit(0, Job("a", (5,) * 64, (1,), salt="x"))
    machine.submit(SECOND, Job("b", (5,) * 64, (1,), salt="y"))
    machine.submit(2 * SECOND, Job("c", (5,) * 64, (1,), salt="x"))
    ended = truths(run(machine))
    assert [ended[id].cached_tokens for id in "abc"] == [0, 0, 48]


def test_a_head_that_does_not_fit_blocks_the_rest() -> None:
    machine = Machine(Limits(block=10, blocks=11, caching=False), FLAT)
    machine.submit(0, job("a", 55, 4))
    machine.submit(1, job("big", 60, 1))
    machine.submit(1, job("small", 5, 1))
    order = [id for step in run(machine) for id, _ in step.scheduled]
    assert list(dict.fromkeys(order)) == ["a", "big", "small"]


def test_without_the_whole_fit_rule_a_first_chunk_is_enough() -> None:
    limits = Limits(budget=20, block=10, blocks=11, caching=False, whole_fits=False)
    machine = Machine(limits, FLAT)
    machine.submit(0, job("a", 12, 40))
    machine.submit(0, job("big", 95, 1))
    assert sizes(run(machine))[0] == {"a": 12, "big": 8}


def test_the_last_of_the_running_is_preempted_and_computed_again() -> None:
    machine = Machine(Limits(block=10, blocks=9, caching=False), FLAT)
    machine.submit(0, job("a", 38, 20))
    machine.submit(0, job("b", 38, 20))
    steps = run(machine)
    hit = next(index for index, step in enumerate(steps) if step.preempted)
    assert steps[hit].preempted == ("b",)
    assert sizes(steps)[hit] == {"a": 1}
    ended = truths(steps)
    assert (ended["a"].preemptions, ended["b"].preemptions) == (0, 1)
    again = next(dict(step.scheduled)["b"] for step in steps[hit + 1 :] if "b" in dict(step.scheduled))
    assert again == 38 + ended_before(steps[:hit], "b")


def ended_before(steps: list[Step], id: str) -> int:
    return sum(token.id == id for step in steps for token in step.tokens)


def test_nobody_is_admitted_in_a_step_that_preempted() -> None:
    machine = Machine(Limits(block=10, blocks=9, caching=False), FLAT)
    machine.submit(0, job("a", 38, 20))
    machine.submit(0, job("b", 38, 20))
    machine.submit(1, job("tiny", 1, 1))
    machine.submit(25_000_000, job("late", 1, 1))
    preempting = [step for step in run(machine) if step.preempted]
    assert all(set(dict(step.scheduled)) == {"a"} for step in preempting)
    assert preempting


def test_interference_is_what_the_decodes_alone_would_not_have_needed() -> None:
    machine = Machine(Limits(budget=1_000), FLAT)
    machine.submit(0, job("a", 10, 5))
    machine.submit(15_000_000, job("b", 999, 1))
    truth = truths(run(machine))["a"]
    assert truth.interference_ns == 90_000_000
    assert truth.decode_ns == 4 * 10_000_000 + truth.interference_ns


def test_an_abort_frees_everything_at_the_next_boundary() -> None:
    machine = Machine(Limits(), FLAT)
    machine.submit(0, job("a", 100, 50))
    machine.submit(0, job("b", 100, 3))
    first = machine.step(0)
    assert first is not None
    machine.abort(1, "a")
    machine.abort(1, "nobody")
    steps = run(machine)
    assert truths(steps)["a"].aborted
    assert all("a" not in dict(step.scheduled) for step in steps)
    assert machine.blocks.free == machine.blocks.usable
    assert repr(machine).startswith("<Machine 0 running, 0 waiting")


def test_a_waiting_job_can_be_aborted() -> None:
    machine = Machine(Limits(sequences=1), FLAT)
    machine.submit(0, job("a", 10, 3))
    machine.submit(0, job("b", 10, 3))
    machine.step(0)
    machine.abort(1, "b")
    truth = truths(run(machine))["b"]
    assert (truth.aborted, truth.scheduled_ns) == (True, None)


def test_a_job_over_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 100"):
        Machine(Limits(window=100), FLAT).submit(0, job("a", 90, 11))


def test_a_known_duration_stands_in_for_the_cost_model() -> None:
    machine = Machine(Limits(), FLAT)
    machine.submit(0, job("a", 10, 2))
    machine.step(0, duration_ns=123)
    assert machine.due() == 123


def test_noise_is_seeded() -> None:
    def ends(seed: int) -> list[int]:
        machine = Machine(Limits(), ADMISSION_STUDY, seed)
        machine.submit(0, job("a", 10, 20))
        return [step.end_ns for step in run(machine)]

    assert ends(1) == ends(1) != ends(2)


# --- properties -----------------------------------------------------------------------------------------------------

JOBS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 70), st.integers(1, 25), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=14,
)
"""Arrival in ms, prompt, output, kind (kinds share prefixes), and whether the client leaves 30 ms later."""
LIMITS = st.builds(
    Limits,
    budget=st.integers(3, 64),
    sequences=st.integers(1, 6),
    block=st.just(4),
    blocks=st.integers(26, 60),
    window=st.just(100),
    long_prefill=st.sampled_from((0, 2, 9)),
    caching=st.booleans(),
    whole_fits=st.booleans(),
)


def played(limits: Limits, rows: list[tuple[int, int, int, int, bool]]) -> tuple[Machine, list[Step]]:
    machine = Machine(limits, FLAT)
    moments: list[tuple[int, Job | str]] = []
    for index, (at, prompt, output, kind, leaves) in enumerate(rows):
        moments.append((at * 1_000_000, job(str(index), prompt, output, kind)))
        if leaves:
            moments.append(((at + 30) * 1_000_000, str(index)))
    for at, item in sorted(moments, key=lambda moment: moment[0]):
        if isinstance(item, Job):
            machine.submit(at, item)
        else:
            machine.abort(at, item)
    return machine, run(machine, 20_000)


@given(LIMITS, JOBS)
def test_every_job_ends_once_and_no_block_leaks(limits: Limits, rows: list[tuple[int, int, int, int, bool]]) -> None:
    machine, steps = played(limits, rows)
    ended = Counter(truth.id for step in steps for truth in step.ended)
    assert ended == Counter(str(index) for index in range(len(rows)))
    assert machine.blocks.free == machine.blocks.usable
    assert machine.due() is None


@given(LIMITS, JOBS)
def test_steps_keep_to_the_budget_the_places_and_one_another(
    limits: Limits, rows: list[tuple[int, int, int, int, bool]]
) -> None:
    _, steps = played(limits, rows)
    assert all(step.size <= limits.budget and len(step.scheduled) <= limits.sequences for step in steps)
    assert all(before.end_ns <= after.start_ns for before, after in pairwise(steps))
    assert all(tokens > 0 for step in steps for _, tokens in step.scheduled)


@given(LIMITS, JOBS)
def test_tokens_are_conserved(limits: Limits, rows: list[tuple[int, int, int, int, bool]]) -> None:
    _, steps = played(limits, rows)
    worked = Counter[str]()
    for step in steps:
        worked.update(dict(step.scheduled))
    emitted = Counter(token.id for step in steps for token in step.tokens)
    for truth in truths(steps).values():
        assert emitted[truth.id] == truth.output_tokens
        if not truth.aborted:
            assert truth.output_tokens == rows[int(truth.id)][2]
        if not truth.aborted and not truth.preemptions:
            assert worked[truth.id] == truth.prompt_tokens - truth.cached_tokens + truth.output_tokens - 1


@given(LIMITS, JOBS)
def test_the_parts_of_a_truth_sum_to_its_whole(limits: Limits, rows: list[tuple[int, int, int, int, bool]]) -> None:
    for truth in truths(played(limits, rows)[1]).values():
        if truth.aborted:
            continue
        parts = (truth.step_wait_ns, truth.queue_ns, truth.prefill_ns, truth.decode_ns)
        known = [part for part in parts if part is not None]
        assert len(known) == 4
        assert min(known) >= 0
        assert truth.last_token_ns == truth.arrived_ns + sum(known)
        assert 0 <= truth.interference_ns <= known[3]


@given(LIMITS, JOBS)
def test_jobs_are_first_scheduled_in_the_order_they_came(
    limits: Limits, rows: list[tuple[int, int, int, int, bool]]
) -> None:
    ended = truths(played(limits, rows)[1]).values()
    starts = [
        (truth.arrived_ns, int(truth.id), truth.scheduled_ns) for truth in ended if truth.scheduled_ns is not None
    ]
    moments = [start for _, _, start in sorted(starts)]
    assert moments == sorted(moments)
