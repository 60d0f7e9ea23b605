import pytest

from proxy.admission.keyring import BadKeyFile, Entry, Keyring, loads

RING = Keyring("salt").add("team-a", "pg-one", "k1", "2026-11-29").add("team-b", "pg-two", "k2", "2026-11-30")


def test_a_key_is_known_by_its_hash() -> None:
    assert (RING.tenant("pg-one"), RING.tenant("pg-two")) == ("team-a", "team-b")
    assert RING.tenant("pg-three") is None
    assert RING.tenant("") is None


def test_no_key_and_no_hash_is_shown() -> None:
    assert "pg-" not in RING.dumps()
    assert RING.entries[0].hash not in repr(RING)


def test_the_same_key_has_another_hash_under_another_salt() -> None:
    assert Keyring("other").hash("pg-one") != RING.hash("pg-one")


def test_a_file_is_read_as_it_was_written() -> None:
    assert loads(RING.dumps()) == RING
    assert RING.entries[1] == Entry("k2", "team-b", RING.hash("pg-two"), "2026-11-30")


def test_a_revoked_key_is_nobodys() -> None:
    assert RING.revoke("k1").tenant("pg-one") is None
    assert RING.revoke("k1").tenant("pg-two") == "team-b"
    with pytest.raises(KeyError):
        RING.revoke("k3")


@pytest.mark.parametrize("name", ["", "team\na"])
def test_a_tenant_has_a_name_that_can_be_printed(name: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        RING.add(name, "pg-three", "k3", "2026-11-29")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"salt": "s", "keys": [{"id": "k1"}]}', '{"salt": "s", "keys": 1}'])
def test_what_is_no_file_of_keys_is_said_to_be_none(text: str) -> None:
    with pytest.raises(BadKeyFile, match="not a file of keys"):
        loads(text)
