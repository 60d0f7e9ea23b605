import pytest

from proxy.sim.jobs import Job, Step, Truth


@pytest.mark.parametrize(("prompt", "answer"), [((), (1,)), ((1,), ())], ids=["no prompt", "no answer"])
def test_a_job_without_work_cannot_be_made(prompt: tuple[int, ...], answer: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Job("a", prompt, answer)


def test_a_moment_that_never_came_leaves_its_phases_unknown() -> None:
    truth = Truth(id="a", arrived_ns=5, queued_ns=7, prompt_tokens=1)
    assert truth.step_wait_ns == 2
    assert (truth.queue_ns, truth.prefill_ns, truth.decode_ns) == (None, None, None)


def test_a_step_knows_its_size_and_end() -> None:
    step = Step(100, 20, (("a", 3), ("b", 1)), 3)
    assert (step.size, step.end_ns) == (4, 120)
