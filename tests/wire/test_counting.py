from proxy.wire.counting import RunningCount


def test_each_choice_has_a_count_of_its_own():
    counts = RunningCount()
    assert [counts.rise(0, 1), counts.rise(1, 1), counts.rise(0, 4), counts.rise(1, 1)] == [1, 1, 3, 0]


def test_a_count_that_falls_is_no_rise_and_forgets_nothing():
    counts = RunningCount()
    assert [counts.rise(0, 5), counts.rise(0, 2), counts.rise(0, 6)] == [5, 0, 1]


def test_without_a_count_the_stream_is_not_counted_any_more():
    counts = RunningCount()
    assert counts.live
    assert counts.rise(0, None) is None
    assert not counts.live
