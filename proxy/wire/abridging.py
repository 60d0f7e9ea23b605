"""A JSON body that is too long to be held: the members that stand whole at its beginning and at its end.

Engines put their figures before or behind the long part, a batch of embeddings or the log-probabilities of a prompt,
and seldom inside it. The long part itself is not looked at.
"""

import contextlib
import re

import msgspec

from proxy.wire.splicing import members

EDGE = 4 * 1024
"""Bytes kept at each end; an engine's figures, with a model's name and a fingerprint, have under 2 KB."""

TRIED = 32
"""Places at which members of the outermost object may begin, from the end on; usage and its details have some ten."""

_NEXT = re.compile(rb',[ \t\r\n]*"')


class Ends:
    """The two ends of a body, however long it is."""

    # State: the first bytes, until they are `EDGE`, and the last.
    __slots__ = ("_head", "_tail")

    def __init__(self) -> None:
        self._head = self._tail = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if len(self._head) < EDGE:
            self._head += data[: EDGE - len(self._head)]
        self._tail = (self._tail + data[-EDGE:])[-EDGE:]

    def abridged(self) -> bytes | None:
        """An object of the members that are whole at both ends; None where there are none, or it is no object."""
        found = [part for part in (_leading(self._head), _trailing(self._tail)) if part]
        return b"{%b}" % b",".join(found) if found else None


def _leading(text: bytes) -> bytes:
    """The members before the first that is cut, or that may be: a number is whole only with a comma behind it."""
    begin = end = 0
    with contextlib.suppress(ValueError):
        for member in members(text):
            if not text[member.end :].lstrip().startswith(b","):
                break
            begin, end = begin or text.index(b"{") + 1, member.end
    return text[begin:end]


def _trailing(text: bytes) -> bytes:
    """The longest end of the text that is members of the outermost object: where its brackets close as they opened."""
    text = text.rstrip()
    found = b""
    for begin in [match.start() + 1 for match in _NEXT.finditer(text)][: -TRIED - 1 : -1]:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            msgspec.json.decode(b"{" + text[begin:], type=dict[str, msgspec.Raw])
            found = text[begin:-1]
    return found
