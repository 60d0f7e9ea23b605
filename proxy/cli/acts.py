"""The demo's three acts: what is sent when, and what is measured.

1. Eight people chat; then four send a long document. Short questions come all the while.
2. The same, but only one long prompt is let in at a time, until its first token.
3. A long system prompt, with a time stamp at its head and without.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, median
from typing import Any

from proxy.cli.audience import Audience, Call, Heard
from proxy.cli.stage import Stage
from proxy.sim.cost import Work
from proxy.sim.plan import Plan
from proxy.sim.words import WORDS

STREAMS = 8
LONG = 4
LONG_TOKENS = 30_000
SHORT_TOKENS = 120
"""Tokens of a question."""
SHORT_ANSWER = 16
SHORTS = 9
"""Questions while the long prompts are read."""
TURNS = 6
"""Requests per kind of the third act."""
TURN_ANSWER = 40

FASTEST_STEP_S = 0.005
"""Seconds: no device is played faster than eight streams of 200 tokens a second, which two cores can carry."""

STALL = 5
"""A gap of more than so many usual ones is a stall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """How the show fits its time. Measured times are given as the device's own, whatever the speed."""

    speed: float
    """Times as fast as the device."""
    calm_s: float
    """Streams alone, before the long prompts."""
    long_tokens: int
    system_tokens: int
    output: int
    """Tokens of each stream: enough for calm, and for a while after the storm."""
    every_s: float
    """Between two short questions."""
    pace_s: float
    """Between two tokens of a stream, as the device makes them."""


def tempo(plan: Plan, seconds: float) -> Tempo:
    """A show of about `seconds`: slow devices are played faster, and long prompts cut, until an act takes a third."""
    calm, tail, storm = seconds * 0.11, seconds * 0.08, seconds * 0.12
    speed = max(1.0, step_s(plan) / FASTEST_STEP_S)
    tokens = LONG_TOKENS
    while storm_s(plan, tokens) / speed > storm and tokens > 1_000:
        tokens = tokens * 9 // 10 // 100 * 100
    return Tempo(
        speed=speed,
        calm_s=calm,
        long_tokens=tokens,
        system_tokens=tokens // 5,
        output=round((calm + tail) * speed / step_s(plan)),
        every_s=storm_s(plan, tokens) / speed / (SHORTS + 1),
        pace_s=step_s(plan),
    )


def step_s(plan: Plan) -> float:
    """Seconds between two tokens of all streams together."""
    return plan.cost.seconds([Work(1, 500, True)] * STREAMS)


def storm_s(plan: Plan, tokens: int) -> float:
    """Seconds to read all long prompts."""
    return LONG * plan.cost.seconds([Work(tokens, 0, False)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What the first two acts measured; seconds, as the clients felt them unless said otherwise; None: not measured."""

    pace_s: float
    """Between two tokens, as the device makes them."""
    calm_gap_s: float | None
    """Mean gap between tokens before the long prompts, of the median stream: means bear tokens that arrive together."""
    calm_worst_gap_s: float | None
    calm_stalled: int
    """Streams that stood still most of the time before the long prompts came."""
    worst_gap_s: float | None
    stalled: int
    """Streams that did so while these were read: in gaps of more than `STALL` usual ones."""
    streams: int
    lost_s: float | None
    """Time that its tokens took while the long prompts were read, beyond the usual; mean of the streams. Below zero
    where the streams were slower before: then something else slowed them."""
    true_lost_s: float | None
    """The same by the engine's own truth: decode time lost to others' prefill."""
    long_tokens: int
    long_ttft_s: float | None
    """Worst."""
    short_calm_ttft_s: float | None
    short_ttft_s: float | None
    """Median."""
    short_worst_s: float | None
    short_queue_s: float | None
    """phasegate's record of the slowest question: waiting ..."""
    short_prefill_s: float | None
    """... and reading it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """What the third act measured of one kind of request, first one left out; medians. None: not measured."""

    prompt_tokens: int
    hit_rate: float | None
    """Share of prompt tokens that the engine took from its cache."""
    ttft_s: float | None
    prefill_s: float | None
    decode_rate: float | None
    """Tokens a second, once it writes."""


class Theatre:
    """Plays acts on a stage before an audience. State: the random source."""

    def __init__(self, stage: Stage, audience: Audience, times: Tempo, seed: int) -> None:
        self.stage, self.audience, self.times = stage, audience, times
        self._random = random.Random(seed)

    async def storm(self, act: str, limit: int | None) -> Storm:
        """Acts one and two; at most `limit` long prompts at a time, None: all that come."""
        gate = asyncio.Semaphore(limit) if limit is not None else None
        first = len(self.audience.heard)
        began_ns = self.audience.clock.now_ns()
        async with asyncio.TaskGroup() as group:
            for call in self._streams(act):
                group.create_task(self.audience.call(call))
            calm = group.create_task(self._later(self.times.calm_s / 2, self._short(f"{act}-calm")))
            await asyncio.sleep(self.times.calm_s)
            storm_ns = self.audience.clock.now_ns()
            longs = [group.create_task(self._long(f"{act}-long-{index}", gate)) for index in range(LONG)]
            shorts = [
                group.create_task(self._later((index + 1) * self.times.every_s, self._short(f"{act}-short-{index}")))
                for index in range(SHORTS)
            ]
            await asyncio.gather(*longs, *shorts)
            ended_ns = self.audience.clock.now_ns()
        cast = self.audience.heard[first:]
        return await self._weigh(cast, calm.result(), (began_ns, storm_ns, ended_ns))

    async def prefix(self, act: str, stamped: bool) -> Prefix:
        """One half of act three: the same system prompt, after a time stamp that changes, or without one."""
        system = self._prose(self.times.system_tokens)
        heard = []
        for turn in range(TURNS):
            stamp = f"Current time: 2026-03-01 09:{turn:02d}:{17 + turn}\n" if stamped else ""
            call = Call(f"{act}-{turn}", "short", f"question {turn}: {self._prose(20)}", TURN_ANSWER, stamp + system)
            heard.append(await self.audience.call(call))
        return await self._measure(heard[1:])

    async def alone(self, act: str) -> Prefix:
        """Act three's measure: short prompts by themselves."""
        heard = [await self.audience.call(self._short(f"{act}-{turn}", TURN_ANSWER)) for turn in range(TURNS)]
        return await self._measure(heard)

    async def _measure(self, heard: Sequence[Heard]) -> Prefix:
        speed = self.times.speed
        records = list((await self.stage.records([one.call.id for one in heard])).values())
        prompt = sum(row["tokens"]["prompt"] or 0 for row in records)
        cached = sum(row["tokens"]["cached"] or 0 for row in records)
        token_s = middle(row["tpot_s"] for row in records)
        return Prefix(
            prompt_tokens=round(prompt / len(records)),
            hit_rate=cached / prompt if prompt else None,
            ttft_s=scaled(middle(one.ttft_s for one in heard), speed),
            prefill_s=scaled(middle(map(reading, records)), speed),
            decode_rate=1 / token_s / speed if token_s else None,
        )

    def _streams(self, act: str) -> list[Call]:
        ids = [f"{act}-stream-{index}" for index in range(STREAMS)]
        return [Call(id, "stream", f"{id} {self._prose(40)}", self.times.output) for id in ids]

    def _short(self, id: str, output: int = SHORT_ANSWER) -> Call:
        return Call(id, "short", f"{id} {self._prose(SHORT_TOKENS)}", output)

    async def _long(self, id: str, gate: asyncio.Semaphore | None) -> Heard:
        call = Call(id, "long", f"{id} {self._prose(self.times.long_tokens)}", SHORT_ANSWER)
        return await self.audience.call(call, gate)

    async def _later(self, seconds: float, call: Call) -> Heard:
        await asyncio.sleep(seconds)
        return await self.audience.call(call)

    def _prose(self, tokens: int) -> str:
        words = WORDS.split()
        return " ".join(self._random.choices(words, k=tokens))

    async def _weigh(self, cast: Sequence[Heard], calm: Heard, marks: tuple[int, int, int]) -> Storm:
        began, storm, ended = marks
        roles = {role: [one for one in cast if one.call.role == role] for role in ("stream", "long", "short")}
        shorts = [one for one in roles["short"] if one is not calm]
        before = [one.gaps(began, storm) for one in roles["stream"]]
        during = [one.gaps(storm, ended) for one in roles["stream"]]
        usual = middle(fmean(gaps) for gaps in before if gaps)
        slowest = max(shorts, key=lambda one: one.ttft_s or 0.0)
        record = (await self.stage.records([one.call.id for one in cast]))[slowest.call.id]
        truths = self.stage.truths([one.call.id for one in roles["stream"]]).values()
        speed = self.times.speed
        return Storm(
            pace_s=self.times.pace_s,
            calm_gap_s=scaled(usual, speed),
            calm_worst_gap_s=scaled(worst(chain(*before)), speed),
            calm_stalled=stalled(before, usual),
            worst_gap_s=scaled(worst(chain(*during)), speed),
            stalled=stalled(during, usual),
            streams=len(during),
            lost_s=scaled(lost(during, usual), speed),
            true_lost_s=scaled(mean(row["interference_ns"] / 1e9 for row in truths), speed),
            long_tokens=self.times.long_tokens,
            long_ttft_s=scaled(worst(one.ttft_s for one in roles["long"]), speed),
            short_calm_ttft_s=scaled(calm.ttft_s, speed),
            short_ttft_s=scaled(middle(one.ttft_s for one in shorts), speed),
            short_worst_s=scaled(slowest.ttft_s, speed),
            short_queue_s=scaled(spent(record, "step_wait", "queue"), speed),
            short_prefill_s=scaled(reading(record), speed),
        )


def stalled(gaps: Sequence[Sequence[float]], usual: float | None) -> int:
    """How many streams spent most of their time in stalls; none where the usual is not known.

    One stall is not enough: a machine with other work to do makes one of any stream.
    """
    if usual is None:
        return 0
    return sum(sum(gap for gap in stream if gap > STALL * usual) > sum(stream) / 2 for stream in gaps)


def lost(gaps: Sequence[Sequence[float]], usual: float | None) -> float | None:
    """Seconds that the gaps took beyond the usual, mean of the streams; None where there is no usual or no gap."""
    if usual is None:
        return None
    return mean(sum(stream) - len(stream) * usual for stream in gaps if stream)


def middle(values: Iterable[float | None]) -> float | None:
    """The median of what was measured; None: nothing was."""
    measured = [value for value in values if value is not None]
    return median(measured) if measured else None


def mean(values: Iterable[float]) -> float | None:
    """The mean; None: of nothing."""
    measured = list(values)
    return fmean(measured) if measured else None


def worst(values: Iterable[float | None]) -> float | None:
    """The largest of what was measured; None: nothing was."""
    return max((value for value in values if value is not None), default=None)


def scaled(seconds: float | None, speed: float) -> float | None:
    """The device's own time of what was played `speed` times as fast."""
    return None if seconds is None else seconds * speed


def spent(record: dict[str, Any], *phases: str) -> float:
    """Seconds of these phases in a record; a phase that is absent took none."""
    return float(sum(record["phases"][name]["s"] for name in phases if name in record["phases"]))


def reading(record: dict[str, Any]) -> float:
    """Seconds of prefill; with waiting, where the record cannot part them."""
    return spent(record, "prefill", "queue_prefill")
