"""The machine against a real engine: recorded by `tests/bench/steplog.py` from vLLM 0.32 on a CPU.

The log's arrivals and step times are given to the machine; what it schedules is its own decision.
"""

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from proxy.sim.devices import ADMISSION_STUDY
from proxy.sim.jobs import Job, Step, Truth
from proxy.sim.machine import Limits, Machine
from tests.bench.steplog import unfold

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def log() -> Any:
    return json.loads(gzip.decompress((HERE / "golden" / "vllm_steps.json.gz").read_bytes()))


def replay(log: Any) -> list[Step | None]:
    """One step of the machine for each step of the log, at the log's times."""
    origin = log["requests"][0]["taken"] - 1
    answers = {row["index"]: row["answer"] for row in log["requests"]}
    machine = Machine(Limits(**log["limits"], window=4096), ADMISSION_STUDY)
    for row in log["requests"]:
        prompt = tuple(unfold(row["prompt"], answers))
        machine.submit(round((row["taken"] - origin) * 1e9), Job(str(row["index"]), prompt, tuple(row["answer"])))
    starts = [round((end - ms / 1e3 - origin) * 1e9) for end, ms, *_ in log["steps"]]
    starts = [max(starts[: index + 1]) for index in range(len(starts))]
    spans = [after - before for before, after in pairwise(starts)]
    return [machine.step(start, span) for start, span in zip(starts, [*spans, 0], strict=True)]


def test_at_least_98_percent_of_steps_are_the_recorded_ones(log: Any) -> None:
    steps = replay(log)
    same = [
        step is not None and (step.prompt_tokens, step.size - step.prompt_tokens) == (context, generation)
        for step, (_, _, _, context, _, generation) in zip(steps, log["steps"], strict=True)
    ]
    assert len(steps) > 500
    assert sum(same) >= 0.98 * len(same)


def test_every_request_takes_from_the_cache_what_the_engine_says(log: Any) -> None:
    truths: dict[str, Truth] = {truth.id: truth for step in replay(log) if step for truth in step.ended}
    said = {str(row["index"]): row["cached"] for row in log["requests"]}
    assert sum(said.values()) > 5_000
    assert {id: truth.cached_tokens for id, truth in truths.items()} == said
