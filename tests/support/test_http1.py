"""Messages are the same however their bytes are cut."""

import pytest

from tests.support.http1 import Body, End, Event, Head, Messages, answer_length, encode_chunk, request_length

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: 1\r\nA: 2\r\n\r\n"
    + encode_chunk(b"hello")
    + encode_chunk(b"")
)
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
BOTH = CHUNKED + COUNTED


def whole(events: list[Event]) -> list[object]:
    """Heads by status, bodies joined, ends."""
    out: list[object] = []
    for event in events:
        if isinstance(event, Body) and out and isinstance(out[-1], bytes):
            out[-1] += event.data
        else:
            out.append(event.status if isinstance(event, Head) else event.data if isinstance(event, Body) else "end")
    return out


def answers() -> Messages:
    return Messages(lambda head: answer_length(head, "POST"))


@pytest.mark.parametrize("size", range(1, len(BOTH) + 1, 3))
def test_two_answers_cut_anywhere(size: int) -> None:
    messages = answers()
    events = [event for at in range(0, len(BOTH), size) for event in messages.feed(BOTH[at : at + size])]
    assert whole(events) == [200, b"hello", "end", 200, b"hello", "end"]
    assert messages.clean


def test_header_lines_keep_their_order() -> None:
    head = answers().feed(CHUNKED)[0]
    assert isinstance(head, Head)
    assert head.values("a") == ["1", "2"]


def test_a_body_cut_off_has_no_end() -> None:
    messages = answers()
    assert not any(isinstance(event, End) for event in messages.feed(COUNTED[:-1]) + messages.close())


def test_a_body_without_framing_ends_with_the_connection() -> None:
    messages = answers()
    events = messages.feed(b"HTTP/1.1 200 OK\r\n\r\nhel") + messages.feed(b"lo") + messages.close()
    assert whole(events) == [200, b"hello", "end"]


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_some_answers_have_no_body_whatever_their_headers_say(method: str, status: int) -> None:
    messages = Messages(lambda head: answer_length(head, method))
    events = messages.feed(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status)
    assert whole(events) == [status, "end"]


def test_a_request_without_framing_has_no_body() -> None:
    events = Messages(request_length).feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert isinstance(events[-1], End)
