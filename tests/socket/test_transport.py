"""What the system tells of a connection."""

import socket

import pytest

from proxy import transport
from proxy.transport import trip_s


@pytest.mark.skipif(transport.TCP_INFO is None, reason="the system does not tell")
def test_a_round_trip_is_what_the_system_measured() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert 0 < trip_s(client) < 0.05
