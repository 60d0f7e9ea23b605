import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from proxy.cli import programme
from proxy.cli.acts import Prefix, Storm
from proxy.cli.audience import Call, Heard

STORM = Storm(
    calm_gap_s=0.005,
    worst_gap_s=0.5,
    stalled=8,
    streams=8,
    lost_s=5.8,
    true_lost_s=5.78,
    long_tokens=30_000,
    long_ttft_s=5.9,
    short_calm_ttft_s=0.014,
    short_ttft_s=3.0,
    short_worst_s=5.3,
    short_queue_s=4.9,
    short_prefill_s=0.4,
)
HELD = replace(STORM, short_ttft_s=0.7, short_worst_s=1.3, short_queue_s=0.9, long_ttft_s=6.0)
ALONE = Prefix(prompt_tokens=136, hit_rate=0.0, ttft_s=0.008, prefill_s=0.005, decode_rate=208)
STAMPED = Prefix(prompt_tokens=6_055, hit_rate=0.0, ttft_s=0.22, prefill_s=0.21, decode_rate=199)
CLEAN = Prefix(prompt_tokens=6_040, hit_rate=0.99, ttft_s=0.01, prefill_s=0.005, decode_rate=199)

SECOND = 1_000_000_000


def shown(*things: RenderableType) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(*things, sep="\n", soft_wrap=True)
    return console.export_text()


def heard(role: str, *stamps: float, done: bool = False) -> Heard:
    return Heard(Call(f"act1-{role}-3", role, "", 1), 0, [round(stamp * SECOND) for stamp in stamps], done=done)


def test_what_was_measured_is_what_was_claimed() -> None:
    assert all(effect.seen for effect in programme.effects(STORM, HELD, ALONE, STAMPED, CLEAN))


@pytest.mark.parametrize(
    ("index", "storm", "held", "stamped", "clean"),
    [
        (0, replace(STORM, stalled=7), HELD, STAMPED, CLEAN),
        (1, replace(STORM, true_lost_s=3.0), HELD, STAMPED, CLEAN),
        (2, STORM, replace(HELD, short_worst_s=5.0), STAMPED, CLEAN),
        (3, STORM, HELD, replace(STAMPED, hit_rate=0.6), CLEAN),
        (4, STORM, HELD, STAMPED, replace(CLEAN, prefill_s=0.2)),
        (5, STORM, HELD, replace(STAMPED, decode_rate=90), CLEAN),
    ],
    ids=["stall", "truth", "gate", "cache", "prefill", "speed"],
)
def test_an_effect_that_was_not_there_is_not_seen(
    index: int, storm: Storm, held: Storm, stamped: Prefix, clean: Prefix
) -> None:
    seen = [effect.seen for effect in programme.effects(storm, held, ALONE, stamped, clean)]
    assert seen == [place != index for place in range(6)]


def test_tables_fit_eighty_columns_and_say_their_numbers() -> None:
    text = shown(
        programme.storm_table(STORM),
        programme.storm_words(STORM),
        programme.held_table(STORM, HELD),
        programme.held_words(STORM, HELD),
        programme.prefix_table(ALONE, STAMPED, CLEAN),
        *programme.seen(STORM, ALONE, STAMPED, CLEAN),
    )
    assert max(map(len, text.splitlines())) <= 80
    for said in ("up to 0.50 s", "8 of 8", "5.80 s", "5.78 s", "1.30 s", "4.1 times sooner", "99%", "6,055", "8.0 ms"):
        assert said in text


def test_a_streams_line_falls_to_nothing_where_it_stood_still() -> None:
    stamps = [round(at * 0.01 * SECOND) for at in range(400) if not 150 <= at < 250]
    line = programme.spark(stamps, 4 * SECOND)
    assert (len(line), line[-1], line[-9:-7]) == (programme.BINS, "█", "  ")
    assert programme.spark([], SECOND) == " " * programme.BINS


def test_the_live_view_has_a_line_per_open_stream_and_one_for_the_rest() -> None:
    cast = [heard("stream", 1.2, 1.4, 1.9), heard("stream", 1.0, done=True), heard("long", 1.5), heard("short")]
    text = shown(programme.live(cast, 2 * SECOND))
    assert "stream 3" in text
    assert "3 tok/s" in text
    assert "long 1/1 (ttft to 1.50 s); questions 0/1" in text


def test_the_plain_line_has_the_same_in_one_line() -> None:
    cast = [heard("stream", 1.2, 1.4), heard("long", 1.5)]
    assert programme.plain(cast, 2 * SECOND) == "  1 streams at 2 tok/s; long 1/1 (ttft to 1.50 s)"
    assert programme.plain([], 0) == "  "
