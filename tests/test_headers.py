"""Header lists on their way through: everything passes as it came, save what is declared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.headers import HOP_BY_HOP, KEYS, Pair, request_id, stated_length, to_client, to_engine

OURS = [(b"host", b"engine:1"), (b"x-request-id", b"id")]


def out(*headers: Pair, identity: bool = False, key: str | None = None, keyless: bool = False) -> list[Pair]:
    return to_engine(headers, authority=b"engine:1", request_id="id", identity=identity, key=key, keyless=keyless)


def back(*headers: Pair, **more: object) -> list[Pair]:
    return to_client(headers, request_id="id", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "length"),
    [
        (b"0", 0),
        (b" 7\t", 7),
        (b"0" * 5_000 + b"2", 2),
        (b"9" * 5_000, 10**20 - 1),
        (b"-1", -1),
        (b"+2", -1),
        (b"", -1),
    ],
)
def test_a_length_is_read_whatever_stands_in_front(value: bytes, length: int) -> None:
    assert stated_length(value) == length


def test_what_is_not_ours_passes_in_order_with_its_bytes_and_duplicates() -> None:
    headers = ((b"b", b"\xff"), (b"a", b""), (b"b", b"2"), (b"x-forwarded-for", b"1.2.3.4"), (b"cookie", b"c=d"))
    assert out(*headers) == [*headers, *OURS]


def test_host_and_request_id_stand_where_the_clients_stood() -> None:
    assert out((b"host", b"p"), (b"a", b"b"), (b"x-request-id", b"odd one"), (b"host", b"q")) == [
        (b"host", b"engine:1"),
        (b"a", b"b"),
        (b"x-request-id", b"id"),
    ]


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP | {b"expect", b"http2-settings"}))
def test_what_speaks_of_one_connection_ends_with_it(name: bytes) -> None:
    assert out((name, b"x"), (b"a", b"b")) == [(b"a", b"b"), *OURS]


def test_connection_names_more_that_ends_with_it() -> None:
    assert out((b"connection", b"Close, X-Mine ,"), (b"x-mine", b"1"), (b"connection", b"a"), (b"a", b"b")) == OURS


def test_connection_cannot_take_host_or_id_away() -> None:
    assert out((b"connection", b"host, x-request-id"), (b"host", b"p")) == OURS


def test_an_answer_that_is_not_compressed_is_asked_for_once() -> None:
    asked = out((b"accept-encoding", b"gzip"), (b"a", b"b"), (b"accept-encoding", b"br"), identity=True)
    assert asked == [(b"accept-encoding", b"identity"), (b"a", b"b"), *OURS]
    assert (b"accept-encoding", b"identity") in out(identity=True)


@pytest.mark.parametrize("name", sorted(KEYS))
def test_an_engines_key_stands_in_place_of_the_clients(name: bytes) -> None:
    sent = out((name, b"client"), key="engine")
    assert [value for key, value in sent if key in KEYS] == [b"Bearer engine"]


@pytest.mark.parametrize("name", sorted(KEYS))
def test_a_tenants_key_is_not_passed_on(name: bytes) -> None:
    assert out((name, b"tenant"), keyless=True) == OURS
    assert out((name, b"client")) == [(name, b"client"), *OURS]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ([b"abc-1"], "abc-1"),
        ([b"x" * 128], "x" * 128),
        ([b"x" * 129], "made"),
        ([b""], "made"),
        ([b"a b"], "made"),
        ([b"\xc3\xa9"], "made"),
        ([b"a\x7f"], "made"),
        ([b"a", b"a"], "made"),
        ([], "made"),
    ],
)
def test_a_request_has_one_id_the_clients_where_it_is_fit_to_be_printed(sent: list[bytes], kept: str) -> None:
    assert request_id([(b"a", b"b"), *((b"x-request-id", value) for value in sent)], lambda: "made") == kept


def test_an_answers_headers_keep_case_order_bytes_and_duplicates() -> None:
    headers = ((b"Set-Cookie", b"a=1"), (b"X-\xff", b"\xff"), (b"Set-Cookie", b"b=2"), (b"Content-Length", b"5"))
    assert back(*headers) == [*headers, (b"x-request-id", b"id")]


def test_an_answers_own_id_is_kept() -> None:
    assert back((b"X-Request-ID", b"theirs")) == [(b"X-Request-ID", b"theirs")]


def test_an_answers_hop_by_hop_fields_end_here() -> None:
    answer = back((b"Transfer-Encoding", b"chunked"), (b"Connection", b"X-A"), (b"X-A", b"1"), (b"Keep-Alive", b"x"))
    assert answer == [(b"x-request-id", b"id")]


def test_a_length_that_is_not_true_does_not_pass() -> None:
    length = (b"Content-Length", b"5")
    assert length not in back(length, (b"Transfer-Encoding", b"chunked"))
    assert length not in back(length, resized=True)
    assert length in back(length)


def test_what_a_limit_adds_stands_at_the_end() -> None:
    assert back(also=[(b"x-ratelimit-limit-requests", b"5")])[-1] == (b"x-ratelimit-limit-requests", b"5")


NAMES = st.sampled_from([b"a", b"b", b"host", b"connection", b"te", b"x-request-id", b"cookie", b"x-forwarded-for"])
PAIRS = st.lists(st.tuples(NAMES, st.binary(max_size=8)), max_size=12)


@given(PAIRS)
def test_nothing_is_invented_and_nothing_else_is_lost(headers: list[Pair]) -> None:
    named = {token.strip().lower() for name, value in headers if name == b"connection" for token in value.split(b",")}
    due = [pair for pair in headers if pair[0] in (b"a", b"b", b"cookie", b"x-forwarded-for") and pair[0] not in named]
    sent = out(*headers)
    assert [pair for pair in sent if pair not in OURS] == due
    assert sorted(pair for pair in sent if pair in OURS) == sorted(OURS)
