import pytest

from proxy.wire.counting import RunningCount


def test_each_choice_has_a_count_of_its_own():
    counts = RunningCount()
    events = [(0, 1), (1, 1), (0, 4), (1, 2)]
    assert [counts.rise(choice, count, True) for choice, count in events] == [1, 1, 3, 1]


def test_tokens_without_text_rise_and_the_text_that_they_held_back_does_not():
    counts = RunningCount()
    events = [(1, True), (2, False), (3, False), (3, True), (5, True), (5, False), (6, False)]
    assert [counts.rise(0, count, wrote) for count, wrote in events] == [1, 1, 1, 0, 2, 0, 1]
    assert counts.live


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([(0, True)], id="text, and nothing is counted"),
        pytest.param([(7, True), (7, True)], id="a constant"),
        pytest.param([(5, True), (2, True)], id="a fall"),
        pytest.param([(5, True), (2, False)], id="a fall without text"),
        pytest.param([(1, True), (2, False), (3, True), (3, True), (3, True)], id="more text than was held back"),
    ],
)
def test_a_number_that_does_not_run_lets_text_decide_from_there_on(events):
    counts = RunningCount()
    *before, last = [counts.rise(0, count, wrote) for count, wrote in events]
    assert None not in before
    assert last is None
    assert counts.rise(0, 100, False) is None
    assert not counts.live


def test_a_role_alone_says_where_the_count_starts():
    counts = RunningCount()
    assert [counts.rise(0, 3, False, role=True), counts.rise(0, 4, True)] == [0, 1]
    assert RunningCount().rise(0, 1, False) == 1


def test_without_a_count_the_stream_is_not_counted_any_more():
    counts = RunningCount()
    assert counts.live
    assert counts.rise(0, None, True) is None
    assert not counts.live
