"""Who asks: a client with a key of ours, a name in a header from a trusted network, or nobody in particular.

A key is known by its hash alone. It is never a name, a label or a line of a log: what the rest of the product hears of
is the tenant's name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address

from proxy.admission.keyring import Keyring
from proxy.errors import BadKey, Forbidden
from proxy.headers import KEYS, Pair
from proxy.records import RequestFacts

Network = IPv4Network | IPv6Network

NAME_LENGTH = 64
"""Characters of a tenant's name that are kept: it becomes a label."""


@dataclass(frozen=True, slots=True)
class Tenants:
    """How tenants are told apart. With neither keyring nor header there are none, and everything is open."""

    keyring: Keyring | None = None
    """None: keys are not asked for. One that holds no key lets nobody in."""
    header: bytes = b""
    """Name of the header that names a tenant, in lower case; empty: none does."""
    networks: tuple[Network, ...] = ()
    """From where that header is believed."""

    @property
    def on(self) -> bool:
        """Whether there are tenants at all."""
        return self.keyring is not None or bool(self.header)

    def authorize(self, headers: Iterable[Pair], peer: str | None, facts: RequestFacts) -> str | None:
        """The tenant's name; None where there are no tenants.

        `peer` is the client's address. Raises BadKey where nobody vouches for the caller, Forbidden for routes that are
        closed to tenants: only inference and model lists are open.
        """
        if not self.on:
            return None
        name = self._by_key(headers) or self._by_header(headers, peer)
        if name is None:
            raise BadKey("the API key is missing or unknown: send `Authorization: Bearer KEY` with a key of this proxy")
        if facts.route != "inference" and facts.kind != "models":
            raise Forbidden("this route is closed: tenants may call inference routes and list models", tenant=name)
        return name

    def _by_key(self, headers: Iterable[Pair]) -> str | None:
        if self.keyring is None:
            return None
        told: dict[bytes, bytes] = {}
        for name, value in headers:
            if name in KEYS:
                told.setdefault(name, value)
        # A client may say a placeholder beside its key: OpenAI's library wants one, Anthropic's sends both of its own.
        return next(filter(None, [self.keyring.tenant(_bare(value)) for value in told.values()]), None)

    def _by_header(self, headers: Iterable[Pair], peer: str | None) -> str | None:
        if not self.header or peer is None or not self._trusted(peer):
            return None
        told = {value.decode("latin-1").strip() for name, value in headers if name == self.header}
        value = told.pop() if len(told) == 1 else ""  # of two names one may be the client's own
        return value[:NAME_LENGTH] if value and value.isprintable() else None

    def _trusted(self, peer: str) -> bool:
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:  # a Unix socket's path
            return False
        return any(address in network for network in self.networks)


def _bare(value: bytes) -> str:
    """The key in a header's value."""
    scheme, _, rest = value.partition(b" ")
    return (rest.strip() if scheme.lower() == b"bearer" else value).decode("latin-1")
