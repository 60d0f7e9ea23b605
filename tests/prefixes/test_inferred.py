import gzip
import json
import random
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


def linear(fresh, number, dice):
    return 30 + fresh


def in_batches(fresh, number, dice):
    return 10 + 0.6 * 512 * -(-fresh // 512) + 0.4 * fresh


def contended(fresh, number, dice):
    return (30 + fresh) * dice.choice([1, 1, 1.3, 2, 2.5]) * dice.lognormvariate(0, 0.05)


def changing(fresh, number, dice):
    return (30 + fresh) * (1.2 if number // 150 % 2 else 1) * dice.lognormvariate(0, 0.05)


def jittery(fresh, number, dice):
    return 20 + 0.1 * fresh + dice.expovariate(1 / 5)


def chats(dice):
    tokens = dice.randrange(100, 3_000)
    cached = int(tokens * dice.choice([0, 0.5, 0.9, 0.97]))
    return tokens, cached, cached


def cached_by_others(dice):
    tokens = dice.randrange(300, 3_000)
    return tokens, dice.choice([0, int(0.8 * tokens)]), 0


def half_at_most(dice):
    return 1_000, dice.choice([0, 500]), 0


@pytest.mark.parametrize("load", [chats, cached_by_others, half_at_most], ids=lambda load: load.__name__)
@pytest.mark.parametrize(
    "machine", [linear, in_batches, contended, changing, jittery], ids=lambda machine: machine.__name__
)
def test_the_truth_is_within_the_bounds(machine, load):
    """What we know of a prompt is what we have sent: half of what others fill the cache with looks new to us. Where no
    prompt is known to be cached almost whole, the quickest tells little."""
    dice, times, inside, said = random.Random(1), PrefillTimes(), 0, 0
    for number in range(400):
        tokens, cached, known = load(dice)
        took = int(1e6 * machine(tokens - cached, number, dice))
        times.add(tokens, took, known, known)
        found = times.cached(tokens, took)
        if found is not None:
            said += 1
            inside += found.low - 2 <= cached <= found.high + 2
    assert said > 350
    assert inside / said > 0.92


def test_a_machine_that_is_well_known_has_narrow_bounds():
    dice, times, width, total = random.Random(1), PrefillTimes(), 0, 0
    for number in range(400):
        tokens, cached, known = chats(dice)
        took = int(1e6 * linear(tokens - cached, number, dice))
        times.add(tokens, took, known, known)
        if number >= 40:
            found = times.cached(tokens, took)
            total, width = total + tokens, width + found.high - found.low
    assert width / total < 0.05


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
        times.add(500, 11_000_000, 499, 499)
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
