"""What is said on the wire, dialect-free: the words between framing, readers and the recorder."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from proxy.records import EngineReport, Usage

MOST_CHOICES = 65_536
"""Choices of one answer that are told apart: prompts times choices of one request, far above any batch. Engines may
write any number, and what is kept of each would have no end."""


class Frame(NamedTuple):
    """One complete unit of a framed body: an SSE event with a data field, an NDJSON line, or a whole JSON body."""

    data: bytes
    """SSE: the data lines joined with LF."""
    name: bytes = b""
    """SSE: the event field."""


class Event(NamedTuple):
    """What one frame says. The default says nothing: a ping, a role, a comment's neighbour."""

    tokens: tuple[int, ...] = ()
    """Choices with generated output in this event (white space counts). Never filled for a body that is no stream."""
    reasoning: bool = False
    """All of that output is reasoning."""
    text: str = ""
    """Answer text of all choices, reasoning not included. Handed on, never stored."""
    finish: tuple[tuple[int, str], ...] = ()
    """Choices that ended here, each with its reason."""
    usage: Usage | None = None
    report: EngineReport | None = None
    error: str | None = None
    """An error that came in the body: its kind in the engine's own short word, or empty; never its message."""
    done: bool = False
    """The dialect's terminal event."""
    role: bool = False
    """A role without output."""
    counted: int | None = None
    """Output tokens in this event, where the engine counts them on each; None: not said."""
    ids: tuple[int, ...] = ()
    """Token ids of choice 0's output, where the client asked for them. Handed on, never stored."""


LONG_TOKEN = 8
"""Characters that a token of plain text has at most, taken over a whole answer: vocabularies of 32 k to 256 k tokens
have 3 to 5."""


class Said(NamedTuple):
    """An answer, as far as it was seen. Handed on, never stored."""

    text: str = ""
    ids: tuple[int, ...] = ()
    """The same as token ids, where they were asked for; empty: not known."""
    prompt: bytes = b""
    """The prompt's token ids as the engine says them, in JSON; empty: not said, or nothing that was not known."""

    @property
    def tokens(self) -> int:
        """Tokens that this is at least."""
        return max(len(self.ids), len(self.text) // LONG_TOKEN)


NOTHING = Event()


class Framing(Protocol):
    """Bytes of one body to frames; `wire.framing` has them."""

    overflowed: bool
    """A frame was over the limit: observing stopped."""

    @property
    def bite(self) -> int:
        """Bytes that it takes in a millisecond, whatever they are."""
        ...

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes; the frames that they complete."""
        ...

    def close(self) -> Iterable[list[Frame]]:
        """The body ended in due form; what was open counts as complete. In bites, where that is much."""
        ...


class Reader(Protocol):
    """Frames of one answer to events, with state: one reader an answer; `wire.dialects` has them."""

    def read(self, frame: Frame) -> Event:
        """What the frame says; raises `Unreadable` (a ValueError) where it cannot be read."""
        ...

    def complete(self) -> bool:
        """The framing ended cleanly: has the dialect's own end been seen?"""
        ...
