from ipaddress import ip_network

import pytest

from proxy.admission.keyring import Keyring
from proxy.admission.tenants import NAME_LENGTH, Tenants
from proxy.errors import BadKey, Forbidden
from proxy.records import RequestFacts

CHAT = RequestFacts("openai", "chat", "inference")
LIST = RequestFacts("openai", "models", "read")
PULL = RequestFacts("ollama", "other", "manage")
METRICS = RequestFacts("passthrough", "other", "read")

BY_KEY = Tenants(Keyring("salt").add("team-a", "pg-one", "k1", "2026-11-29"))
BY_HEADER = Tenants(header=b"x-tenant", networks=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")))


def test_without_tenants_everything_is_open_and_nobody_has_a_name() -> None:
    assert Tenants().authorize([], None, PULL) is None


def test_a_keyring_without_keys_lets_nobody_in() -> None:
    last_revoked = Tenants(Keyring("salt").add("team-a", "pg-one", "k1", "2026-11-29").revoke("k1"))
    assert last_revoked.on
    for headers in ([], [(b"authorization", b"Bearer pg-one")]):
        with pytest.raises(BadKey):
            last_revoked.authorize(headers, "1.2.3.4", CHAT)


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"Bearer pg-one"),
        (b"authorization", b"bearer  pg-one"),
        (b"x-api-key", b"pg-one"),
        (b"api-key", b"pg-one"),
    ],
)
def test_a_key_names_its_tenant(header: tuple[bytes, bytes]) -> None:
    assert BY_KEY.authorize([(b"host", b"p"), header], "1.2.3.4", CHAT) == "team-a"


def test_a_placeholder_beside_a_key_does_no_harm() -> None:
    told = [(b"authorization", b"Bearer none"), (b"x-api-key", b"pg-one")]
    assert BY_KEY.authorize(told, "1.2.3.4", CHAT) == BY_KEY.authorize(told[::-1], "1.2.3.4", CHAT) == "team-a"


@pytest.mark.parametrize(
    "headers", [[], [(b"authorization", b"Bearer pg-two")], [(b"authorization", b"Bearer \xff")], [(b"x-tenant", b"a")]]
)
def test_who_has_no_key_of_ours_is_refused_and_the_key_is_not_repeated(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(BadKey) as refused:
        BY_KEY.authorize(headers, "1.2.3.4", CHAT)
    assert "pg-" not in str(refused.value)


def test_tenants_may_list_models_and_nothing_else_beside_inference() -> None:
    key = [(b"authorization", b"Bearer pg-one")]
    assert BY_KEY.authorize(key, None, LIST) == "team-a"
    for closed in (PULL, METRICS):
        with pytest.raises(Forbidden) as refused:
            BY_KEY.authorize(key, None, closed)
        assert refused.value.tenant == "team-a"


@pytest.mark.parametrize("peer", ["10.1.2.3", "fd00::1", "fd00::1%eth0"])
def test_a_header_from_a_trusted_network_is_believed(peer: str) -> None:
    assert BY_HEADER.authorize([(b"x-tenant", b" team-b ")], peer, CHAT) == "team-b"


@pytest.mark.parametrize(
    ("value", "peer"),
    [
        (b"team-b", "192.168.0.1"),
        (b"team-b", None),
        (b"team-b", "/run/socket"),
        (b"", "10.1.2.3"),
        (b"team\x00b", "10.1.2.3"),
    ],
)
def test_any_other_header_is_not(value: bytes, peer: str | None) -> None:
    with pytest.raises(BadKey):
        BY_HEADER.authorize([(b"x-tenant", value)], peer, CHAT)


def test_of_two_names_neither_is_believed_for_one_may_be_the_clients_own() -> None:
    with pytest.raises(BadKey):
        BY_HEADER.authorize([(b"x-tenant", b"rich"), (b"x-tenant", b"team-b")], "10.1.2.3", CHAT)
    assert BY_HEADER.authorize([(b"x-tenant", b"team-b"), (b"x-tenant", b"team-b")], "10.1.2.3", CHAT) == "team-b"


def test_a_name_from_a_header_is_cut() -> None:
    assert BY_HEADER.authorize([(b"x-tenant", b"t" * 999)], "10.1.2.3", CHAT) == "t" * NAME_LENGTH
