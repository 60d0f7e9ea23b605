"""The wire's own rules; its behaviour on real connections is in tests/socket/test_wire.py."""

import asyncio
import socket

import httpx
import pytest

from proxy import transport
from proxy.transport import SPEAKING, Wire, _head, _translated, trip_s


@pytest.mark.parametrize("error", [*SPEAKING, ConnectionResetError, TimeoutError])
def test_every_error_while_speaking_has_a_name_in_httpx(error: type[Exception]) -> None:
    assert isinstance(_translated(SPEAKING, error()), httpx.TransportError)


def test_without_a_raw_target_the_urls_own_is_used() -> None:
    """So that an `httpx.AsyncClient` can use this transport."""
    assert _head(httpx.Request("get", "http://e/a?b=%20", headers=[])) == b"GET /a?b=%20 HTTP/1.1\r\nHost: e\r\n\r\n"


def test_closing_a_wire_that_was_never_used_is_harmless() -> None:
    asyncio.run(Wire().aclose())


def test_a_system_that_does_not_tell_leaves_the_slack_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "TCP_INFO", None)
    with socket.socket() as client:
        assert trip_s(client) == 0
