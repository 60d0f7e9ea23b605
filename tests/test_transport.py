"""The wire's own rules; its behaviour on real connections is in tests/socket/test_wire.py."""

import asyncio
import socket

import httpx
import pytest

from proxy import transport
from proxy.config import Upstream
from proxy.messages import EngineAddress
from proxy.transport import SPEAKING, Wire, _head, _translated, trip_s, trust


@pytest.mark.parametrize("error", [*SPEAKING, ConnectionResetError, TimeoutError])
def test_every_error_while_speaking_has_a_name_in_httpx(error: type[Exception]) -> None:
    assert isinstance(_translated(SPEAKING, error()), httpx.TransportError)


@pytest.mark.parametrize("kind", [Upstream, EngineAddress])
def test_a_ca_is_trusted_for_its_own_engine_alone(kind: type[Upstream] | type[EngineAddress]) -> None:
    engines = [kind(url="https://a:1", name="a", ca_file="ca.pem"), kind(url="https://b:1", name="b")]
    assert trust(engines) == {"a:1": "ca.pem"}


def test_without_a_raw_target_the_urls_own_is_used() -> None:
    """So that an `httpx.AsyncClient` can use this transport."""
    assert _head(httpx.Request("get", "http://e/a?b=%20", headers=[])) == b"GET /a?b=%20 HTTP/1.1\r\nHost: e\r\n\r\n"


def test_closing_a_wire_that_was_never_used_is_harmless() -> None:
    asyncio.run(Wire().aclose())


def test_a_system_that_does_not_tell_leaves_the_slack_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "TCP_INFO", None)
    with socket.socket() as client:
        assert trip_s(client) == 0
