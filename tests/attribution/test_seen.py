from typing import Any

import pytest

from proxy.attribution.seen import paced, shown, starts
from proxy.gaps import Series
from proxy.records import Finished, Outcome, Timeline, Usage
from tests.attribution.made import finished, line

MS = 1_000_000


def stream(*moments: int, apart_ms: float = 20, **more: Any) -> Timeline:
    """A stream with so many token events at each of these moments, the first of them after a second."""
    series = Series(1000 * MS)
    for number, events in enumerate(moments):
        gaps = [0] * events if not number else [round(apart_ms * MS), *[0] * (events - 1)]
        for gap in gaps[number == 0 :]:
            series.recent.append(gap)
            series.last += gap
    made = line(2000, head=5, first_token=1000, last_token=series.last / MS, token_events=sum(moments))
    return made._replace(gaps=(series.gaps(0),), **more)


def told(timeline: Timeline, usage: Usage | None = None, **more: Any) -> Finished:
    return finished("openai", timeline, None, usage, **more)


def wrote(output: int, reasoning: int | None = None) -> Usage:
    return Usage(5, output, None, reasoning)


ONE_BY_ONE = (1,) * 40


@pytest.mark.parametrize(
    ("moments", "output", "begins"),
    [
        pytest.param(ONE_BY_ONE, 40, True, id="a token at a time"),
        pytest.param(ONE_BY_ONE, 41, True, id="its end has no text"),
        pytest.param(ONE_BY_ONE, 160, True, id="four in each event"),
        pytest.param(ONE_BY_ONE, None, True, id="nothing is counted"),
        pytest.param((1, 1), 2, True, id="two tokens"),
        pytest.param((1, 1), 3, True, id="two tokens and an end"),
        pytest.param((2, 1), 3, True, id="two that were read at once"),
        pytest.param((3, *ONE_BY_ONE), 43, True, id="our loop was late"),
        pytest.param((1, 1, 1, 1, 1), 25, True, id="a few events of several tokens"),
        pytest.param((1,), 1, True, id="one token"),
        pytest.param((1,), None, False, id="one event"),
        pytest.param((1,), 14, False, id="one event of many tokens"),
        pytest.param((2,), 2, False, id="two tokens at one moment"),
        pytest.param((50,), 50, False, id="all at once"),
        pytest.param((50,), None, False, id="all at once, and nothing is counted"),
        pytest.param((25, 25), 50, False, id="two bursts"),
        pytest.param((17, 17, 16), 50, False, id="three bursts"),
        pytest.param((10, 10, 10, 10, 10), 50, False, id="five bursts"),
        pytest.param((25, *ONE_BY_ONE), 65, False, id="a buffer, then a token at a time"),
        pytest.param((1, 1), 50, False, id="two events of many tokens"),
        pytest.param((1, 1, 1, 1), 48, False, id="a tool call in four events"),
    ],
)
def test_the_writing_began_where_the_first_moment_holds_little_of_it(
    moments: tuple[int, ...], output: int | None, begins: bool
) -> None:
    done = told(stream(*moments), None if output is None else wrote(output))
    assert starts(done) is begins
    assert paced(done) is (begins and len(moments) > 1)


def test_events_that_a_loop_wrote_one_after_the_other_are_one_moment() -> None:
    assert not starts(told(stream(*ONE_BY_ONE, apart_ms=0.2), wrote(40)))
    assert not paced(told(stream(*ONE_BY_ONE, apart_ms=0.2), wrote(40)))


def test_an_event_that_says_how_many_tokens_it_holds_is_believed() -> None:
    few = told(stream(*ONE_BY_ONE, first_event_tokens=4), wrote(100))
    assert starts(few)
    blocks = told(stream(1, 1, 1, first_event_tokens=32), wrote(96))
    assert not starts(blocks)
    assert paced(blocks)
    two_blocks = told(stream(1, 1, first_event_tokens=32), wrote(64))
    assert not paced(two_blocks)


def test_several_choices_speak_at_one_moment() -> None:
    one = stream(*ONE_BY_ONE)
    two = one._replace(gaps=one.gaps * 2, token_events=80, choices=2)
    assert starts(told(two, wrote(80)))
    short = stream(1, 1, 1)
    eight = short._replace(gaps=short.gaps * 8, token_events=24, choices=8)
    assert starts(told(eight, wrote(24)))
    burst = stream(20)
    assert not starts(told(burst._replace(gaps=burst.gaps * 2, token_events=40, choices=2), wrote(40)))


def test_of_an_answer_that_broke_off_the_events_alone_are_known() -> None:
    gone = {"outcome": Outcome.CLIENT_GONE}
    assert starts(told(stream(1), None, **gone))
    assert starts(told(stream(2, 1), wrote(9), **gone))
    assert starts(told(stream(3, *ONE_BY_ONE), None, **gone))
    assert not starts(told(stream(30), None, **gone))


def test_reasoning_that_the_stream_hides_was_written_before_its_first_event() -> None:
    hidden = told(stream(*ONE_BY_ONE), wrote(140, 100))
    assert (shown(hidden), starts(hidden), paced(hidden)) == (40, False, True)
    told_apart = stream(*ONE_BY_ONE, first_answer_ns=1100 * MS)
    assert (shown(told(told_apart, wrote(40, 20))), starts(told(told_apart, wrote(40, 20)))) == (40, True)


@pytest.mark.parametrize("reasoning", [1, 20, 39, 40])
def test_reasoning_that_came_as_plain_text_is_not_hidden(reasoning: int) -> None:
    """A stream cannot have more token events than tokens."""
    plain = told(stream(*ONE_BY_ONE), wrote(40, reasoning))
    assert (shown(plain), starts(plain)) == (40, True)


def test_reasoning_of_which_some_was_seen_leaves_the_rest_open() -> None:
    some = told(stream(*ONE_BY_ONE), wrote(1000, 990))
    assert (shown(some), starts(some)) == (None, False)


def test_nothing_is_shown_where_nothing_is_counted() -> None:
    assert shown(told(stream(*ONE_BY_ONE))) is None
    assert shown(told(stream(*ONE_BY_ONE), Usage(5))) is None


def test_a_timeline_that_does_not_tell_moments_apart_has_two_where_its_marks_differ() -> None:
    assert starts(told(line(300, first_token=100, last_token=190, token_events=10), wrote(10)))
    assert not starts(told(line(300, first_token=100, token_events=10), wrote(10)))
