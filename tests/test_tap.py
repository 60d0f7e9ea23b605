import gzip
import json
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.events import Event, Frame, Said
from proxy.tap import PROMPT_LIMIT, Hearing, Tap
from proxy.timeline import Recorder


class Lines:
    """A second framing: one frame a line, `overflowed` above the limit; a NUL byte cannot be framed."""

    bite = 1000

    def __init__(self, limit: int = 1000) -> None:
        self.held = b""
        self.limit = limit
        self.overflowed = False

    def feed(self, data: bytes) -> list[Frame]:
        if b"\0" in data:
            raise ValueError("NUL")
        *whole, self.held = (self.held + data).split(b"\n")
        self.overflowed = len(self.held) > self.limit
        return [Frame(line) for line in whole]

    def close(self) -> list[list[Frame]]:
        if self.held == b"half":
            raise ValueError("half")
        return [[Frame(self.held)]] if self.held else []


class Words:
    """A second reader: a JSON string is a token, `"end"` is the end; everything else is a fault of its own kind."""

    def __init__(self) -> None:
        self.ended = False

    def read(self, frame: Frame) -> Event:
        word = json.loads(frame.data)
        if word == "end":
            self.ended = True
            return Event(done=True)
        return Event(tokens=(0,), text=word.strip())

    def complete(self) -> bool:
        return self.ended


def tap(encoding: str = "", **more: object) -> tuple[Tap, Recorder, list[str]]:
    recorder = Recorder(0.0, 0)
    recorder.dispatched(1)
    recorder.head(2, 200, True)
    heard: list[str] = []
    it = Tap(recorder, Lines(), Words(), encoding, hear=lambda event: heard.append(event.text), **more)  # type: ignore[arg-type]
    return it, recorder, heard


def test_of_an_endless_answer_the_beginning_is_kept() -> None:
    hearing = Hearing(limit=10)
    for _ in range(1000):
        hearing.hear(Event(text="abc", ids=(1, 2)))
    assert hearing.said() == Said("abcabcabca", (1, 2) * 3 + (1,))
    one = Hearing(limit=10)
    one.hear(Event(text="x" * 1000))
    one.hear(Event(ids=(1,)))
    assert one.said() == Said("x" * 10)


BODY = b'"a"\n"b"\n"end"\n'


def test_an_answer_is_read_in_the_stamps_of_its_reads() -> None:
    it, recorder, heard = tap()
    it.feed(10, b'"a"\n"b')
    it.feed(20, b'"\n"en')
    assert not recorder.done
    it.feed(30, b'd"\n')
    assert not recorder.done, "it waits"
    it.catch_up()
    assert recorder.done
    assert not it.complete
    it.close(31)
    assert it.complete
    line = recorder.end(40)
    assert (line.first_token_ns, line.last_token_ns, line.events, heard) == (10, 20, 3, ["a", "b"])


def test_what_is_open_at_a_clean_end_is_read_then() -> None:
    it, recorder, _ = tap()
    it.feed(10, b'"a"\n"end"')
    it.close(20)
    assert recorder.done
    assert it.complete


def test_a_clean_end_without_the_dialects_own_is_not_complete() -> None:
    it, recorder, _ = tap()
    it.feed(10, b'"a"\n')
    it.close(20)
    assert not it.complete
    assert not recorder.done


@pytest.mark.parametrize("junk", [b"{", b"1\n", b"[]", b"null", b"\xff", b"[" * 100_000], ids=repr)
def test_a_fault_of_the_reader_costs_one_number(junk: bytes) -> None:
    it, recorder, heard = tap()
    it.feed(10, b'"a"\n' + junk[:900].rstrip() + b"\n" + b'"b"\n"end"\n')
    it.close(11)
    line = recorder.end(12)
    assert (line.unreadable_events, line.events, heard, it.complete) == (1, 4, ["a", "b"], True)


def test_a_prompts_spelling_is_news_once_and_again_only_where_it_changes() -> None:
    hearing = Hearing()
    hearing.spell(b"[1,2]")
    assert (hearing.news(), hearing.news()) == (b"[1,2]", b"")
    hearing.spell(b"[1,2]")
    assert hearing.said() == Said()
    hearing.spell(b"[1,3]")
    assert hearing.said() == Said(prompt=b"[1,3]")
    hearing.spell(b"[" + b" " * PROMPT_LIMIT)
    assert hearing.news() == b""


def test_no_one_need_listen() -> None:
    recorder = Recorder(0.0, 0)
    recorder.head(1, 200, True)
    Tap(recorder, Lines(), Words()).feed(2, BODY)
    assert recorder.end(3).token_events == 2


def test_a_body_that_cannot_be_framed_ends_the_observing() -> None:
    it, recorder, _ = tap()
    it.feed(10, b'"a"\n')
    it.feed(20, b"\0")
    it.feed(30, BODY)
    it.close(40)
    assert (it.blind, it.complete) == ("cannot be framed: ValueError", True)
    assert repr(it) == "<Tap cannot be framed: ValueError, closed>"
    line = recorder.end(50)
    assert (line.unreadable_events, line.token_events) == (1, 1)


def test_a_last_frame_that_cannot_be_framed_is_counted() -> None:
    it, recorder, _ = tap()
    it.feed(10, b"half")
    assert repr(it) == "<Tap reading>"
    it.close(20)
    assert recorder.end(30).unreadable_events == 1


def test_an_event_over_the_limit_ends_the_observing() -> None:
    it, recorder, _ = tap()
    it.feed(10, b'"a"\n' + b"x" * 2000)
    it.feed(20, BODY)
    assert it.blind == "an event is over the size limit"
    line = recorder.end(50)
    assert (line.unreadable_events, line.token_events) == (0, 1)


def raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


COMPRESSED = {
    "identity": BODY,
    "gzip": gzip.compress(BODY),
    "X-GZIP": gzip.compress(BODY[:5]) + gzip.compress(BODY[5:]),
    "deflate": zlib.compress(BODY),
    " deflate": raw_deflate(BODY),
}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("encoding", COMPRESSED)
def test_a_compressed_copy_is_inflated_at_any_split(encoding: str, size: int) -> None:
    it, _, heard = tap(encoding)
    body = COMPRESSED[encoding]
    for at in range(0, len(body), size):
        it.feed(at, body[at : at + size])
    it.close(99)
    assert (heard, it.complete, it.blind) == (["a", "b"], True, None)


def looked(it: Tap) -> int:
    """Looks at all that waits; the turns that took."""
    turns = 0
    while it.behind:
        it.go_on()
        turns += 1
    return turns


def test_a_small_chunk_that_inflates_to_much_is_read_whole() -> None:
    it, recorder, _ = tap("gzip")
    it.feed(1, gzip.compress(b'"a"\n' * 100_000))
    turns = looked(it)
    assert recorder.end(2).token_events == 100_000
    assert turns >= 100_000 // 600, "a turn of the loop is some hundred events"


def test_a_bomb_ends_the_observing() -> None:
    it, recorder, _ = tap("gzip", inflated_limit=500_000)
    it.feed(1, gzip.compress(b'"a"\n' * 200_000))
    looked(it)
    assert it.blind == "cannot be framed: Bomb"
    assert recorder.end(2).token_events <= 125_000


@pytest.mark.parametrize(("encoding", "body"), [("", b'"a"\n' * 60_000), ("gzip", gzip.compress(b"\n" * 1_000_000))])
def test_one_turn_looks_at_little_whatever_one_read_holds(encoding: str, body: bytes) -> None:
    it, recorder, _ = tap(encoding)
    it.feed(1, body)
    first = recorder.token_events
    turns = looked(it)
    assert it.blind is None
    assert turns > 100
    assert first <= recorder.token_events / turns * 2


@pytest.mark.parametrize(
    ("encoding", "body", "least"),
    [
        pytest.param("", b"x\n" * 1_024, 7, id="lines that cannot be read, in one bite"),
        pytest.param("", b"x\n" * 30_000, 200, id="many of them"),
        pytest.param("gzip", gzip.compress(b"") * 6_000, 10, id="members without a byte"),
    ],
)
def test_work_without_an_event_has_turns_too(encoding: str, body: bytes, least: int) -> None:
    it, _, _ = tap(encoding)
    it.feed(1, body)
    assert looked(it) >= least
    assert it.blind is None


def test_who_leaves_looks_at_nothing_more() -> None:
    it, recorder, _ = tap()
    it.feed(1, b'"a"\n' * 60_000)
    seen = recorder.token_events
    it.leave()
    assert (it.behind, recorder.token_events) == (False, seen)
    it.feed(2, b'"a"\n')
    it.close(3)
    assert (it.complete, recorder.token_events) == (True, seen)


def test_what_the_end_completes_is_looked_at_in_turns_too() -> None:
    class Late(Lines):
        def close(self) -> list[list[Frame]]:
            return [[Frame(b'"a"')] * 100 for _ in range(100)]

    recorder = Recorder(0.0, 0)
    recorder.dispatched(1)
    recorder.head(2, 200, True)
    it = Tap(recorder, Late(), Words())
    it.close(10)
    assert it.behind
    assert recorder.token_events <= 400
    looked(it)
    assert recorder.token_events == 10_000


def test_who_cannot_wait_has_what_is_usual_and_no_more() -> None:
    it, recorder, _ = tap()
    it.feed(1, b'"a"\n' * 1_000)
    it.catch_up()
    assert (recorder.token_events, it.blind) == (1_000, None)
    it.feed(2, b'"a"\n' * 60_000)
    it.catch_up()
    assert not it.behind
    assert it.blind is not None
    assert recorder.token_events < 20_000


def test_a_body_that_is_not_what_it_says_ends_the_observing() -> None:
    it, recorder, _ = tap("gzip")
    it.feed(1, BODY)
    assert it.blind == "cannot be framed: error"
    assert recorder.end(2).unreadable_events == 1


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br"])
def test_an_encoding_that_is_not_read_is_said_and_nothing_is_counted(encoding: str) -> None:
    it, recorder, _ = tap(encoding)
    it.feed(1, b"\x00\x01")
    it.close(2)
    assert it.blind == f"content encoding {encoding} is not read"
    assert it.complete
    assert recorder.end(3).unreadable_events == 0


@given(
    words=st.lists(st.sampled_from([b'"a"', b'"end"', b'""', b"{", b'" b "']), max_size=120),
    cuts=st.lists(st.integers(0, 700), max_size=200),
    hold=st.integers(2, 70),
    whole=st.booleans(),
)
def test_a_record_is_the_same_whether_reads_are_held_or_not(
    words: list[bytes], cuts: list[int], hold: int, whole: bool
) -> None:
    body = b"".join(word + b"\n" for word in words)
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})

    def told(hold: int) -> tuple[object, ...]:
        it, recorder, heard = tap(hold=hold)
        for t, (start, end) in enumerate(pairwise(edges), 10):
            it.feed(t, body[start:end])
        if whole:
            it.close(1_000)
        it.catch_up()
        return recorder.end(2_000), heard, it.complete, it.blind

    assert told(hold) == told(1)


def test_what_comes_while_a_tap_is_behind_is_looked_at_too() -> None:
    it, recorder, _ = tap()
    it.feed(10, b'"a"\n' * 4_000)
    assert it.behind
    it.feed(12, b'"c"\n')
    it.feed(13, b'"end"\n')
    it.close(14)
    assert not it.complete
    it.catch_up()
    assert (it.complete, it.behind, it.blind) == (True, False, None)
    assert recorder.end(20).token_events == 4_001
