import pytest

from proxy.sim.devices import ADMISSION_STUDY, DEVICES, kv_blocks
from proxy.sim.jobs import Job
from proxy.sim.plan import Plan, ollama, vllm


@pytest.mark.parametrize("device", DEVICES)
def test_a_plan_takes_the_engines_defaults_on_its_device(device: str) -> None:
    limits = vllm(Plan(device=device)).limits
    hardware = DEVICES[device]
    assert (limits.budget, limits.sequences) == (hardware.budget, hardware.sequences)
    assert limits.blocks == kv_blocks(hardware)


def test_what_is_chosen_wins_over_the_default() -> None:
    limits = vllm(Plan(budget=512, sequences=4, blocks=100, block=32, long_prefill=64, window=2_000)).limits
    assert (limits.budget, limits.sequences, limits.blocks, limits.block) == (512, 4, 100, 32)
    assert (limits.long_prefill, limits.reach) == (64, 2_000)


def test_the_study_is_its_own_cost_model() -> None:
    assert Plan(device="study").cost == ADMISSION_STUDY.faster(1)


def test_speed_divides_every_time() -> None:
    slow, fast = Plan().cost, Plan(speed=4).cost
    assert fast.weights_s == pytest.approx(slow.weights_s / 4)
    assert fast.token_s == pytest.approx(slow.token_s / 4)


def test_a_model_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="leave no room"):
        vllm(Plan(device="a10g", parameters=70e9))


def test_ollama_loads_from_disk_unless_told_otherwise() -> None:
    for plan, load_s in ((Plan(kind="ollama"), 16.06e9 / 2e9), (Plan(kind="ollama", load_s=3, speed=2), 1.5)):
        shelf = ollama(plan)
        shelf.submit(0, Job("a", (1,), (2,), model="m"))
        assert shelf.due() == pytest.approx(load_s * 1e9)
