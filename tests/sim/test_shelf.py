import pytest

from proxy.sim.cost import Cost
from proxy.sim.jobs import Busy, Job, Step, Truth
from proxy.sim.shelf import Shelf
from proxy.sim.slots import Runner

FLAT = Cost(weights_s=0.01, token_s=0.0001)
LOAD = 1_000_000_000
"""Nanoseconds to load any model."""


def shelf(models: int = 1, max_queue: int = 512) -> Shelf:
    return Shelf(lambda model: Runner(1, FLAT), lambda model: LOAD, models, max_queue)


def job(id: str, model: str, output: int = 2) -> Job:
    return Job(id, (1, 2, 3), (7,) * output, model=model)


def run(machine: Shelf) -> dict[str, Truth]:
    ended: list[Truth] = []
    while (due := machine.due()) is not None:
        step: Step | None = machine.step(due)
        ended += step.ended if step is not None else ()
    return {truth.id: truth for truth in ended}


def test_the_first_job_pays_for_the_load_and_the_next_does_not() -> None:
    machine = shelf()
    machine.submit(0, job("cold", "m"))
    machine.submit(5 * LOAD, job("warm", "m"))
    ended = run(machine)
    assert (ended["cold"].load_ns, ended["cold"].step_wait_ns) == (LOAD, LOAD)
    assert (ended["warm"].load_ns, ended["warm"].step_wait_ns) == (0, 0)
    assert machine.loaded == ("m",)


def test_a_job_that_comes_during_the_load_waits_for_it_without_loading_again() -> None:
    machine = shelf()
    machine.submit(0, job("a", "m"))
    machine.submit(LOAD // 2, job("b", "m"))
    ended = run(machine)
    assert (ended["b"].load_ns, ended["b"].queued_ns) == (0, LOAD)


def test_a_swap_waits_until_the_other_model_is_idle() -> None:
    machine = shelf()
    machine.submit(0, job("a", "one", output=100))
    machine.submit(LOAD + 1, job("b", "two"))
    assert machine.waiting == 2
    ended = run(machine)
    assert ended["b"].queued_ns == (ended["a"].last_token_ns or 0) + LOAD
    assert machine.loaded == ("two",)


def test_with_memory_for_two_models_nobody_waits_for_the_other() -> None:
    machine = shelf(models=2)
    machine.submit(0, job("a", "one", output=400))
    machine.submit(LOAD + 1, job("b", "two"))
    ended = run(machine)
    assert ended["b"].queued_ns == 2 * LOAD + 1
    assert set(machine.loaded) == {"one", "two"}


def test_the_model_that_was_used_least_recently_goes() -> None:
    machine = shelf(models=2)
    for at, id, model in ((0, "a", "one"), (2, "b", "two"), (4, "c", "one"), (6, "d", "three")):
        machine.submit(at * LOAD, job(id, model))
    run(machine)
    assert set(machine.loaded) == {"one", "three"}


def test_a_full_pending_queue_refuses_but_a_loaded_model_takes_all() -> None:
    machine = shelf(max_queue=1)
    machine.submit(0, job("a", "one", output=500))
    machine.submit(LOAD + 1, job("b", "two"))
    with pytest.raises(Busy, match="maximum pending requests exceeded"):
        machine.submit(LOAD + 2, job("c", "three"))
    for id in ("x", "y", "z"):
        machine.submit(LOAD + 3, job(id, "one"))
    assert (machine.running, machine.waiting) == (0, 5)
    assert set(run(machine)) == {"a", "b", "x", "y", "z"}


def test_a_pending_job_can_be_aborted() -> None:
    machine = shelf()
    machine.submit(0, job("a", "one", output=100))
    machine.submit(LOAD + 1, job("b", "two"))
    machine.abort(LOAD + 2, "b")
    truth = run(machine)["b"]
    assert (truth.aborted, truth.queued_ns, truth.finish) == (True, None, "abort")
    assert machine.loaded == ("one",)


def test_a_load_goes_on_when_its_client_leaves() -> None:
    machine = shelf()
    machine.submit(0, job("a", "one"))
    machine.abort(1, "a")
    machine.abort(1, "nobody")
    assert run(machine)["a"].aborted
    assert machine.loaded == ("one",)


def test_a_running_job_can_be_aborted() -> None:
    machine = shelf()
    machine.submit(0, job("a", "one", output=500))
    while machine.running == 0:
        machine.step(machine.due() or 0)
    machine.abort(2 * LOAD, "a")
    assert run(machine)["a"].aborted
    assert machine.step(9 * LOAD) is None
    assert repr(machine).startswith("<Shelf")
