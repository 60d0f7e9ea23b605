import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from proxy.cli import programme
from proxy.cli.acts import Prefix, Storm
from proxy.cli.audience import Call, Heard

STORM = Storm(
    pace_s=0.0048,
    calm_gap_s=0.005,
    calm_worst_gap_s=0.02,
    calm_stalled=0,
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
NOTHING = Storm(
    pace_s=0.0048,
    calm_gap_s=None,
    calm_worst_gap_s=None,
    calm_stalled=0,
    worst_gap_s=None,
    stalled=0,
    streams=8,
    lost_s=None,
    true_lost_s=None,
    long_tokens=30_000,
    long_ttft_s=None,
    short_calm_ttft_s=None,
    short_ttft_s=None,
    short_worst_s=None,
    short_queue_s=None,
    short_prefill_s=None,
)
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
        (2, STORM, replace(HELD, short_worst_s=5.0), STAMPED, CLEAN),
        (3, STORM, HELD, replace(STAMPED, hit_rate=0.6), CLEAN),
        (4, STORM, HELD, STAMPED, replace(CLEAN, prefill_s=0.2)),
        (5, STORM, HELD, replace(STAMPED, decode_rate=90), CLEAN),
    ],
    ids=["stall", "gate", "cache", "prefill", "speed"],
)
def test_an_effect_that_was_not_there_is_not_seen(
    index: int, storm: Storm, held: Storm, stamped: Prefix, clean: Prefix
) -> None:
    seen = [effect.seen for effect in programme.effects(storm, held, ALONE, stamped, clean)]
    assert seen == [place != index for place in range(7)]


def test_a_busy_machine_spoils_the_effect_that_says_so_and_the_truth() -> None:
    def seen(storm: Storm, held: Storm) -> list[bool]:
        return [effect.seen for effect in programme.effects(storm, held, ALONE, STAMPED, CLEAN)]

    other = replace(STORM, true_lost_s=3.0)
    assert seen(other, HELD) == [True, False, True, True, True, True, False]
    assert seen(STORM, replace(HELD, calm_gap_s=0.1)) == [True] * 6 + [False]


def test_where_nothing_was_measured_nothing_is_seen_and_nothing_raised() -> None:
    storm, kind = NOTHING, Prefix(prompt_tokens=0, hit_rate=None, ttft_s=None, prefill_s=None, decode_rate=None)
    assert not any(effect.seen for effect in programme.effects(storm, storm, kind, kind, kind))
    text = shown(
        programme.storm_table(storm),
        programme.storm_words(storm),
        programme.held_table(storm, storm),
        programme.held_words(storm, storm),
        programme.prefix_table(kind, kind, kind),
        *programme.seen(storm, kind, kind, kind),
    )
    assert "None" not in text
    assert "Nothing that could be told from chance." in text


BUSY = {
    "no start": ({"calm_gap_s": None}, "no stream got going before"),
    "stutter": ({"calm_gap_s": 0.016}, "the streams stuttered before the long prompts came"),
    "gap": ({"calm_worst_gap_s": 0.6}, "a stream stood still for longer before"),
    "question": ({"short_calm_ttft_s": 8.32}, "a question waited for longer before"),
    "negative": ({"lost_s": -4.39}, "what the streams lost is not what"),
    "other": ({"lost_s": 9.0}, "what the streams lost is not what"),
    "unknown": ({"true_lost_s": None}, "what the streams lost is not what"),
}


@pytest.mark.parametrize(("changes", "why"), BUSY.values(), ids=list(BUSY))
def test_a_busy_machine_is_said_in_place_of_conclusions(changes: dict[str, Any], why: str) -> None:
    storm = replace(STORM, **changes)
    assert programme.disturbance(STORM) == ""
    for words in (programme.storm_words(storm), programme.held_words(STORM, replace(HELD, **changes))):
        assert words.startswith(f"  This machine was busy: {why}")
        assert "Run it again when it is idle." in words
    assert f"in act 1 {why}" in programme.held_words(storm, HELD)
    for text in (programme.storm_words(storm), programme.held_words(storm, HELD)):
        assert "lost -" not in text
        assert "lose" not in text
        assert "interference" not in text
    assert "decode lost" not in shown(programme.held_table(storm, HELD))
    assert "decode lost" not in shown(programme.held_table(STORM, replace(HELD, **changes)))
    assert "stall" not in " ".join(programme.seen(storm, ALONE, STAMPED, CLEAN))


@pytest.mark.parametrize(
    ("held", "said", "unsaid"),
    [
        (HELD, "question is answered 4.1 times sooner", "later"),
        (replace(HELD, short_worst_s=5.0), "question is answered about when it was", "sooner"),
        (replace(HELD, short_worst_s=10.6), "question is answered 2.0 times later", "sooner"),
        (HELD, "first token about when it was", "later"),
        (replace(HELD, long_ttft_s=11.8), "first token 2.0 times later", "about when"),
        (replace(HELD, long_ttft_s=None), "first token at a time that was not measured", "about when"),
        (HELD, "lose as much as before. That lever", "less"),
        (replace(HELD, lost_s=2.0, true_lost_s=2.0), "lose less than before", "lever"),
        (replace(HELD, lost_s=9.0, true_lost_s=9.0), "lose more than before", "lever"),
    ],
)
def test_act_two_is_told_as_it_went(held: Storm, said: str, unsaid: str) -> None:
    words = programme.held_words(STORM, held)
    assert said in words
    assert unsaid not in words


@pytest.mark.parametrize(
    ("alone", "stamped", "clean", "missing"),
    [
        (replace(ALONE, ttft_s=0.2), STAMPED, CLEAN, ["it grows", "So a long"]),
        (replace(ALONE, decode_rate=90), STAMPED, CLEAN, ["hardly changes", "So a long"]),
        (ALONE, replace(STAMPED, hit_rate=0.5), CLEAN, ["Cached", "makes it cost"]),
        (ALONE, STAMPED, replace(CLEAN, hit_rate=None), ["Cached", "makes it cost"]),
        (ALONE, STAMPED, replace(CLEAN, ttft_s=0.15), ["Cached", "makes it cost"]),
    ],
)
def test_only_what_was_seen_is_taken_home(alone: Prefix, stamped: Prefix, clean: Prefix, missing: list[str]) -> None:
    told = ["it grows", "hardly changes", "So a long", "Cached", "makes it cost", "everybody's stall"]
    lines = programme.seen(STORM, alone, stamped, clean)
    assert [part for part in told if not any(part in line for line in lines)] == missing
    assert len(lines) == len(told) - len(missing)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ((0.0046, 0.49), ["4.6 ms", "490.0 ms"]),
        ((0.0165, 5.63), ["0.017 s", "5.630 s"]),
        ((3.0, 0.7), ["3.00 s", "0.70 s"]),
        ((None, 1.5), ["-", "1.50 s"]),
        ((None,), ["-"]),
    ],
)
def test_a_row_has_one_unit(seconds: tuple[float | None, ...], said: list[str]) -> None:
    assert programme.times(*seconds) == said


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
    for said in (
        "up to 500.0 ms",
        "8 of 8",
        "5.80 s",
        "5.78 s",
        "1.30 s",
        "4.1 times sooner",
        "99%",
        "6,055",
        "8.0 ms",
    ):
        assert said in text


def test_a_streams_line_falls_to_nothing_where_it_stood_still() -> None:
    stamps = [round(at * 0.01 * SECOND) for at in range(400) if not 150 <= at < 250]
    line = programme.spark(stamps, 4 * SECOND)
    assert (len(line), line[-1], line[-9:-7]) == (programme.BINS, "█", "  ")
    assert programme.spark([], SECOND) == " " * programme.BINS


def test_the_live_view_has_a_line_per_open_stream_and_one_for_the_rest() -> None:
    cast = [heard("stream", 1.2, 1.4, 1.9), heard("stream", 1.0, done=True), heard("long", 1.5), heard("short")]
    text = shown(programme.live(cast, 2 * SECOND, 80))
    assert "stream 3" in text
    assert "3 tok/s" in text
    assert "  long prompts  1 of  1, first token within  1.50 s\n" in text
    assert "  questions  0 of  1, first token not yet" in text


@pytest.mark.parametrize("width", [80, 40, 30])
def test_on_a_narrow_screen_the_newest_is_still_seen(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(programme.live([heard("stream", 1.2, 1.4, 1.9)], 2 * SECOND, width))
    (line,) = [line for line in console.export_text().splitlines() if line]
    assert line.rstrip().endswith("█     3 tok/s")
    assert "…" not in line


def test_a_narrow_table_breaks_words_and_drops_none() -> None:
    console = Console(width=30, record=True, file=io.StringIO())
    console.print(programme._table("streams that mostly stood still", "before", "one long at a time"))
    assert "…" not in console.export_text()


def test_the_plain_line_has_the_same_in_one_line() -> None:
    cast = [heard("stream", 1.2, 1.4), heard("long", 1.5)]
    assert (
        programme.plain(cast, 2 * SECOND)
        == "  1 streams, slowest    2 tok/s   long prompts  1 of  1, first token within  1.50 s"
    )
    assert programme.plain([], 0) == "  "
