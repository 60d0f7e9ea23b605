import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar

import pytest

from proxy.cli.acts import (
    LONG,
    LONG_TOKENS,
    SHORTS,
    STREAMS,
    TURNS,
    Tempo,
    Theatre,
    lost,
    reading,
    spent,
    stalled,
    step_s,
    storm_s,
    tempo,
)
from proxy.cli.audience import Call, Heard
from proxy.sim.devices import DEVICES
from proxy.sim.plan import Plan
from tests.support.clock import ManualClock, run

QUICK = Tempo(speed=2.0, calm_s=0.02, long_tokens=50, system_tokens=20, output=40, every_s=0.001, pace_s=0.01)

MS = 1_000_000
T = TypeVar("T")


class ScriptedAudience:
    """Hears what is written down here: streams of 10 ms a token that stand still for 500 ms, long prompts of 300 ms,
    questions of 20 ms, or 200 ms while a long prompt is read."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.heard: list[Heard] = []
        self.reading, self.most = 0, 0

    async def call(self, call: Call, gate: AbstractAsyncContextManager[None] | None = None) -> Heard:
        heard = Heard(call, self.clock.now_ns())
        self.heard.append(heard)
        if call.role == "long":
            async with gate or nullcontext():
                self.reading += 1
                self.most = max(self.most, self.reading)
                await asyncio.sleep(0.005)
                self.reading -= 1
            self.clock.advance(300 * MS)
        heard.stamps = self._stamps(heard)
        heard.done = True
        return heard

    def _stamps(self, heard: Heard) -> list[int]:
        if heard.call.role == "stream":
            self.clock.advance(20 * MS)
            start = heard.wanted_ns
            return [*range(start + MS, start + 201 * MS, 10 * MS), *range(start + 700 * MS, start + 900 * MS, 10 * MS)]
        return [heard.wanted_ns + (200 if self.reading else 20) * MS]


class ScriptedStage:
    """Records and truths of any request."""

    def __init__(self, cached: int = 0) -> None:
        self.cached = cached

    async def records(self, ids: Sequence[str]) -> dict[str, Any]:
        row = {
            "phases": {"step_wait": {"s": 0.25}, "queue": {"s": 1.0}, "prefill": {"s": 0.5}},
            "tokens": {"prompt": 100, "cached": self.cached},
            "tpot_s": 0.01,
        }
        return dict.fromkeys(ids, row)

    def truths(self, ids: Sequence[str]) -> dict[str, Any]:
        return {id: {"interference_ns": 500 * MS} for id in ids}


def played(act: Coroutine[Any, Any, T]) -> T:
    """What an act measured, in virtual time."""
    return run(lambda loop: act)


def theatre(audience: ScriptedAudience, cached: int = 0) -> Theatre:
    return Theatre(ScriptedStage(cached), audience, QUICK, seed=1)  # type: ignore[arg-type]


def test_a_storm_is_eight_streams_four_long_prompts_and_questions() -> None:
    audience = ScriptedAudience()
    storm = played(theatre(audience).storm("act", None))
    roles = [one.call.role for one in audience.heard]
    assert (roles.count("stream"), roles.count("long"), roles.count("short")) == (STREAMS, LONG, SHORTS + 1)
    assert len({one.call.id for one in audience.heard}) == len(roles)
    assert storm.streams == STREAMS


def test_without_a_limit_long_prompts_go_together_and_with_one_they_take_turns() -> None:
    together, held = ScriptedAudience(), ScriptedAudience()
    played(theatre(together).storm("act", None))
    played(theatre(held).storm("act", 1))
    assert (together.most, held.most) == (LONG, 1)


def test_times_are_given_at_the_devices_own_pace() -> None:
    storm = played(theatre(ScriptedAudience()).storm("act", None))
    assert storm.calm_gap_s == pytest.approx(2 * 0.01)
    assert storm.true_lost_s == pytest.approx(2 * 0.5)
    assert (storm.short_queue_s, storm.short_prefill_s) == (2 * 1.25, 2 * 0.5)


def test_a_time_stamp_stands_before_the_system_prompt_or_not_at_all() -> None:
    audience = ScriptedAudience()
    played(theatre(audience).prefix("stamped", stamped=True))
    played(theatre(audience).prefix("clean", stamped=False))
    stamped, clean = audience.heard[:TURNS], audience.heard[TURNS:]
    assert len({one.call.system for one in stamped}) == TURNS
    assert all(one.call.system.startswith("Current time: ") for one in stamped)
    assert len({one.call.system for one in clean}) == 1


def test_a_prefix_is_measured_from_records() -> None:
    measured = played(theatre(ScriptedAudience(), cached=90).prefix("act", stamped=False))
    assert (measured.hit_rate, measured.prompt_tokens) == (0.9, 100)
    assert measured.decode_rate == pytest.approx(50)
    alone = played(theatre(ScriptedAudience()).alone("act"))
    assert alone.ttft_s == pytest.approx(2 * 0.02)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seconds", [20, 60, 120])
def test_an_act_fits_a_third_of_the_show_on_every_device(device: str, seconds: float) -> None:
    plan = Plan(device=device)
    times = tempo(plan, seconds)
    calm = times.output * step_s(plan) / times.speed
    assert calm + storm_s(plan, times.long_tokens) / times.speed < seconds / 3
    assert 1_000 <= times.long_tokens <= LONG_TOKENS


def test_the_default_show_is_in_real_time_with_30k_prompts() -> None:
    times = tempo(Plan(), 60)
    assert times.long_tokens == LONG_TOKENS
    assert times.speed == 1.0


def test_a_joint_phase_counts_as_reading() -> None:
    record = {"phases": {"queue_prefill": {"s": 2.0}}}
    assert (reading(record), spent(record, "queue")) == (2.0, 0.0)


class SilentAudience(ScriptedAudience):
    """Hears every call end, and at most one token of each."""

    def _stamps(self, heard: Heard) -> list[int]:
        return [heard.wanted_ns + MS] if heard.call.role == "stream" else []


class MuteStage(ScriptedStage):
    """Records that know no token, and an engine that wrote no truth."""

    async def records(self, ids: Sequence[str]) -> dict[str, Any]:
        return {id: {"phases": {}, "tokens": {"prompt": None, "cached": None}, "tpot_s": None} for id in ids}

    def truths(self, ids: Sequence[str]) -> dict[str, Any]:
        return {}


def test_an_act_in_which_nothing_was_heard_measures_nothing_and_does_not_raise() -> None:
    mute = Theatre(MuteStage(), SilentAudience(), QUICK, seed=1)  # type: ignore[arg-type]
    storm = played(mute.storm("act", None))
    assert (storm.calm_gap_s, storm.calm_worst_gap_s, storm.worst_gap_s) == (None, None, None)
    assert (storm.lost_s, storm.true_lost_s, storm.long_ttft_s, storm.short_ttft_s) == (None, None, None, None)
    assert (storm.short_calm_ttft_s, storm.short_worst_s) == (None, None)
    assert (storm.streams, storm.stalled, storm.calm_stalled) == (STREAMS, 0, 0)
    prefix = played(mute.prefix("act", stamped=True))
    assert (prefix.prompt_tokens, prefix.hit_rate, prefix.ttft_s, prefix.decode_rate) == (0, None, None, None)


def test_a_stall_and_a_loss_are_told_against_the_usual_gap() -> None:
    gaps = [[0.01, 0.06], [0.01, 0.01], []]
    assert (stalled(gaps, 0.01), stalled(gaps, None)) == (1, 0)
    assert stalled([[0.01] * 7 + [0.06]], 0.01) == 0
    assert lost(gaps, 0.01) == pytest.approx(0.025)
    assert lost(gaps, None) is None
    assert lost([[]], 0.01) is None
