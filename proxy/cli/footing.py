"""What must hold before anything starts: files that can be written, a free address, engines that are not this proxy."""

import os
import socket
import sqlite3
import ssl
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from proxy.config import Settings
from proxy.counting import Desks
from proxy.exporters.reader import SQLITE_MAGIC, opened
from proxy.exporters.schema import NotOurs, known
from proxy.flaws import ConfigError, Flaw
from proxy.grammar import split_address
from proxy.office.guard import is_loopback
from proxy.plain import fault

FILES = ("records", "store", "state")
"""Settings that name a file which is written while requests run. Its disk may fill later: that is a counted loss."""

BESIDE = ("store", "state")
"""These must be regular files, in a writable directory: a log is made beside the store, and a new state takes the place
of the old one (or of `/dev/null`). Records may go to a pipe."""


ANY = {"0.0.0.0": ("127.0.0.1", "IPv4"), "::": ("[::1]", "IPv6")}
"""Hosts of a listener on all addresses: the one of them by which a machine knows itself, and which these are."""
PORTS = {"http": 80, "https": 443}

LOGGED = b"\x02\x02"
"""Bytes 18 and 19 of a database that has a write-ahead log (SQLite file format, 1.3.3)."""

PROMPTS = ("max_prompt_tokens", "within_window")
"""Limits on a prompt's count."""


def unfounded(settings: Settings) -> Iterator[Flaw]:
    """Engines that are this proxy itself, and files that could not be written or read from the first. Makes none."""
    for engine in settings.upstream:
        at = f"upstream {engine.label!r}"
        for key, what in (("listen", "where clients reach this proxy"), ("admin", "this proxy's admin listener")):
            if ourselves(engine.url, address := getattr(settings, key)):
                yield Flaw("upstream.url", f"{engine.url} is {what} ({key} = {address})", at, rests_on=(key,))
        if engine.ca_file and (trouble := _untrusted(engine.ca_file)):
            yield Flaw("upstream.ca_file", f"cannot read {engine.ca_file}: {trouble}", at)
    yield from _unwritable(settings)
    if (key := settings.prefixes.key_file) and (trouble := _keyless(Path(key))):
        yield Flaw("prefixes.key_file", f"cannot use {key}: {trouble}")


def unfurnished(settings: Settings) -> Iterator[Flaw]:
    """Vocabularies that cannot be read. Reads them, which may take a second each."""
    try:
        Desks(settings.tokens)
    except ConfigError as error:
        yield from error.flaws


def _unwritable(settings: Settings) -> Iterator[Flaw]:
    names: dict[str, str] = {key: name for key in FILES if (name := getattr(settings, key))}
    for key, name in names.items():
        trouble = _trouble(Path(name), beside=key in BESIDE)
        if trouble is not None:
            yield Flaw(key, f"cannot write {name}: {trouble}")
        elif key == "store" and (foreign := _foreign(Path(name))):
            yield Flaw(key, f"{name} is {foreign}")
        for other in FILES[: FILES.index(key)]:
            if other in names and _same(names[other], name):
                yield Flaw(key, f"{name} is the file of {other} too; give each its own", rests_on=(other,))


def _same(one: str, other: str) -> bool:
    try:
        return Path(one).resolve() == Path(other).resolve()
    except OSError:  # links in a circle: that it cannot be written is said
        return False


def _untrusted(file: str) -> str | None:
    """Why it is no file of certificates."""
    try:
        ssl.create_default_context(cafile=file)
    except ssl.SSLError:
        return "it holds no PEM certificate"
    except (OSError, ValueError) as error:
        return fault(error)
    return None


def ourselves(url: str, listen: str) -> bool:
    """Whether the listener is where this engine should be: what is sent there would come back without end."""
    host, port = split_address(listen)
    engine = urlsplit(url)
    theirs = engine.hostname or ""
    if port != (engine.port or PORTS.get(engine.scheme)):
        return False
    near = is_loopback(theirs) and (host in ANY or (is_loopback(host) and "localhost" in (theirs, host)))
    return near or theirs == host


def near(address: str) -> tuple[str, str]:
    """Where this machine reaches a listener on this address; of which kind all others reach it too, if it has more."""
    host, port = split_address(address)
    mine, family = ANY.get(host, ("", ""))
    return (f"{mine}:{port}" if mine else address), family


def concerns(settings: Settings) -> Iterator[str]:
    """What can stand, and is hardly what was meant."""
    if not settings.admin_token and not is_loopback(split_address(settings.admin)[0]):
        yield f"admin listens on {settings.admin} without admin_token: all but health checks will be refused"
    for limit in settings.limit:
        idle = [name for name in PROMPTS if getattr(limit, name)]
        if idle and not settings.tokens.count and limit.mode != "off":
            yield f"limit {limit.name!r}: tokens.count is off, so no prompt is held to {' and '.join(idle)}"


def claim(address: str) -> None:
    """Binds the address and lets it go again. Raises OSError where a listener could not have it."""
    host, port = split_address(address)
    with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
        pass


def unclaimed(error: OSError) -> str:
    """Why an address could not be had, without what libraries wrap around it."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else fault(error)  # below: of names, with words


def _keyless(path: Path) -> str | None:
    """Why no key can be read from the file, or made in it; a key that is there is only read."""
    try:
        if not (path.is_file() and path.stat().st_size):
            return _trouble(path, beside=True)
        path.open("rb").close()
    except OSError as error:
        return fault(error)
    return None


def _foreign(path: Path) -> str | None:
    """What else than a store of ours is in the file."""
    if not path.exists() or not path.stat().st_size:
        return None
    with path.open("rb") as file:
        head = file.read(20)
        if not head.startswith(SQLITE_MAGIC):
            return "a file of something else, and no SQLite database"
    closed = head[18:] == LOGGED and not path.with_name(f"{path.name}-wal").exists()  # else SQLite would leave one
    try:
        with closing(opened(path, "&immutable=1" if closed else "")) as connection:
            connection.execute("PRAGMA busy_timeout = 0")
            known(connection)
    except NotOurs as error:
        return str(error)
    except sqlite3.OperationalError:  # in use: whoever writes to it waits
        return None
    except sqlite3.DatabaseError as error:
        return f"no SQLite database that can be read ({error})"
    return None


def _trouble(path: Path, *, beside: bool) -> str | None:
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        odd = not stat.S_ISREG(os.fstat(file).st_mode)
        os.close(file)
        if odd and beside:
            return "it is no regular file"
    except FileNotFoundError:
        beside = True
    except OSError as error:
        return error.strerror
    if not beside:
        return None
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    return None if os.access(path.parent, os.W_OK | os.X_OK) else f"no file can be made in {path.parent}"
