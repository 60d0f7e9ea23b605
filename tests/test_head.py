import pytest

from proxy.head import LINES, Garbled, plain


@pytest.mark.parametrize(
    ("fields", "once"),
    [
        ((b"content-length: 2", b"x: 1"), (b"content-length: 2", b"x: 1")),
        ((b"Content-Length: 2", b"x: 1", b"content-length:2 "), (b"Content-Length: 2", b"x: 1")),
        ((b"content-length: 2, 2",), (b"content-length: 2",)),
        ((b"content-length: 2", b"content-length: 3"),) * 2,
        ((b"content-length: 2, 3",),) * 2,
        ((b"content-length: 2", b"transfer-encoding: gzip, Chunked"), (b"transfer-encoding: gzip, Chunked",)),
        ((b"content-length: 2", b"transfer-encoding: gzip"),) * 2,
        ((b"transfer-encoding: gzip, chunked",),) * 2,
    ],
)
def test_a_length_is_stated_once_where_that_is_clear(fields: tuple[bytes, ...], once: tuple[bytes, ...]) -> None:
    assert plain(head_of(fields)) == head_of(once)


def head_of(fields: tuple[bytes, ...]) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", *fields, b"", b""))


@pytest.mark.parametrize(
    ("fields", "plainly"),
    [
        ((b"x: a", b" b", b"\tc", b"y: 1"), (b"x: a b c", b"y: 1")),
        ((b"content-length:", b" 2"), (b"content-length: 2",)),
        ((b" x: a", b"y: 1"), (b"y: 1",)),
        ((b"Transfer-Encoding : chunked", b"x \t: y :z"), (b"Transfer-Encoding: chunked", b"x: y :z")),
        ((b"content-length : 2", b"content-length: 2"), (b"content-length: 2",)),
        ((b"x: y :z",),) * 2,
    ],
)
def test_a_field_is_one_line_with_its_colon_behind_its_name(
    fields: tuple[bytes, ...], plainly: tuple[bytes, ...]
) -> None:
    assert plain(head_of(fields)).replace(b"OK x: a", b"OK") == head_of(plainly)


@pytest.mark.parametrize("fields", [(b"x: a\rset-cookie: b",), (b"x: a\0b",), (b"\rx: a",), (b"a:",) * LINES], ids=repr)
def test_a_head_that_others_may_read_differently_is_refused(fields: tuple[bytes, ...]) -> None:
    with pytest.raises(Garbled):
        plain(head_of(fields))


@pytest.mark.parametrize("field", [b"content-length:1%b2", b"content-length%b2", b"%b:", b"x:%b\n y"])
def test_blanks_without_an_end_take_time_in_proportion(field: bytes) -> None:
    """With a step for every two of them, one head would take minutes."""
    head = head_of((field % (b" \t" * 200_000), b"content-length: 2"))
    assert plain(head).endswith(b"content-length: 2\r\n\r\n")


def test_what_stands_before_a_head_is_no_field_of_it() -> None:
    with pytest.raises(Garbled):
        plain(b"content-length: 2\r\n" + head_of((b"transfer-encoding: chunked",)))
