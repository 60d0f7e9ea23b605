"""Answers that are not read: sizes and times are all that is known of them. And refusals, which all dialects have."""

from typing import Any

import msgspec

from proxy.events import NOTHING, Event, Frame
from proxy.records import RequestFacts
from proxy.wire.decoding import Shape, Unreadable
from proxy.wire.reports import complaint


def read_request(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    """No more than every body says."""
    return found


class Passthrough:
    """Reads nothing; the framing's end is the end."""

    __slots__ = ()

    def __init__(self, facts: RequestFacts, streamed: bool) -> None:
        pass

    def read(self, frame: Frame) -> Event:
        """Nothing."""
        return NOTHING

    def complete(self) -> bool:
        """Always."""
        return True


class Refusal(msgspec.Struct):
    """The members under which engines put the words of an error."""

    error: Any = None
    message: Any = None
    detail: Any = None


_REFUSAL = Shape(Refusal)


class Refusals:
    """Reads the body of a 4xx or 5xx, whatever its dialect."""

    __slots__ = ()

    def read(self, frame: Frame) -> Event:
        """The engine's message; of a body that is no JSON, its beginning."""
        try:
            said = _REFUSAL.read(frame.data)
        except Unreadable:
            return Event(error=complaint(frame.data.decode("utf-8", "replace").strip()))
        return Event(error=complaint(said.error or said.message or said.detail))

    def complete(self) -> bool:
        """Always."""
        return True
