from typing import Any

import pytest

from proxy.claims import FIELDS, MOST, Claims, sift
from proxy.records import EngineReport, Gaps, RequestFacts, Timeline, Usage

MS = 1_000_000
ASKED = RequestFacts("openai", "chat", "inference")


def stream(moments: int, total_ms: int = 1000, **more: Any) -> Timeline:
    gaps = Gaps(0, max(0, moments - 1), 0, 0, 0, 0, lead=1, moments=moments)
    marks = {"first_token_ns": 100 * MS, "first_answer_ns": 100 * MS} | more
    return Timeline(0.0, total_ms * MS, dispatched_ns=0, gaps=(gaps,), choices=1, **marks)


def judged(usage: Usage | None, line: Timeline | None = None, report: EngineReport | None = None) -> Claims:
    return sift(ASKED, stream(10) if line is None else line, usage, report)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(5),
        Usage(0, 10, 0, 0),
        Usage(5, 10, 5, 10),
        Usage(None, 10, 7, None),
        Usage(5, 5000, 0, None),
        Usage(MOST, 10),
        pytest.param(Usage(5, 10), id="as many tokens as moments"),
    ],
)
def test_what_can_be_is_believed_as_it_is(usage: Usage | None) -> None:
    report = EngineReport(source="llamacpp.timings", fresh_tokens=0, output_tokens=10)
    assert judged(usage, report=report) == Claims(usage, report, ())
    assert judged(usage) == Claims(usage, None, ())


@pytest.mark.parametrize(
    ("usage", "left", "named"),
    [
        pytest.param(Usage(10, 10, 11), Usage(10, 10), ["cached_tokens"], id="more cached than there is"),
        pytest.param(Usage(10, 10, 3, 11), Usage(10, 10, 3), ["reasoning_tokens"], id="more reasoning than output"),
        pytest.param(Usage(10, 2), Usage(10), ["output_tokens"], id="fewer tokens than moments"),
        pytest.param(Usage(10, 0), Usage(10), ["output_tokens"], id="none"),
        pytest.param(Usage(10, 10**6), Usage(10), ["output_tokens"], id="more than there was time for"),
        pytest.param(Usage(None, 10, 2**53), Usage(None, 10), ["cached_tokens"], id="more cached than any window"),
        pytest.param(Usage(2**53, 10, 4), Usage(None, 10, 4), ["prompt_tokens"], id="a prompt of any size"),
        pytest.param(
            Usage(2**53, 2**53, 2**53, 2**53),
            None,
            ["prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"],
            id="nothing is left",
        ),
    ],
)
def test_what_cannot_be_is_left_out_and_named(usage: Usage, left: Usage | None, named: list[str]) -> None:
    assert judged(usage) == Claims(left, None, tuple(f"impossible.{name}" for name in named))
    assert set(named) <= set(FIELDS)


def test_the_report_s_counts_are_judged_too_and_its_durations_stay() -> None:
    said = EngineReport(source="llamacpp.timings", prefill_ns=5, fresh_tokens=11, output_tokens=2)
    usage, report, findings = judged(Usage(10, 10, 0), report=said)
    assert report == said._replace(fresh_tokens=None, output_tokens=None)
    assert (usage, findings) == (Usage(10, 10, 0), ("impossible.output_tokens", "impossible.fresh_tokens"))


def test_the_same_figure_in_two_places_is_named_once() -> None:
    said = EngineReport(source="llamacpp.timings", output_tokens=2)
    assert judged(Usage(10, 2), report=said).findings == ("impossible.output_tokens",)


def test_a_token_now_and_then_in_two_pieces_contradicts_nothing() -> None:
    assert judged(Usage(10, 20), stream(21)).findings == ()
    assert judged(Usage(10, 20), stream(23)).findings == ("impossible.output_tokens",)


def test_output_that_came_at_one_moment_is_not_counted_by_events() -> None:
    """A parser may write several events for one step of the engine."""
    assert judged(Usage(10, 2), stream(1)._replace(token_events=3)).findings == ()


def test_of_several_choices_or_prompts_a_figure_may_cover_one() -> None:
    two = stream(20)._replace(choices=2)
    assert judged(Usage(10, 11), two).findings == ()
    asked = ASKED._replace(prompts=2)
    assert sift(asked, stream(20), Usage(10, 11), None).findings == ()
    first = EngineReport(source="llamacpp.timings", output_tokens=11, covers_all=False)
    assert sift(ASKED, stream(20), None, first).findings == ()
    assert sift(ASKED._replace(n=50), stream(1), Usage(10, 10**6), None).findings == ()


def test_ollamas_count_may_cover_the_second_of_two_runs() -> None:
    """Reasoning, and then an answer of a given format."""
    two_runs = stream(60, first_answer_ns=700 * MS)
    second = EngineReport(source="ollama.durations", total_ns=5)
    assert judged(Usage(10, 20), two_runs, second).findings == ()
    assert judged(Usage(10, 20), two_runs).findings == ("impossible.output_tokens",)
    assert judged(Usage(10, 20), stream(60), second).findings == ("impossible.output_tokens",)


def test_a_late_mark_does_not_make_an_answer_impossible() -> None:
    assert judged(Usage(10, 900), stream(0, total_ms=0)).findings == ()
    never_sent = stream(0, total_ms=0)._replace(dispatched_ns=None)
    assert judged(Usage(10, 1100), never_sent).findings == ("impossible.output_tokens",)
