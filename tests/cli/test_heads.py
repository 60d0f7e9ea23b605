"""Heads by themselves. (test_frontdoor.py has whole connections.)"""

import json

import pytest

from proxy.cli.heads import Denied, check, origin_form

HOST = (b"host", b"engine.local:8800")
CHUNKED = (b"transfer-encoding", b"chunked")


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("1.1", [HOST]),
        ("1.1", [(b"host", b"[::1%25eth0]:80"), (b"transfer-encoding", b"Chunked")]),
        ("1.0", []),
        ("1.0", [HOST]),
    ],
)
def test_a_good_head_is_let_in(version: str, headers: list[tuple[bytes, bytes]]) -> None:
    check(version, b"POST", headers)


@pytest.mark.parametrize(
    ("status", "version", "method", "headers"),
    [
        (505, "2.0", b"GET", [HOST]),
        (400, "1.1", b"GET", []),
        (400, "1.1", b"GET", [HOST, HOST]),
        (400, "1.1", b"GET", [(b"host", b"a b")]),
        (400, "1.1", b"GET", [(b"host", b"user@engine")]),
        (501, "1.1", b"CONNECT", [HOST]),
        (400, "1.0", b"POST", [HOST, CHUNKED]),
        (501, "1.1", b"POST", [HOST, (b"transfer-encoding", b"gzip, chunked")]),
        (501, "1.1", b"POST", [HOST, CHUNKED, CHUNKED]),
    ],
)
def test_a_head_that_two_parsers_could_read_differently_is_denied(
    status: int, version: str, method: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(Denied) as caught:
        check(version, method, headers)
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("target", "origin"),
    [
        (b"/v1/models?a=%2f", b"/v1/models?a=%2f"),
        (b"http://engine:1/v1", b"/v1"),
        (b"HTTPS://engine?q=1", b"/?q=1"),
        (b"*", b"*"),
        (b"engine:443", b"engine:443"),
    ],
)
def test_a_target_loses_scheme_and_authority_and_nothing_else(target: bytes, origin: bytes) -> None:
    assert origin_form(target) == origin


def test_an_answer_is_whole_and_json_whatever_the_reason_says() -> None:
    head, _, body = Denied(400, 'a "quoted" back\\slash and é').answer().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-length: %d" % len(body) in head
    assert json.loads(body)["error"]["type"] == "invalid_request_error"
