import json

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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"salt": "s" * 65}, "salt: not ASCII text of 64 characters at most"),
        ({"salt": 7}, "salt: not ASCII"),
        ({"salt": "\ud800"}, "salt: not ASCII"),
        ({"keys": {}}, "keys: no list"),
        ({"keys": ""}, "keys: no list"),
        ({"hash": "\u00e9" * 64}, "keys: the hash of 'k1' is not 64 hex digits"),
        ({"hash": "ab"}, "keys: the hash of 'k1' is not 64 hex digits"),
        ({"hash": None}, "keys: an entry holds something that is no text"),
        ({"tenant": ["a"]}, "keys: an entry holds something that is no text"),
        ({"tenant": "\ud800"}, "keys: the tenant of 'k1' is no printable text"),
        ({"tenant": ""}, "keys: the tenant of 'k1' is no printable text"),
    ],
)
def test_a_file_that_could_not_be_asked_later_is_refused_at_once(wrong: dict[str, object], message: str) -> None:
    tree = json.loads(RING.dumps())
    for name, value in wrong.items():
        (tree if name in tree else tree["keys"][0])[name] = value
    with pytest.raises(BadKeyFile, match=message):
        loads(json.dumps(tree))


def test_a_file_nested_without_end_is_none_of_keys() -> None:
    with pytest.raises(BadKeyFile, match="not a file of keys"):
        loads("[" * 100_000)


def test_the_longest_salt_is_good_for_a_hash() -> None:
    ring = Keyring("s" * 64).add("team", "pg-one", "k1", "2026-11-29")
    assert loads(ring.dumps()).tenant("pg-one") == "team"


@pytest.mark.parametrize("name", ["id", "added"])
def test_an_entry_that_cannot_be_shown_is_no_entry(name: str) -> None:
    entry = {"id": "x", "tenant": "t", "hash": "0" * 64, "added": "2026-11-29", name: "a\x1b[2J"}
    with pytest.raises(BadKeyFile, match="no printable text"):
        loads(json.dumps({"salt": "ab", "keys": [entry]}))
