"""Edits one member of a JSON object in its bytes; all other bytes stay as they came.

The text is never decoded and written anew: that would change spacing, escapes and numbers. Nothing is changed where the
member stands there twice, or where an object that holds its name is broken. A text that lacks the name is not gone
through: whatever stands behind its opening brace, the member is put there.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_STRUCTURE = re.compile(rb'["\[\]{}]')
_SPELT = re.compile(rb"\\u00[4-7]")
"""A letter or an underscore written as an escape: names may hide behind it. No other escape can spell one."""
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
"""Possessive: a text of nothing but escapes is gone through once, and nothing is remembered of the way."""
_SCALAR = re.compile(rb"[^\s,\]}]+")
_ESCAPE = ord("\\")


class Member(NamedTuple):
    """One member of an object, by offsets into the text."""

    name: str
    start: int
    """Where its value begins ..."""
    end: int
    """... and where it ends."""


def find(text: bytes, path: tuple[str, ...]) -> bytes | None:
    """The text of the member at `path`; None where there is none or the text is no plain object."""
    try:
        value = text
        for name in path:
            member = _only(value, name)
            if member is None:
                return None
            value = value[member.start : member.end]
        return value
    except ValueError:
        return None


def splice(text: bytes, path: tuple[str, ...], value: bytes) -> bytes | None:
    """The text with the member at `path` set to the JSON text `value`; None where that cannot be done safely.

    A missing member is put first in its object, a missing or null object on the way is made, a member that is there is
    replaced.
    """
    try:
        return _splice(text, path, value)
    except ValueError:
        return None


def _splice(text: bytes, path: tuple[str, ...], value: bytes) -> bytes:
    name, rest = path[0], path[1:]
    member = _only(text, name)
    if member is None:
        return _inserted(text, name, _wrapped(rest, value))
    held = text[member.start : member.end]
    if not rest:
        put = value
    elif held == b"null":
        put = _wrapped(rest, value)
    else:
        put = _splice(held, rest, value)
    return text[: member.start] + put + text[member.end :]


def _wrapped(path: tuple[str, ...], value: bytes) -> bytes:
    for name in reversed(path):
        value = b'{"%b":%b}' % (name.encode(), value)
    return value


def _inserted(text: bytes, name: str, value: bytes) -> bytes:
    """Put first: decoders keep the last of two equal names, so that a client's own would win."""
    start = _open(text)
    after = skip(text, start)
    empty = text[after : after + 1] == b"}"
    return b'%b"%b":%b%b%b' % (text[:start], name.encode(), value, b"" if empty else b",", text[start:])


def _only(text: bytes, name: str) -> Member | None:
    """The member of this name; ValueError where it stands there twice."""
    if name.encode() not in text and not (b"\\u00" in text and _SPELT.search(text)):
        _open(text)
        return None
    found = [member for member in members(text) if member.name == name]
    if len(found) > 1:
        raise ValueError("the name stands there twice")
    return found[0] if found else None


def members(text: bytes) -> Iterator[Member]:
    """The members of the object, in order; ValueError where the text is none."""
    at = skip(text, _open(text))
    if text[at : at + 1] == b"}":
        return
    while True:
        if text[at : at + 1] != b'"':
            raise ValueError("a name must be a string")
        end = _string_end(text, at)
        name = json.loads(text[at:end])
        at = skip(text, end)
        if text[at : at + 1] != b":":
            raise ValueError("no colon after a name")
        start = skip(text, at + 1)
        end = _value_end(text, start)
        yield Member(name, start, end)
        at = skip(text, end)
        if text[at : at + 1] == b"}":
            return
        if text[at : at + 1] != b",":
            raise ValueError("neither comma nor end after a member")
        at = skip(text, at + 1)


def _open(text: bytes) -> int:
    """Offset after the opening brace."""
    at = skip(text, 0)
    if text[at : at + 1] != b"{":
        raise ValueError("no object")
    return at + 1


def skip(text: bytes, at: int) -> int:
    """Offset of the first byte at or after this one that is no white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _string_end(text: bytes, at: int) -> int:
    """Offset after the string that begins at `at`."""
    end = text.find(b'"', at + 1)
    if end > 0 and text[end - 1] != _ESCAPE:  # the first quote is the string's own: the usual one
        return end + 1
    found = _STRING.match(text, at)
    if found is None:
        raise ValueError("an open string")
    return found.end()


def _value_end(text: bytes, at: int) -> int:
    first = text[at : at + 1]
    if first == b'"':
        return _string_end(text, at)
    if first not in (b"{", b"["):
        found = _SCALAR.match(text, at)
        if found is None:
            raise ValueError("no value")
        return found.end()
    depth = 0
    while True:
        mark = _STRUCTURE.search(text, at)
        if mark is None:
            raise ValueError("an open bracket")
        if mark[0] == b'"':
            at = _string_end(text, mark.start())
            continue
        depth += 1 if mark[0] in b"[{" else -1
        at = mark.end()
        if depth == 0:
            return at
