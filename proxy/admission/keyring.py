"""Keys of clients, as hashes: made, looked up, and written as a file that holds no key.

The file is JSON: `{"salt": "...", "keys": [{"id": "...", "tenant": "...", "hash": "...", "added": "2026-11-29"}]}`.
A key has 256 bits of chance, so one round of a keyed hash is as good as many: there is nothing to guess.
"""

import json
import re
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

PREFIX = "pg-"
"""Keys begin so, for scanners that look for secrets."""

KEY_BYTES = 32
"""Chance in a key."""

SALT_BYTES = 16

HASH_BYTES = 32

_HASH = re.compile(rf"[0-9a-f]{{{2 * HASH_BYTES}}}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key, without it."""

    id: str
    """Names the key to its owner; tells nothing about it."""
    tenant: str
    hash: str
    added: str
    """Day on which it was made, ISO 8601."""


class BadKeyFile(Exception):
    """The file of keys cannot be read as one; the message says where."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """All keys. `repr` shows no hash."""

    salt: str = ""
    entries: tuple[Entry, ...] = ()
    _tenants: dict[str, str] = field(init=False, repr=False, compare=False)
    """By hash."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tenants", {entry.hash: entry.tenant for entry in self.entries})

    def __repr__(self) -> str:
        return f"<Keyring of {len(self.entries)}>"

    def tenant(self, key: str) -> str | None:
        """Whose key it is; None: nobody's. Time tells nothing of a hash that nobody outside can make."""
        return self._tenants.get(self.hash(key))

    def hash(self, key: str) -> str:
        """The key's hash in this file."""
        return blake2b(key.encode(), key=self.salt.encode(), digest_size=HASH_BYTES).hexdigest()

    def add(self, tenant: str, key: str, id: str, added: str) -> "Keyring":
        """A keyring with one key more. Raises ValueError for a name that is empty or no printable text."""
        if not _named(tenant):
            raise ValueError("a tenant's name is printable text")
        return replace(self, entries=(*self.entries, Entry(id, tenant, self.hash(key), added)))

    def revoke(self, id: str) -> "Keyring":
        """A keyring without this key. Raises KeyError where there is none of this id."""
        kept = tuple(entry for entry in self.entries if entry.id != id)
        if len(kept) == len(self.entries):
            raise KeyError(id)
        return replace(self, entries=kept)

    def dumps(self) -> str:
        """The file's text."""
        keys = [{"id": e.id, "tenant": e.tenant, "hash": e.hash, "added": e.added} for e in self.entries]
        return json.dumps({"salt": self.salt, "keys": keys}, indent=2, ensure_ascii=False) + "\n"


def loads(text: str) -> Keyring:
    """The keyring that a file's text holds. Raises BadKeyFile: what can be read as a file of keys can be asked too."""
    try:
        tree: Any = json.loads(text)
        return Keyring(_salt(tree["salt"]), tuple(map(_entry, _listed(tree["keys"]))))
    except KeyError as error:
        raise BadKeyFile(f"not a file of keys: {error} is missing") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise BadKeyFile(f"not a file of keys: {error}") from error


def _salt(salt: Any) -> str:
    if not isinstance(salt, str) or not salt.isascii() or len(salt) > blake2b.MAX_KEY_SIZE:
        raise ValueError(f"salt: not ASCII text of {blake2b.MAX_KEY_SIZE} characters at most")
    return salt


def _listed(keys: Any) -> list[Any]:
    if not isinstance(keys, list):
        raise ValueError("keys: no list")
    return keys


def _entry(key: Any) -> Entry:
    entry = Entry(*(key[name] for name in Entry.__slots__))
    if not all(isinstance(getattr(entry, name), str) for name in Entry.__slots__):
        raise ValueError("keys: an entry holds something that is no text")
    if not (entry.id.isprintable() and entry.added.isprintable()):
        raise ValueError("keys: the id or the day of an entry is no printable text")
    if not _named(entry.tenant):
        raise ValueError(f"keys: the tenant of {entry.id!r} is no printable text")
    if not _HASH.fullmatch(entry.hash):
        raise ValueError(f"keys: the hash of {entry.id!r} is not {2 * HASH_BYTES} hex digits")
    return entry


def _named(tenant: str) -> bool:
    return bool(tenant) and tenant.isprintable()
