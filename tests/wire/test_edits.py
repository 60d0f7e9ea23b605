import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.edits import Events, Whole


class Marked:
    """Takes out events with `gone`, and writes `X` for `x` in those with `"x"`."""

    marks = (b"gone", b'"x"')

    def event(self, block: bytes) -> bytes | None:
        return None if b"gone" in block else block.replace(b'"x"', b'"X"')

    def body(self, text: bytes) -> bytes:
        return text.replace(b'"x"', b'"X"')


class Told:
    """Says how many events of the last read it was shown, before the event `end`."""

    marks = (b"end",)

    def __init__(self, due: bool = True) -> None:
        self.due = due
        self.seen: list[bytes] = []

    def ends(self, block: bytes) -> bool:
        return b"data: end" in block

    def over(self) -> bool:
        return self.due

    def words(self, blocks: object) -> bytes:
        self.seen = list(blocks)  # type: ignore[call-overload]
        return b": told\n\n"


TEXT, MARKED, GONE, END = b"data: a\n\n", b'data: "x"\n\n', b"data: gone\n\n", b"data: end\n\n"
NOTE, TOLD = b": note\n\n", b": told\n\n"


def passed(events: Events, pieces: list[bytes]) -> bytes:
    return b"".join([*map(events.feed, pieces), events.close()])


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        pytest.param(TEXT + MARKED + END, TEXT + b'data: "X"\n\n' + TOLD + END, id="edited, and told before the end"),
        pytest.param(TEXT + GONE + END + NOTE, TEXT + TOLD + END + NOTE, id="taken out"),
        pytest.param(TEXT + b"\n\r" + GONE + END, TEXT + b"\n\r" + TOLD + END, id="blank lines in front stay"),
        pytest.param(TEXT + END + END, TEXT + TOLD + END + END, id="told once"),
        pytest.param(TEXT + NOTE, TEXT + NOTE + TOLD, id="no terminal event: told at the end"),
        pytest.param(TEXT + b"data: b", TEXT + TOLD + b"data: b", id="before an event that is open at the end"),
        pytest.param(TEXT + b"data: end", TEXT + TOLD + b"data: end", id="a terminal event that is open at the end"),
        pytest.param(b"", TOLD, id="an empty stream"),
        pytest.param(
            TEXT + b": note\ndata: end\n\n", TEXT + TOLD + b": note\ndata: end\n\n", id="never inside an event"
        ),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_the_same_bytes_leave_at_every_cut(body, kept, end):
    said, due = body.replace(b"\n", end), kept.replace(TOLD, b"*").replace(b"\n", end).replace(b"*", TOLD)
    assert passed(Events([Marked()], Told()), [said]) == due
    for at in range(len(said)):
        assert passed(Events([Marked()], Told()), [said[:at], said[at:]]) == due
    assert passed(Events([Marked()], Told()), [said[at : at + 1] for at in range(len(said))]) == due


def test_a_stream_that_broke_off_is_told_nothing():
    assert passed(Events([], Told(due=False)), [TEXT + b"data: b"]) == TEXT + b"data: b"
    assert passed(Events([], Told(due=False)), [TEXT]) == TEXT


def test_the_end_is_shown_the_events_of_its_read_as_they_came():
    told = Told()
    assert Events([Marked()], told).feed(TEXT + GONE + END) == TEXT + TOLD + END
    assert told.seen == [TEXT, GONE, END]


def test_a_complete_event_is_never_held_back():
    events = Events([Marked()], Told())
    assert events.feed(TEXT) == TEXT
    assert events.feed(TEXT + END[:4]) == TEXT
    assert events.feed(END[4:]) == TOLD + END


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_no_byte_of_a_complete_event_is_held_back_wherever_it_is_cut(end):
    events, got, kept = Events([Marked()]), b"", b""
    for event in (TEXT, GONE, TEXT, NOTE, TEXT):
        got += b"".join(events.feed(bytes([byte])) for byte in event.replace(b"\n", end))
        kept += b"" if event is GONE else event.replace(b"\n", end)
        assert got == kept


def test_an_event_over_the_limit_passes_and_nothing_is_changed_or_told_any_more():
    events = Events([Marked()], Told(), limit=20)
    assert events.feed(b"data: " + b"y" * 10) == b""
    assert events.feed(b"y" * 10) == b"data: " + b"y" * 20
    assert events.feed(b"\n\n" + MARKED + END) == b"\n\n" + MARKED + END
    assert events.close() == b""


@given(st.lists(st.sampled_from([TEXT, NOTE, b"\n", b": gon\n\n", b"data: x\n"]), max_size=8), st.integers(0, 80))
def test_what_no_edit_concerns_passes_byte_for_byte(events, at):
    body = b"".join(events)
    assert passed(Events([Marked()]), [body[:at], body[at:]]) == body


def test_an_answer_that_is_no_stream_is_edited_when_it_is_whole():
    whole = Whole([Marked(), Marked()])
    assert whole.feed(b'{"a":') == b""
    assert whole.feed(b'"x"}') == b""
    assert whole.close() == b'{"a":"X"}'


def test_an_answer_over_the_limit_passes_as_it_came():
    whole = Whole([Marked()], limit=8)
    assert whole.feed(b'["x",') == b""
    assert whole.feed(b'"x",') == b'["x","x",'
    assert whole.feed(b'"x"]') == b'"x"]'
    assert whole.close() == b""
