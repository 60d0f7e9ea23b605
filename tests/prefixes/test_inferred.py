import gzip
import json
from pathlib import Path

import pytest

from proxy.prefixes.inferred import FIRST, PrefillTimes
from proxy.records import Inferred

RUNS = json.loads(gzip.decompress((Path(__file__).parent / "golden" / "ollama_prefill.json.gz").read_bytes()))
"""Prompt tokens, `prompt_eval_duration` and the true cached tokens of three load runs of a real Ollama 0.33 with 1, 2
and 4 slots."""


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["name"])
def test_cached_tokens_of_a_real_engine_are_inferred_within_a_tenth(run):
    times, error, total, inside, known = PrefillTimes(), 0, 0, 0, 0
    for tokens, nanoseconds, cached in run["rows"]:
        times.add(tokens, nanoseconds)
        found = times.cached(tokens, nanoseconds)
        if found is not None:
            error += abs(found.cached - cached)
            total += cached
            known += 1
            inside += found.low - 16 <= cached <= found.high + 16
    assert known >= len(run["rows"]) - FIRST
    assert error / total <= 0.10
    assert inside / known >= 0.8


def test_nothing_is_said_before_enough_was_seen():
    times = PrefillTimes()
    for _ in range(FIRST - 1):
        times.add(100, 100_000_000)
    assert times.cached(100, 100_000_000) is None


def test_of_prompts_that_mostly_repeat_few_new_ones_tell_the_cost():
    times = PrefillTimes()
    for number in range(60):
        new, known = (400, 0) if number % 20 == 0 else (100, 300)
        times.add(new + known, 10_000_000 + new * 1_000_000, known)
    times.add(400, 11_000_000, 399)
    assert times.cached(400, 111_000_000).cached == pytest.approx(300, abs=2)


def test_nothing_is_said_of_short_prompts_alone():
    times = PrefillTimes()
    for _ in range(2 * FIRST):
        times.add(10, 10_000_000)
    assert times.cached(10, 10_000_000) is None


def test_a_cold_prompt_has_nothing_cached_and_a_repeated_one_all_but_its_last_token():
    times = PrefillTimes()
    for _ in range(FIRST):
        times.add(500, 510_000_000)
        times.add(500, 11_000_000)
    cold = times.cached(500, 510_000_000)
    assert cold == Inferred(0, 0, cold.high)
    assert times.cached(500, 11_000_000) == Inferred(499, 499, 499)


def test_few_cold_prompts_tell_little():
    times, widths = PrefillTimes(), []
    for number in range(40):
        times.add(*((500, 510_000_000) if number % 4 == 0 else (500, 11_000_000, 499)))
        if (found := times.cached(500, 260_000_000)) is not None:
            widths.append(found.high - found.low)
            assert found.low <= 250 <= found.high
    assert len(widths) == 40 - (FIRST - 1)
    assert widths[0] > 200
    assert widths[-1] < widths[0] / 2


def test_what_makes_no_sense_is_no_sample():
    times = PrefillTimes()
    for _ in range(2 * FIRST):
        times.add(0, 10)
        times.add(10, 0)
    assert times.cached(100, 10) is None
