import pytest

from proxy.sim.cost import Cost, Work

COST = Cost(weights_s=7e-3, token_s=32e-6, fixed_s=2.5e-3, attention_s=1.3e-9, context_s=5.5e-8, sequence_s=8e-6)


def test_a_step_without_work_takes_no_time() -> None:
    assert COST.seconds([]) == 0.0


def test_a_decode_pays_for_the_weights_its_context_and_its_place() -> None:
    step = COST.seconds([Work(tokens=1, context=1000, decode=True)])
    assert step == pytest.approx(2.5e-3 + 7e-3 + 1000 * 5.5e-8 + 8e-6)


def test_many_tokens_pay_for_arithmetic_instead_of_weights() -> None:
    step = COST.seconds([Work(tokens=2048, context=4096, decode=False)])
    assert step == pytest.approx(2.5e-3 + 2048 * 32e-6 + 1.3e-9 * 2048 * (4096 + 1024) + 8e-6)


def test_parts_of_a_step_share_one_reading_of_the_weights() -> None:
    alone = COST.seconds([Work(1, 100, True)])
    assert COST.seconds([Work(1, 100, True)] * 8) < 2 * alone
