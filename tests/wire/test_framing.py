import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.events import Frame, Framing
from proxy.wire.framing import WHOLE_LIMIT, Ndjson, Sse, Whole, framing_for, streams

LIMIT = 1 << 20


def closed(framing: Framing) -> list[Frame]:
    return [frame for frames in framing.close() for frame in frames]


def fed(framing: Framing, pieces: list[bytes]) -> list[Frame]:
    frames = [frame for piece in pieces for frame in framing.feed(piece)]
    return frames + closed(framing)


def sse(body: bytes, limit: int = LIMIT) -> list[Frame]:
    return fed(Sse(limit), [body])


def reference(body: bytes) -> list[Frame]:
    """A second implementation, over the whole body: line by line, as the standard tells it."""
    frames: list[Frame] = []
    data: list[bytes] = []
    name = b""
    for line in [*re.split(rb"\r\n|\n|\r", body.removeprefix(b"\xef\xbb\xbf")), b""]:
        if line == b"":
            if data:
                frames.append(Frame(b"\n".join(data), name))
            data, name = [], b""
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if field == b"data":
                data.append(value)
            if field == b"event":
                name = value
    return frames


def cut(body: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in itertools.pairwise(at)]


PIECES = st.sampled_from(
    [
        b"data",
        b"data: ",
        b"data:",
        b":",
        b" ",
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"x",
        b"{}",
        b"event: e",
        b"id: 1",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b": note",
        b"data: {}\n\n",
        b"retry: 5\n",
        b"\r\n\r\n",
    ]
)
BODIES = st.lists(PIECES, max_size=30).map(b"".join)


@given(BODIES, st.lists(st.integers(0, 10_000), max_size=8))
def test_events_are_those_of_the_standard_however_the_bytes_are_cut(body, places):
    assert fed(Sse(LIMIT), cut(body, places)) == reference(body)


@given(BODIES)
def test_events_come_the_same_one_byte_at_a_time(body):
    assert fed(Sse(LIMIT), [bytes([byte]) for byte in body]) == reference(body)


@pytest.mark.parametrize(
    ("body", "frames"),
    [
        pytest.param(b"data: a\n\ndata:b\n\n", [b"a", b"b"], id="with and without a space"),
        pytest.param(b"data:  a\n\n", [b" a"], id="only one space is taken"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="CR"),
        pytest.param(b"data: {\ndata: }\n\n", [b"{\n}"], id="several data lines"),
        pytest.param(b": note\n\n:\n\ndata: a\n: note\n\n", [b"a"], id="comments"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="byte order mark"),
        pytest.param(b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"], id="byte order mark later on"),
        pytest.param(b"data\n\n", [b""], id="a name alone is an empty field"),
        pytest.param(b"data:\n\n", [b""], id="empty data"),
        pytest.param(b"event: ping\nid: 1\nretry: 3\n\n", [], id="no data field"),
        pytest.param("data: a\u2028b\n\n".encode(), ["a\u2028b".encode()], id="U+2028 ends no line"),
        pytest.param(b"data: a\x0bb\x0cc\x1cd\n\n", [b"a\x0bb\x0cc\x1cd"], id="other controls end no line"),
        pytest.param(b"data: a\n\ndata: b", [b"a", b"b"], id="open at the end"),
        pytest.param(b"data: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"], id="more blank lines"),
        pytest.param(b"dataset: a\n\n", [], id="another field"),
    ],
)
def test_what_is_an_event(body, frames):
    assert [frame.data for frame in sse(body)] == frames


def test_the_event_field_names_the_frame():
    assert sse(b"event: message_stop\ndata: {}\n\n") == [Frame(b"{}", b"message_stop")]


def test_an_event_is_there_with_the_first_end_of_its_blank_line():
    framing = Sse(LIMIT)
    assert framing.feed(b"data: a\r\n\r") == [Frame(b"a")]
    assert framing.feed(b"\ndata: b\n") == []
    assert framing.feed(b"\n") == [Frame(b"b")]


def test_one_usual_read_gives_one_frame_and_leaves_nothing_open():
    framing = Sse(LIMIT)
    assert [framing.feed(b"data: {%d}\n\n" % n) for n in range(3)] == [[Frame(b"{%d}" % n)] for n in range(3)]
    assert framing.feed(b"data: {\ndata: }\n\n") == [Frame(b"{\n}")]
    assert closed(framing) == []


@pytest.mark.parametrize("framing", [Sse(10), Ndjson(10), Whole(10)], ids=["sse", "ndjson", "whole"])
@pytest.mark.parametrize("pieces", [[b"data: " + b"x" * 20 + b"\n\n"], [b"x"] * 40], ids=["at once", "piece by piece"])
def test_a_frame_over_the_limit_stops_the_observing(framing, pieces):
    framing = type(framing)(10)
    assert fed(framing, [*pieces, b"data: a\n\n", b"{}\n"]) == []
    assert framing.overflowed


def test_frames_before_the_one_over_the_limit_are_given():
    framing = Sse(16)
    assert framing.feed(b"data: a\n\ndata: b\n\ndata: " + b"x" * 20 + b"\n\ndata: c\n\n") == [Frame(b"a"), Frame(b"b")]
    assert framing.overflowed
    lines = Ndjson(4)
    assert lines.feed(b"{}\n" + b"x" * 9 + b"\n{}\n") == [Frame(b"{}")]
    assert lines.overflowed


def test_a_frame_at_the_limit_is_given():
    assert fed(Sse(9), [b"data: a\n\n", b"data: b\n\n"]) == [Frame(b"a"), Frame(b"b")]
    assert fed(Ndjson(2), [b"{}\n", b"{}"]) == [Frame(b"{}"), Frame(b"{}")]
    assert fed(Whole(2), [b"{", b"}"]) == [Frame(b"{}")]


@given(
    st.lists(st.sampled_from([b'{"a":1}', b"\n", b"\r\n", b" ", b"x", b"{}\n"]), max_size=20).map(b"".join),
    st.lists(st.integers(0, 10_000), max_size=8),
)
def test_lines_are_the_same_however_the_bytes_are_cut(body, places):
    lines = [line.removesuffix(b"\r") for line in body.split(b"\n") if line.strip()]
    assert [frame.data for frame in fed(Ndjson(LIMIT), cut(body, places))] == lines


@pytest.mark.parametrize(
    ("body", "frames"),
    [
        (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}\r\n\r\n{"b":2}', [b'{"a":1}', b'{"b":2}']),
        (b"data: 1\n\n: ping\n\ndata: 2\n\n", [b"1", b"2"]),
        (b": ping\r\n\r\ndata: 1", [b"1"]),
        (b"\xef\xbb\xbfevent: x\ndata: 1\n\n", [b"1"]),
        (b'{\n "a": [\n  {},\n  {}\n ]\n}\n', [b'{\n "a": [\n  {},\n  {}\n ]\n}\n']),
        (b'{"a":"}\\n{"}', [b'{"a":"}\\n{"}']),
        (b'[{"a":1},\n{"b":2},\n\n{"c":3}\n]\n', [b'[{"a":1},\n{"b":2},\n\n{"c":3}\n]\n']),
        (b'\n{"a":1}\n\n\n{"b":2}\n[\n{"c', [b'{"a":1}', b'{"b":2}', b"[", b'{"c']),
        (b'\n{"a":1}\n', [b'\n{"a":1}\n']),
        (b"data", [b"data"]),
    ],
)
def test_a_stream_that_is_called_something_else_is_cut_at_its_end(body, frames):
    for pieces in ([body], [bytes([byte]) for byte in body]):
        framing = Whole(LIMIT)
        assert [frame for piece in pieces for frame in framing.feed(piece)] == []
        assert [frame.data for frame in closed(framing)] == frames


def test_of_blank_lines_and_of_lines_that_begin_as_an_object_few_are_looked_at():
    apart = b'{"a":1}' + b"\n" * 200 + b'{"b":2}'
    odd = b'{"a":1}\n{"b":2}' + b",\n{}" * 200
    for body in (apart, odd):
        framing = Whole(LIMIT)
        framing.feed(body)
        assert [frame.data for frame in closed(framing)] == [body]


def test_a_whole_body_is_one_frame_at_its_end():
    framing = Whole(LIMIT)
    assert framing.feed(b"{") == framing.feed(b"}") == []
    assert closed(framing) == [Frame(b"{}")]
    assert closed(Whole(LIMIT)) == []


def test_of_a_whole_body_of_very_many_objects_the_two_ends_are_read():
    framing = Whole(1 << 20)
    framing.feed(b'{"id":"x","choices":[' + b"{}," * 20_000 + b'{}],"usage":{"prompt_tokens":3}}')
    (frame,) = closed(framing)
    assert json.loads(frame.data) == {"id": "x", "usage": {"prompt_tokens": 3}}
    assert not framing.overflowed
    nothing = Whole(1 << 20)
    nothing.feed(b"[" + b"{}," * 20_000 + b"{}]")
    assert closed(nothing) == []
    assert nothing.overflowed


def test_of_a_whole_body_that_is_long_the_two_ends_are_read():
    framing = Whole(8 * WHOLE_LIMIT)
    framing.feed(b'{"object":"list","data":[')
    for _ in range(2 * WHOLE_LIMIT // 100_000):
        framing.feed(b"0.25," * 20_000)
    framing.feed(b'0],"usage":{"prompt_tokens":3}}')
    (frame,) = closed(framing)
    assert json.loads(frame.data) == {"object": "list", "usage": {"prompt_tokens": 3}}
    assert not framing.overflowed


@pytest.mark.parametrize("event", [b"data: {}\n\n", b'{"a": 1}\n'])
def test_a_stream_that_is_called_something_else_may_be_longer(event):
    framing = Whole(8 * WHOLE_LIMIT)
    count = 2 * WHOLE_LIMIT // len(event)
    for _ in range(count // 1_000):
        framing.feed(event * 1_000)
    assert sum(map(len, framing.close())) == count // 1_000 * 1_000


def test_a_long_stream_that_is_called_something_else_is_cut_in_bites():
    framing = Whole(1 << 20)
    framing.feed(b"data: {}\n\n" * 10_000)
    sizes = [len(frames) for frames in framing.close()]
    assert sum(sizes) == 10_000
    assert max(sizes) <= 210


@pytest.mark.parametrize(
    ("content_type", "machine"),
    [
        ("text/event-stream", Sse),
        ("Text/Event-Stream; charset=utf-8", Sse),
        ("application/x-ndjson", Ndjson),
        ("application/ndjson;charset=utf-8", Ndjson),
        ("application/json", Whole),
        ("", Whole),
    ],
)
def test_the_content_type_chooses_the_machine(content_type, machine):
    assert type(framing_for(content_type, LIMIT)) is machine
    assert streams(content_type) is (machine is not Whole)


def test_work_is_linear_in_the_bytes():
    # 300,000 feeds of one byte into one open event: a machine that looks at it all again would need an hour.
    framing = Sse(1 << 21)
    for _ in range(300_000):
        framing.feed(b"x")
    assert closed(framing) == []
