"""An address is claimed on a real system."""

import socket

import pytest

from proxy.cli.footing import claim


def test_an_address_that_is_free_is_claimed_and_free_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match="in use"):
            claim(address)
    claim(address)
    claim(address)
