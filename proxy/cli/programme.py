"""What the demo shows: a live view while an act is on, a table after it, and what was seen, in plain words.

Every sentence has its condition: what was not measured in this run is not said of it.
"""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from proxy.cli.acts import Prefix, Storm
from proxy.cli.audience import Heard

BARS = " ▁▂▃▄▅▆▇█"
BINS = 40
BESIDE = 24
"""Characters of a stream's line that are no bars."""
BIN_NS = 250_000_000
"""One character of a stream's line is a quarter of a second."""

LEVER = "--long-prefill-token-threshold"
"""vLLM's option: how much of a long prompt a step may read."""

OWN_ENGINE = "phasegate serve --upstream http://127.0.0.1:8000"
"""The one command: vLLM's default port; Ollama's is 11434."""


UNSTEADY = 3
"""Times the device's own gap between tokens: streams that are slower before the long prompts have another reason."""

SAME = 0.25
"""Share by which two times or rates may differ and still be called the same: both are taken from outside."""

LESS = 0.7
"""What is below this share of the other is called less: margins are wide, the machine has other work to do."""

BUSY = "This machine was busy"
AGAIN = "Run it again when it is idle."


@dataclass(frozen=True, slots=True)
class Effect:
    """Something the demo says will be seen, and whether it was."""

    says: str
    seen: bool


def effects(storm: Storm, held: Storm, alone: Prefix, stamped: Prefix, clean: Prefix) -> list[Effect]:
    """What the three acts claim."""
    return [
        Effect("every stream stalls while long prompts are read", storm.stalled == storm.streams),
        Effect("the time lost agrees with the engine's truth", same(storm.lost_s, storm.true_lost_s)),
        Effect("one long prompt at a time lets questions through", less(held.short_worst_s, storm.short_worst_s)),
        Effect("a time stamp at the head spoils the prefix cache", spoilt(stamped, clean)),
        Effect("a cached prefix is read faster", less(clean.prefill_s, stamped.prefill_s, 0.5)),
        Effect("the prompt's length hardly changes the speed", same(stamped.decode_rate, alone.decode_rate)),
        Effect(
            "streams run at the engine's pace until long prompts come", not (disturbance(storm) or disturbance(held))
        ),
    ]


def disturbance(storm: Storm) -> str:
    """Why an act's measure says nothing about long prompts, in words; empty: it does."""
    if storm.calm_gap_s is None:
        return "no stream got going before the long prompts came"
    if storm.calm_gap_s > UNSTEADY * storm.pace_s:
        return "the streams stuttered before the long prompts came"
    if not less(storm.calm_worst_gap_s, storm.worst_gap_s, 1):
        return "a stream stood still for longer before the long prompts came than after"
    if not less(storm.short_calm_ttft_s, storm.short_worst_s, 1):
        return "a question waited for longer before the long prompts came than after"
    if not same(storm.lost_s, storm.true_lost_s):
        return "what the streams lost is not what the engine's prefill took from them"
    return ""


def live(heard: Sequence[Heard], now_ns: int, width: int) -> Group:
    """The act that is on: a line per stream, and one for the rest. On a narrow screen the oldest is left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for one in [one for one in heard if one.call.role == "stream" and not one.done][:8]:
        name = f"  stream {one.call.id[-1]}"
        table.add_row(
            name,
            Text(spark(one.stamps, now_ns)[-max(width - BESIDE, 1) :], style="cyan"),
            f"{rate(one.stamps, now_ns):4d} tok/s",
        )
    return Group(
        *([table] if table.row_count else []), Text("\n".join(f"  {one}" for one in others(heard)), style="dim")
    )


def plain(heard: Sequence[Heard], now_ns: int) -> str:
    """The same in one line, for pipes and logs."""
    streams = [one for one in heard if one.call.role == "stream" and not one.done and one.stamps]
    rates = [rate(one.stamps, now_ns) for one in streams]
    said = [f"{len(rates)} streams, slowest {min(rates):4d} tok/s"] if rates else []
    return "  " + "   ".join([*said, *others(heard)])


def others(heard: Sequence[Heard]) -> list[str]:
    """Long prompts and questions so far: how many have their first token, and after how long the last to get it."""
    said = []
    for role, name in (("long", "long prompts"), ("short", "questions")):
        calls = [one for one in heard if one.call.role == role]
        times = [one.ttft_s for one in calls if one.ttft_s is not None]
        within = f"within {max(times):5.2f} s" if times else "not yet"
        said += [f"{name} {len(times):2d} of {len(calls):2d}, first token {within:<14}"] if calls else []
    return [*said[:-1], *(one.rstrip() for one in said[-1:])]


def rate(stamps: Sequence[int], now_ns: int) -> int:
    """Tokens of the last second."""
    return len(stamps) - bisect(stamps, now_ns - 1_000_000_000)


def spark(stamps: Sequence[int], now_ns: int) -> str:
    """Tokens per quarter of a second, newest to the right, as bars against the best of them."""
    counts = [0] * BINS
    for stamp in reversed(stamps):
        age = (now_ns - stamp) // BIN_NS
        if age >= BINS:
            break
        counts[BINS - 1 - age] += 1
    best = max(counts) or 1
    return "".join(BARS[-(-count * (len(BARS) - 1) // best)] for count in counts)


def storm_table(storm: Storm) -> Table:
    """Act one, before and during."""
    table = _table("", "before", "during")
    gaps = times(storm.calm_gap_s, storm.worst_gap_s)
    firsts = times(storm.short_calm_ttft_s, storm.short_worst_s)
    table.add_row("gap between two tokens", gaps[0], f"up to {gaps[1]}")
    table.add_row(
        "streams that mostly stood still",
        f"{storm.calm_stalled} of {storm.streams}",
        f"{storm.stalled} of {storm.streams}",
    )
    table.add_row("first token of a question", firsts[0], f"up to {firsts[1]}")
    return table


def storm_words(storm: Storm) -> str:
    """Act one, named; or why it cannot be."""
    if why := disturbance(storm):
        return busy(why)
    return (
        f"  Each stream lost {storm.lost_s:.2f} s of decode to prefill of others: interference.\n"
        f"  (Measured from outside. The engine's own truth: {storm.true_lost_s:.2f} s.)\n"
        f"  The slowest question waited {storm.short_queue_s:.2f} s, and was read in {storm.short_prefill_s:.2f} s."
    )


def busy(why: str) -> str:
    """What is said in place of a conclusion."""
    return f"  {BUSY}: {why}.\n  This act shows nothing about long prompts. {AGAIN}"


def held_table(storm: Storm, held: Storm) -> Table:
    """Acts one and two side by side."""
    table = _table("", "as they come", "one long at a time")
    steady = not (disturbance(storm) or disturbance(held))
    rows: list[tuple[str, float | None, float | None]] = [
        ("question, median ttft", storm.short_ttft_s, held.short_ttft_s),
        ("question, worst ttft", storm.short_worst_s, held.short_worst_s),
        ("  of which queue", storm.short_queue_s, held.short_queue_s),
        ("long prompt, worst ttft", storm.long_ttft_s, held.long_ttft_s),
        *([("decode lost per stream", storm.lost_s, held.lost_s)] if steady else []),
    ]
    for name, before, after in rows:
        table.add_row(name, *times(before, after))
    return table


def held_words(storm: Storm, held: Storm) -> str:
    """Act two: what it mends and what it does not; or why that cannot be said."""
    if why := disturbance(storm):
        return f"  There is nothing to compare with: in act 1 {why}.\n  {AGAIN}"
    if why := disturbance(held):
        return busy(why)
    lines = [
        f"  The worst question is answered {moved(storm.short_worst_s, held.short_worst_s)}.",
        f"  The last long prompt has its first token {moved(storm.long_ttft_s, held.long_ttft_s)}.",
    ]
    if same(storm.lost_s, held.lost_s):
        lines += ["  The streams lose as much as before. That lever is the engine's own:", f"  {LEVER}."]
    else:
        lost = "less" if less(held.lost_s, storm.lost_s, 1) else "more"
        lines.append(f"  The streams lose {lost} than before.")
    return "\n".join(lines)


def moved(before: float | None, after: float | None) -> str:
    """How a time changed, in words."""
    if not before or not after:
        return "at a time that was not measured"
    if less(after, before):
        return f"{before / after:.1f} times sooner"
    if less(before, after):
        return f"{after / before:.1f} times later"
    return "about when it was"


def prefix_table(alone: Prefix, stamped: Prefix, clean: Prefix) -> Table:
    """Act three side by side."""
    table = _table("", "no system prompt", "time stamp first", "no time stamp")
    kinds = (alone, stamped, clean)
    table.add_row("prompt tokens", *(f"{kind.prompt_tokens:,}" for kind in kinds))
    table.add_row("from the cache", *(_number(kind.hit_rate, ".0%") for kind in kinds))
    table.add_row("first token after", *times(*(kind.ttft_s for kind in kinds)))
    table.add_row("  of which prefill", *times(*(kind.prefill_s for kind in kinds)))
    table.add_row("then, tokens/s", *(_number(kind.decode_rate, ".0f") for kind in kinds))
    return table


def seen(storm: Storm, alone: Prefix, stamped: Prefix, clean: Prefix) -> list[str]:
    """What to take home of what this run showed."""
    grows, steady = less(alone.ttft_s, stamped.ttft_s), same(stamped.decode_rate, alone.decode_rate)
    cached = spoilt(stamped, clean) and less(clean.ttft_s, stamped.ttft_s, 0.5)
    stall = storm.stalled == storm.streams and not disturbance(storm)
    short, long, hit = times(alone.ttft_s, stamped.ttft_s, clean.ttft_s)
    rates = f"{_number(alone.decode_rate, '.0f')} and {_number(stamped.decode_rate, '.0f')}"
    said = [
        (
            grows,
            f"First token: {short} for {alone.prompt_tokens:,} tokens, {long} for {stamped.prompt_tokens:,}: it grows.",
        ),
        (steady, f"Speed: {rates} tokens a second: it hardly changes."),
        (grows and steady, "So a long system prompt costs the first token, not the rest."),
        (cached, f"Cached, it costs little: {hit}. A time stamp at its head"),
        (cached, "makes it cost everything, every time. Put the time at the end."),
        (stall, f"And one prompt of {storm.long_tokens:,} tokens is everybody's stall."),
    ]
    return [words for shown, words in said if shown] or [f"Nothing that could be told from chance. {AGAIN}"]


def spoilt(stamped: Prefix, clean: Prefix) -> bool:
    """Whether the time stamp made the difference to the cache."""
    if stamped.hit_rate is None or clean.hit_rate is None:
        return False
    return stamped.hit_rate < 0.1 < 0.5 < clean.hit_rate


def same(one: float | None, other: float | None) -> bool:
    """Whether both were measured, are no less than nothing, and differ by `SAME` of the larger at most."""
    if one is None or other is None or min(one, other) < 0:
        return False
    return abs(one - other) <= SAME * max(one, other)


def less(one: float | None, other: float | None, share: float = LESS) -> bool:
    """Whether both were measured, and one is below a share of the other."""
    return one is not None and other is not None and one < share * other


def times(*seconds: float | None) -> list[str]:
    """Seconds as one reads them, all in one unit: milliseconds where none reaches a second."""
    measured = [one for one in seconds if one is not None]
    if max(measured, default=0.0) < 1:
        return [_number(None if one is None else one * 1e3, ".1f", " ms") for one in seconds]
    spec = ".3f" if min(measured) < 0.1 else ".2f"
    return [_number(one, spec, " s") for one in seconds]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 2), header_style="dim")
    table.add_column(columns[0], overflow="fold")
    for column in columns[1:]:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _number(value: float | None, spec: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{spec}}{unit}"
