import pytest

from proxy.office.guard import Guard, is_loopback

LOCAL = Guard.of("127.0.0.1", "", ["Metrics.example"])
OPEN = Guard.of("0.0.0.0", "secret", [])
BEARER = {"host": "10.0.0.5:8801", "authorization": "Bearer secret"}


def status(guard: Guard, headers: dict[str, str]) -> int | None:
    refusal = guard.check(headers)
    return refusal.status if refusal is not None else None


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8801", "localhost", "LOCALHOST:1", "[::1]:8801", "metrics.EXAMPLE:80", "192.168.1.7"]
)
def test_known_names_and_addresses_come_in(host: str) -> None:
    assert status(LOCAL, {"host": host}) is None


@pytest.mark.parametrize("host", ["evil.example", "", "127.0.0.1.evil.example:8801", "[::1", "localhost.evil.example"])
def test_a_name_pointed_at_us_stays_out(host: str) -> None:
    assert status(LOCAL, {"host": host}) == 421


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8801", None),
        ("http://localhost:3000", 403),
        ("http://localhost", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
def test_a_page_of_another_origin_stays_out(origin: str, expected: int | None) -> None:
    assert status(LOCAL, {"host": "localhost:8801", "origin": origin}) == expected


def test_off_loopback_only_the_token_opens() -> None:
    assert status(OPEN, BEARER) is None
    assert status(OPEN, BEARER | {"authorization": "Bearer secrex"}) == 401
    assert status(OPEN, BEARER | {"authorization": "secret"}) == 401
    assert status(OPEN, BEARER | {"authorization": "Basic secret"}) == 401
    assert status(OPEN, BEARER | {"authorization": "bearer  secret"}) is None  # RFC 9110, 11.1: in any case
    assert status(OPEN, {"host": "10.0.0.5"}) == 401
    assert status(Guard.of("0.0.0.0", "", []), BEARER) == 403


def test_a_token_that_is_set_counts_on_loopback_too() -> None:
    assert status(Guard.of("127.0.0.1", "secret", []), {"host": "localhost"}) == 401


@pytest.mark.parametrize(
    ("address", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("host", False)],
)
def test_loopback(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
