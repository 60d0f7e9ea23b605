"""The forms that names, addresses and keys must have before they are used: what breaks a header, a log line or a
terminal is refused where it is configured, not where it does harm."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

_UNFIT = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Control characters, lone surrogates, line ends: no name, path, address or key has one.
_WORD = re.compile(r"[!-~]([ -~]*[!-~])?")
# RFC 9110 5.5: what may stand in a field's value; save what is not ASCII, for no two programs agree on that.
_HTTP = re.compile(r"https?://(?!\[v)", re.IGNORECASE)
# And no address of a later version than IPv6 (RFC 3986, IPvFuture): there is none.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110 5.6.2: a field's name.
_NO_HOST = re.compile(r"[\s/?#@\[\]<>\"\\^`{|}]")
# What no host's name has (WHATWG URL, forbidden host code points; save those of IPv6 and its zones).
_PORT = re.compile(r"[0-9]{1,5}")
LAST_PORT = 65_535


def texts(value: Any) -> Iterator[str]:
    """The text in a value: itself, or what is in its list or table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (*value, *value.values())
    elif isinstance(value, tuple):
        yield from (item for item in value if isinstance(item, str))


def is_text(text: str) -> bool:
    """Whether it can be written on one line."""
    return text.isprintable() or not any(unicodedata.category(char) in _UNFIT for char in text)


def is_credential(text: str) -> bool:
    """Whether it can be sent in a header, so that what comes is what was sent."""
    return _WORD.fullmatch(text) is not None


def is_field(text: str) -> bool:
    """Whether it is a header's name."""
    return _TOKEN.fullmatch(text) is not None


def is_host(text: str) -> bool:
    """Whether it may name a host: an address, or labels of 1 to 63 characters; as it is sent, in ASCII (`xn--...`). An
    IPv6 address has no brackets here."""
    try:
        text.encode("idna")  # as it will be asked for
    except UnicodeError:
        return False
    return text.isascii() and not _NO_HOST.search(text)


def place(url: str) -> tuple[str, str]:
    """The host of `http://HOST:PORT` or https, and what follows; no host where it is something else."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if _HTTP.match(url) and parts.port != 0 else None
    except ValueError:  # a port that is none; brackets without an address
        return "", ""
    return (host, url.partition("//")[2].removeprefix(parts.netloc)) if host and is_host(host) else ("", "")


def split_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[IPV6]:PORT`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or (":" in host and host[0] != "["):
        raise ValueError(f"{text!r} is not HOST:PORT")
    if int(port) > LAST_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT: the last port is {LAST_PORT}")
    if not is_host(host.strip("[]")):
        raise ValueError(f"{text!r} names no host")
    return host.strip("[]") or "0.0.0.0", int(port)
