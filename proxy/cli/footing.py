"""What must hold before anything starts: files that can be written, a free address, engines that are not this proxy."""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from proxy.config import ConfigError, Settings, split_address
from proxy.exporters.reader import SQLITE_MAGIC
from proxy.office.guard import is_loopback

FILES = ("records", "store", "state")
"""Settings that name a file which is written while requests run. Its disk may fill later: that is a counted loss."""

BESIDE = ("store", "state")
"""These must be regular files, in a writable directory: a log is made beside the store, and a new state takes the place
of the old one (or of `/dev/null`). Records may go to a pipe."""


ANY = ("0.0.0.0", "::")
"""Hosts of a listener on all addresses."""
PORTS = {"http": 80, "https": 443}

PROMPTS = ("max_prompt_tokens", "within_window")
"""Limits on a prompt's count."""


def stand(settings: Settings) -> None:
    """Raises ConfigError, which names the key, where an engine is this proxy itself, or a file could not be written
    from the first. Makes none."""
    for engine in settings.upstream:
        if ourselves(engine.url, settings.listen):
            raise ConfigError(f"upstream: {engine.url} is where clients reach this proxy (listen = {settings.listen})")
    for key in FILES:
        name: str = getattr(settings, key)
        trouble = _trouble(Path(name), beside=key in BESIDE) if name else None
        if trouble is not None:
            raise ConfigError(f"{key}: cannot write {name}: {trouble}")
    if settings.store and _foreign(Path(settings.store)):
        raise ConfigError(f"store: {settings.store} is a file of something else, and no SQLite database")


def ourselves(url: str, listen: str) -> bool:
    """Whether the listener is where this engine should be: what is sent there would come back without end."""
    host, port = split_address(listen, "listen")
    engine = urlsplit(url)
    theirs = engine.hostname or ""
    if port != (engine.port or PORTS.get(engine.scheme)):
        return False
    near = is_loopback(theirs) and (host in ANY or (is_loopback(host) and "localhost" in (theirs, host)))
    return near or theirs == host


def concerns(settings: Settings) -> Iterator[str]:
    """What can stand, and is hardly what was meant."""
    if not settings.admin_token and not is_loopback(split_address(settings.admin, "admin")[0]):
        yield f"admin listens on {settings.admin} without admin_token: every request will be refused"
    for limit in settings.limit:
        idle = [name for name in PROMPTS if getattr(limit, name)]
        if idle and not settings.tokens.count and limit.mode != "off":
            yield f"limit {limit.name!r}: tokens.count is off, so no prompt is held to {' and '.join(idle)}"


def claim(address: str, key: str) -> None:
    """Binds the address and lets it go again. Raises OSError where a listener could not have it."""
    host, port = split_address(address, key)
    with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
        pass


def _foreign(path: Path) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE_MAGIC)) not in (b"", SQLITE_MAGIC)


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
