"""The head of an engine's answer as bytes, made plain before it is parsed: who reads it behind us must find in it what
we found."""

import re
from typing import NamedTuple

from proxy.headers import Pair

LINES = 1000
"""Lines of a head; the parser calls us for each of them."""
HEAD_END = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_BLANK = re.compile(rb"^([^\s:]+)[ \t]+:", re.MULTILINE)
_LENGTH = re.compile(rb"^(content-length|transfer-encoding):([^\n]*)\n", re.IGNORECASE | re.MULTILINE)
_BLANKS = b" \t\r"


class Garbled(Exception):
    """What the engine says is not HTTP, or not what was asked for."""


class Head(NamedTuple):
    """The head of an answer."""

    status: int
    headers: list[Pair]
    """As they came: order, duplicates, case; without the blanks around values."""


def plain(head: bytes) -> bytes:
    """The head with one field a line (RFC 9112, 5.2), no blank before a colon (5.1) and one length.

    Raises Garbled for what is no head of HTTP, for bytes that some take for a line's end and others do not (RFC 9110,
    5.5), and for too many lines.
    """
    if not head.startswith(b"HTTP/"):
        raise Garbled("the answer does not begin as HTTP does")
    if head.count(b"\r") != head.count(b"\r\n") or b"\0" in head or head.count(b"\n") > LINES:
        raise Garbled(f"the answer's head holds a control character, or more than {LINES} lines")
    if b"\n " in head or b"\n\t" in head:
        head = _FOLD.sub(b" ", head)
    if b" :" in head or b"\t:" in head:
        head = _BLANK.sub(rb"\1:", head)
    return _one_length(head)


def _one_length(head: bytes) -> bytes:
    """The head with its body's length stated once, where that is clear: chunks go before a number (RFC 9112, 6.3), and
    a number may be repeated (RFC 9110, 8.6). What contradicts itself is left for the parser to refuse."""
    stated = _LENGTH.findall(head)
    if len(stated) < 2 and not (stated and b"," in stated[0][1]):
        return head
    codings = [value.strip(_BLANKS).lower() for name, value in stated if name.lower() == b"transfer-encoding"]
    if codings and codings[-1].endswith(b"chunked"):
        return _LENGTH.sub(lambda line: line[0] if line[1].lower() == b"transfer-encoding" else b"", head)
    numbers = {part.strip(_BLANKS) for _, value in stated for part in value.split(b",", LINES)}
    if codings or len(numbers) > 1:
        return head
    once = iter((b"%b: %b\r\n" % (stated[0][0], *numbers),))
    return _LENGTH.sub(lambda line: next(once, b""), head)
