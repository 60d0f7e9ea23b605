"""What the demo shows: a live view while an act is on, a table after it, and what was seen, in plain words."""

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
BIN_NS = 250_000_000
"""One character of a stream's line is a quarter of a second."""

OWN_ENGINE = "phasegate serve --upstream http://127.0.0.1:8000"
"""The one command: vLLM's default port; Ollama's is 11434."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Something the demo says will be seen, and whether it was."""

    says: str
    seen: bool


def effects(storm: Storm, held: Storm, alone: Prefix, stamped: Prefix, clean: Prefix) -> list[Effect]:
    """What the three acts claim. Margins are wide: the machine has other work to do."""
    return [
        Effect("every stream stalls while long prompts are read", storm.stalled == storm.streams),
        Effect("the time lost agrees with the engine's truth", _near(storm.lost_s, storm.true_lost_s, 0.25)),
        Effect("one long prompt at a time lets questions through", held.short_worst_s < 0.7 * storm.short_worst_s),
        Effect("a time stamp at the head spoils the prefix cache", stamped.hit_rate < 0.1 < 0.5 < clean.hit_rate),
        Effect("a cached prefix is read faster", clean.prefill_s < 0.5 * stamped.prefill_s),
        Effect("the prompt's length hardly changes the speed", _near(stamped.decode_rate, alone.decode_rate, 0.25)),
    ]


def live(heard: Sequence[Heard], now_ns: int) -> Group:
    """The act that is on: a line per stream, and one for the rest."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for one in [one for one in heard if one.call.role == "stream" and not one.done][:8]:
        name = f"  stream {one.call.id[-1]}"
        table.add_row(name, Text(spark(one.stamps, now_ns), style="cyan"), f"{rate(one.stamps, now_ns):4d} tok/s")
    return Group(*([table] if table.row_count else []), Text("  " + "; ".join(others(heard)), style="dim"))


def plain(heard: Sequence[Heard], now_ns: int) -> str:
    """The same in one line, for pipes and logs."""
    streams = [one for one in heard if one.call.role == "stream" and not one.done and one.stamps]
    rates = [rate(one.stamps, now_ns) for one in streams]
    said = [f"{len(rates)} streams at {min(rates)} tok/s"] if rates else []
    return "  " + "; ".join([*said, *others(heard)])


def others(heard: Sequence[Heard]) -> list[str]:
    """Long prompts and questions so far."""
    said = []
    for role, name in (("long", "long"), ("short", "questions")):
        calls = [one for one in heard if one.call.role == role]
        times = [one.ttft_s for one in calls if one.ttft_s is not None]
        worst = f" (ttft to {max(times):.2f} s)" if times else ""
        said += [f"{name} {len(times)}/{len(calls)}{worst}"] if calls else []
    return said


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
    table.add_row("gap between two tokens", _s(storm.calm_gap_s), f"up to {_s(storm.worst_gap_s)}")
    table.add_row("streams that stood still", "0", f"{storm.stalled} of {storm.streams}")
    table.add_row("first token of a question", _s(storm.short_calm_ttft_s), f"up to {_s(storm.short_worst_s)}")
    return table


def storm_words(storm: Storm) -> str:
    """Act one, named."""
    return (
        f"  Each stream lost {storm.lost_s:.2f} s of decode to prefill of others: interference.\n"
        f"  (Measured from outside. The engine's own truth: {storm.true_lost_s:.2f} s.)\n"
        f"  The slowest question waited {storm.short_queue_s:.2f} s, and was read in {storm.short_prefill_s:.2f} s."
    )


def held_table(storm: Storm, held: Storm) -> Table:
    """Acts one and two side by side."""
    table = _table("", "as they come", "one long at a time")
    rows: list[tuple[str, float, float]] = [
        ("question, median ttft", storm.short_ttft_s, held.short_ttft_s),
        ("question, worst ttft", storm.short_worst_s, held.short_worst_s),
        ("  of which queue", storm.short_queue_s, held.short_queue_s),
        ("long prompt, worst ttft", storm.long_ttft_s, held.long_ttft_s),
        ("decode lost per stream", storm.lost_s, held.lost_s),
    ]
    for name, before, after in rows:
        table.add_row(name, _s(before), _s(after))
    return table


def held_words(storm: Storm, held: Storm) -> str:
    """Act two, in a sentence for what it mends and one for what it does not."""
    times = storm.short_worst_s / held.short_worst_s if held.short_worst_s else 0.0
    return (
        f"  The worst question is answered {times:.1f} times sooner, the last long prompt\n"
        "  about when it was.\n"
        "  The streams lose as much as before. That lever is the engine's own:\n"
        "  --long-prefill-token-threshold."
    )


def prefix_table(alone: Prefix, stamped: Prefix, clean: Prefix) -> Table:
    """Act three side by side."""
    table = _table("", "no system prompt", "time stamp first", "no time stamp")
    kinds = (alone, stamped, clean)
    table.add_row("prompt tokens", *(f"{kind.prompt_tokens:,}" for kind in kinds))
    table.add_row("from the cache", *(f"{kind.hit_rate:.0%}" for kind in kinds))
    table.add_row("first token after", *(_s(kind.ttft_s) for kind in kinds))
    table.add_row("  of which prefill", *(_s(kind.prefill_s) for kind in kinds))
    table.add_row("then, tokens/s", *(f"{kind.decode_rate:.0f}" for kind in kinds))
    return table


def seen(storm: Storm, alone: Prefix, stamped: Prefix, clean: Prefix) -> list[str]:
    """What to take home."""
    return [
        f"First token: {_s(alone.ttft_s)} for {alone.prompt_tokens:,} tokens, {_s(stamped.ttft_s)} for "
        f"{stamped.prompt_tokens:,}: it grows.",
        f"Speed: {alone.decode_rate:.0f} and {stamped.decode_rate:.0f} tokens a second: it hardly changes.",
        "So a long system prompt costs the first token, not the rest.",
        f"Cached, it costs next to nothing: {_s(clean.ttft_s)}. A time stamp at its head",
        "makes it cost everything, every time. Put the time at the end.",
        f"And one prompt of {storm.long_tokens:,} tokens is everybody's stall.",
    ]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 2), header_style="dim")
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _s(seconds: float) -> str:
    """Seconds as one reads them."""
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.0995 else f"{seconds:.2f} s"


def _near(one: float, other: float, share: float) -> bool:
    return abs(one - other) <= share * max(one, other)
