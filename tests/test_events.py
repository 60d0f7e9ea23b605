"""The words between framing, readers and the recorder."""

import pytest

from proxy.events import NOTHING, Event, Frame, Said


def test_an_event_says_nothing_unless_it_is_told_to() -> None:
    assert Event() == NOTHING
    assert not any(NOTHING)


def test_a_frame_has_a_name_only_where_the_wire_gave_it_one() -> None:
    assert Frame(b"{}") == (b"{}", b"")


@pytest.mark.parametrize(
    ("said", "tokens"),
    [(Said(), 0), (Said("x" * 7), 0), (Said("word " * 16), 10), (Said("hi", (1, 2, 3)), 3)],
)
def test_an_answer_is_at_least_so_many_tokens(said: Said, tokens: int) -> None:
    assert said.tokens == tokens
