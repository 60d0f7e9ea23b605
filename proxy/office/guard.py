"""Who may ask the admin listener.

A browser on the operator's machine can be made to ask it: by a page whose name is pointed at 127.0.0.1 (DNS
rebinding), which the Host check stops, or by a foreign page, which the Origin check stops. An address in Host cannot be
rebound, a name must be known. Off loopback all is refused without a token.
"""

import hmac
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a caller is told who may not."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Guard:
    """The rules of one listener."""

    token: str
    """Empty: none is set."""
    loopback: bool
    """The listener is not to be reached from elsewhere."""
    hosts: frozenset[str]
    """Names it is known by."""

    @classmethod
    def of(cls, address: str, token: str, hosts: Iterable[str]) -> "Guard":
        """The guard of a listener on `address`."""
        return cls(token, is_loopback(address), frozenset({"localhost", address.lower(), *map(str.lower, hosts)}))

    def check(self, headers: Mapping[str, str]) -> Refusal | None:
        """None: come in. Header names are looked up in lower case."""
        host, port = _authority(headers.get("host", ""))
        if not (host in self.hosts or _is_address(host)):
            return Refusal(421, "this host name is not known here; see admin_hosts")
        origin = headers.get("origin")
        if origin is not None and _authority(origin.partition("://")[2]) != (host, port):
            return Refusal(403, "requests from other origins are not answered")
        if not self.token:
            return None if self.loopback else Refusal(403, "off loopback a token is needed; set admin_token")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip(" ").encode(), self.token.encode())
        if not (known and scheme.lower() == "bearer"):
            return Refusal(401, "Authorization: Bearer with the admin token is needed")
        return None


def is_loopback(address: str) -> bool:
    """Whether a listener on this address is reached from this machine alone."""
    return address == "localhost" or (_is_address(address) and ipaddress.ip_address(address.strip("[]")).is_loopback)


def _authority(text: str) -> tuple[str, int | None]:
    """Host and port of `host:port`: the host in lower case, an IPv6 literal without its brackets."""
    try:
        parts = urlsplit("//" + text)
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
