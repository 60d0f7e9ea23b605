import pytest

from proxy.sim.cost import SECOND
from proxy.sim.devices import ADMISSION_STUDY, DEVICES, LLAMA_8B, Shape, cost_of, kv_blocks
from proxy.sim.jobs import Job
from proxy.sim.machine import Limits, Machine


def stream_rate(device: str, shape: Shape = LLAMA_8B, output: int = 64) -> float:
    """Tokens a second of one stream alone, as its truth has it."""
    machine = Machine(Limits(), cost_of(DEVICES[device], shape))
    machine.submit(0, Job("one", (1,) * 32, (2,) * output))
    ended = []
    while (due := machine.due()) is not None:
        step = machine.step(due)
        assert step is not None
        ended += step.ended
    assert ended[0].decode_ns is not None
    return (output - 1) * SECOND / ended[0].decode_ns


@pytest.mark.parametrize(
    ("device", "ceiling"),
    [("cpu", 5.6), ("a10g", 37.5), ("l40s", 54), ("rtx4090", 63), ("a100", 127), ("h100", 209)],
)
def test_one_stream_runs_at_the_ceiling_of_its_device(device: str, ceiling: float) -> None:
    assert stream_rate(device) == pytest.approx(ceiling, rel=0.02)


def test_a_quarter_of_the_bits_is_four_times_the_speed() -> None:
    small = Shape(parameters=LLAMA_8B.parameters, bits=4)
    assert stream_rate("l40s", small) == pytest.approx(4 * stream_rate("l40s"), rel=0.02)


def test_kv_memory_of_a_token_is_128_kib_for_an_8b_model() -> None:
    assert LLAMA_8B.kv_bytes == 131_072


def test_kv_blocks_fill_what_the_weights_leave() -> None:
    blocks = kv_blocks(DEVICES["h100"])
    assert blocks * 16 * LLAMA_8B.kv_bytes + LLAMA_8B.weight_bytes == pytest.approx(80e9 * 0.92, rel=1e-3)


def test_a_model_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="leave no room"):
        kv_blocks(DEVICES["rtx4090"], Shape(parameters=70e9))


def test_the_admission_study_has_its_published_coefficients() -> None:
    assert (ADMISSION_STUDY.fixed_s, ADMISSION_STUDY.weights_s, ADMISSION_STUDY.token_s) == (2.5e-3, 7e-3, 32e-6)
    assert (ADMISSION_STUDY.attention_s, ADMISSION_STUDY.context_s) == (1.3e-9, 5.5e-8)
    assert (ADMISSION_STUDY.sequence_s, ADMISSION_STUDY.noise) == (8e-6, 0.03)
