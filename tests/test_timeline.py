import pytest

from proxy.events import MOST_CHOICES, Event
from proxy.gaps import EXACT_GAPS, unpack_stamps
from proxy.records import EngineReport, Timeline, Usage
from proxy.timeline import CHOICES, STAMPS, Recorder

MS = 1_000_000
TOKEN = Event(tokens=(0,), text="x")


def answering(arrived: int = 0) -> Recorder:
    recorder = Recorder(12.5, arrived)
    recorder.dispatched(arrived + 1 * MS)
    recorder.head(arrived + 2 * MS, 200, True)
    return recorder


def stream(times_ms: list[float], event: Event = TOKEN) -> Timeline:
    recorder = answering()
    for at in times_ms:
        recorder.read(round(at * MS), 10)
        recorder.event(round(at * MS), event)
    return recorder.end(round((times_ms[-1] + 1) * MS))


def test_marks_count_from_arrival_in_nanoseconds() -> None:
    recorder = Recorder(12.5, 0)
    recorder.arrived(12.5, 1000, 77)
    recorder.admitted(1100, 90)
    recorder.dispatched(1200)
    recorder.head(1300, 200, True)
    recorder.read(1400, 5)
    recorder.event(1400, Event(role=True))
    recorder.read(1500, 6)
    recorder.event(1500, Event(tokens=(0,), reasoning=True))
    recorder.read(1600, 7)
    recorder.event(1600, TOKEN)
    recorder.blocked(30)
    recorder.blocked(20)
    recorder.body_end(1700)
    line = recorder.end(1800)
    assert (line.at_s, line.total_ns, line.admission_ns, line.blocked_ns) == (12.5, 800, 90, 50)
    assert (line.dispatched_ns, line.head_ns, line.first_byte_ns, line.role_ns) == (200, 300, 400, 400)
    assert (line.first_token_ns, line.first_answer_ns, line.last_token_ns, line.last_byte_ns) == (500, 600, 600, 700)
    assert (line.bytes_in, line.bytes_out, line.events, line.token_events) == (77, 18, 3, 2)
    assert recorder.status == 200


def test_moments_that_never_came_are_unknown() -> None:
    line = Recorder(0.0, 5).end(9)
    assert line == Timeline(at_s=0.0, total_ns=4)
    assert line.first_token_ns is None
    assert line.last_byte_ns is None


def test_what_is_known_by_now_may_be_told() -> None:
    recorder = Recorder(0.0, 1000)
    assert recorder.so_far(1005) == [
        ("admission", 0), ("proxy", None), ("head", None), ("ttft", None), ("total", 5),
    ]  # fmt: skip
    recorder.admitted(1100, 60)
    recorder.dispatched(1110)
    recorder.head(1200, 200, True)
    assert recorder.so_far(1201)[:3] == [("admission", 60), ("proxy", 50), ("head", 200)]
    recorder.read(1300, 4)
    recorder.event(1300, Event((0,), text="a"))
    assert recorder.so_far(1400)[2:] == [("ttfb", 300), ("ttft", 300), ("total", 400)]
    assert not recorder.answered
    recorder.body_end(1500)
    assert recorder.answered


def test_a_retry_moves_the_dispatch_mark() -> None:
    recorder = Recorder(0.0, 0)
    recorder.dispatched(5)
    recorder.dispatched(9)
    assert recorder.end(10).dispatched_ns == 9


def test_an_answer_before_the_upload_is_done_counts_as_dispatched_at_its_head() -> None:
    recorder = Recorder(0.0, 0)
    recorder.head(8, 413, False)
    recorder.dispatched(9)
    assert recorder.end(10).dispatched_ns == 8


def test_events_of_one_read_share_its_stamp() -> None:
    recorder = answering()
    recorder.read(10 * MS, 50)
    for _ in range(3):
        recorder.event(10 * MS, TOKEN)
    line = recorder.end(11 * MS)
    assert (line.token_events, line.gaps[0].number, line.gaps[0].max_ns) == (3, 2, 0)
    assert unpack_stamps(line.stamps) == [10 * MS] * 3


def test_an_empty_read_is_no_first_byte() -> None:
    recorder = answering()
    recorder.read(3, 0)
    recorder.read(4, 1)
    assert recorder.end(5).first_byte_ns == 4


def test_a_body_that_is_no_stream_has_no_events() -> None:
    recorder = Recorder(0.0, 0)
    recorder.dispatched(1)
    recorder.head(2, 200, False)
    recorder.read(2, 9)
    recorder.body_end(2)
    recorder.event(2, Event(usage=Usage(3, 4), done=True, finish=((0, "stop"),)))
    line = recorder.end(3)
    assert (line.events, line.token_events, line.first_token_ns, line.streamed, line.done) == (0, 0, None, False, True)
    assert recorder.usage == Usage(3, 4)


def test_the_last_usage_wins_and_silence_does_not_erase() -> None:
    recorder = answering()
    recorder.event(3, Event(usage=Usage(8, 0, 4, None)))
    recorder.event(4, Event(usage=Usage(16, None, None, 2)))
    assert recorder.usage == Usage(16, 0, 4, 2)
    recorder.event(5, Event(usage=Usage(None, 9, None, None)))
    assert recorder.usage == Usage(16, 9, 4, 2)
    recorder.event(6, Event(usage=Usage(1, 1, 1, 1)))
    assert recorder.usage == Usage(1, 1, 1, 1)


def test_the_finish_of_the_first_choice_has_its_time() -> None:
    recorder = answering()
    recorder.event(10 * MS, TOKEN)
    recorder.event(20 * MS, Event(finish=((0, "stop"),)))
    recorder.event(30 * MS, Event(finish=((1, "length"),)))
    line = recorder.end(40 * MS)
    assert (line.finish, line.finish_ns) == ("stop", 20 * MS)


def test_what_the_reader_said_is_kept() -> None:
    recorder = answering()
    recorder.event(3, Event(tokens=(1, 0), counted=4, text="ab"))
    recorder.event(3, Event(finish=((0, "stop"), (1, "length")), report=EngineReport(source="a")))
    recorder.event(3, Event(report=EngineReport(source="b"), error="broke"))
    recorder.event(4, Event(done=True))
    recorder.unreadable(5)
    assert (recorder.finish, recorder.finished, recorder.done, recorder.choices) == ("stop", {0, 1}, True, 2)
    assert recorder.report == EngineReport(source="b")
    assert recorder.error == "broke"
    line = recorder.end(6)
    assert (line.first_event_tokens, line.choices, line.unreadable_events, line.events) == (4, 2, 1, 5)
    assert repr(recorder) == "<Recorder ended, 5 events, 1 with tokens>"


@pytest.mark.parametrize(("second", "tokens"), [(4, 7), (None, 1)])
def test_tokens_of_the_first_event_are_known_where_the_next_says_its_own_too(second: int | None, tokens: int) -> None:
    recorder = answering()
    for at, counted in ((3, 7), (4, second), (5, None)):
        recorder.event(at, Event(tokens=(0,), counted=counted, text="a"))
    assert recorder.end(6).first_event_tokens == tokens


def test_so_many_choices_are_followed_and_no_more() -> None:
    recorder = answering()
    recorder.event(5 * MS, Event(tokens=tuple(range(250_000)), finish=tuple((n, "stop") for n in range(250_000))))
    recorder.event(6 * MS, Event(tokens=tuple(range(250_000))))
    assert (len(recorder.finished), recorder.finish) == (MOST_CHOICES, "stop")
    line = recorder.end(9 * MS)
    assert (line.choices, len(line.gaps), line.token_events) == (CHOICES, CHOICES, 2)


def test_gaps_belong_to_one_choice() -> None:
    recorder = answering()
    for at, choices in ((10, (0,)), (15, (1,)), (20, (0,)), (40, (0, 1))):
        recorder.event(at * MS, Event(tokens=choices))
    first, second = recorder.end(50 * MS).gaps
    assert (first.choice, first.number, first.total_ns, first.p50_ns, first.max_ns) == (0, 2, 30 * MS, 10 * MS, 20 * MS)
    assert (second.choice, second.number, second.total_ns, second.max_ns) == (1, 1, 25 * MS, 25 * MS)


def test_one_token_has_no_gap() -> None:
    (gaps,) = stream([5]).gaps
    assert (gaps.number, gaps.total_ns, gaps.p50_ns, gaps.p99_ns, gaps.max_ns) == (0, 0, 0, 0, 0)


def test_a_stream_that_fills_the_last_fold_exactly_is_counted_whole() -> None:
    line = stream([float(at) for at in range(3, 3 + 3 * 256)])
    assert (line.token_events, line.gaps[0].number) == (768, 767)


def test_stamps_are_kept_up_to_their_limit() -> None:
    times = [3 + at * 0.25 for at in range(STAMPS + 300)]
    line = stream(times)
    stamps = unpack_stamps(line.stamps)
    assert line.token_events == STAMPS + 300
    assert stamps == [round(at * MS) for at in times[:STAMPS]]
    assert len(line.stamps) < 2.1 * STAMPS


def test_an_open_stream_holds_bounded_memory() -> None:
    recorder = answering()
    for at in range(20_000):
        recorder.event(at * 1000, TOKEN)
    assert len(recorder._packed) + 8 * len(recorder._waiting) < 3 * STAMPS
    assert len(recorder._series[0].recent) < 2 * EXACT_GAPS


def test_times_count_from_the_bodys_arrival() -> None:
    recorder = Recorder(1.0, 100)
    recorder.arrived(2.0, 150, 9)
    line = recorder.end(175)
    assert (line.at_s, line.total_ns, line.bytes_in) == (2.0, 25, 9)


@pytest.mark.parametrize("row", [1, 7, 16, 300])
def test_pieces_told_in_rows_are_told_one_by_one(row: int) -> None:
    """Over every fold, the last stamp that is kept and the last gap that is exact."""
    for number in (EXACT_GAPS - 1, EXACT_GAPS + 3, STAMPS + 999):
        times = [3 * MS + at * at % 977 * 1000 + at * MS for at in range(number)]
        together, alone = answering(), answering()
        for at, t in enumerate(times):
            alone.event(t, TOKEN)
            if at < 2:
                together.event(t, TOKEN)
        for at in range(2, number, row):
            assert together.pieces(times[at : at + row], "x")
        assert together.end(9999 * MS) == alone.end(9999 * MS)


def test_the_first_events_of_an_answer_are_told_by_themselves() -> None:
    recorder = answering()
    assert not recorder.pieces([10 * MS, 20 * MS], "x")
    recorder.event(30 * MS, Event(tokens=(0,), reasoning=True, counted=3))
    assert not recorder.pieces([40 * MS], "")
    recorder.event(50 * MS, Event(tokens=(0,), reasoning=True))
    assert not recorder.pieces([60 * MS], "x")
    assert recorder.pieces([70 * MS, 80 * MS], "")
    recorder.event(90 * MS, TOKEN)
    assert recorder.pieces([100 * MS], "x")
    line = recorder.end(200 * MS)
    assert (line.token_events, line.first_token_ns, line.first_answer_ns) == (6, 30 * MS, 90 * MS)
    other = answering()
    for t in (10, 20, 30):
        other.event(t * MS, Event(tokens=(1,), text="x"))
    assert not other.pieces([40 * MS], "x")  # choice 0 has not spoken
