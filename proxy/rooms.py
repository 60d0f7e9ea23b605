"""What an exchange needs of the other rooms: plain functions, so that it names no dialect, no policy and no metric."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from proxy.client import Client, Headers
from proxy.config import Timeouts
from proxy.engine import Engine
from proxy.engines.runners import Rivals
from proxy.errors import ProxyError
from proxy.events import Said
from proxy.parts import Permit
from proxy.records import Finished, RequestFacts
from proxy.relay import Answer, Body
from proxy.tap import Hearing, Tap
from proxy.timeline import Recorder


class Filter(Protocol):
    """Edits an answer as declared: takes out what the client did not ask for, adds what it may be told."""

    def feed(self, data: bytes) -> bytes:
        """What may leave now."""
        ...

    def close(self) -> bytes:
        """What is left at the end."""
        ...


class Request(NamedTuple):
    """What goes to the engine: the client's own, changed only as declared."""

    headers: Headers
    body: Body
    own: bytes | None = None
    """The client's own body where `body` was spliced; it goes once if the engine refuses the spliced one."""
    asked: tuple[str, ...] = ()
    """What `body` asks for beside the client."""


class Passage(NamedTuple):
    """How an answer passes."""

    tap: Tap
    streamed: bool
    filter: Filter | None


class Ended(NamedTuple):
    """An exchange that is over: its record, and what the rooms learn from beside it."""

    engine: Engine
    key: str
    """By which the engine and its audit know the exchange."""
    facts: RequestFacts
    """With the prompt, which the record's do not hold."""
    finished: Finished
    said: Said
    rivals: Rivals
    """Those that may have been pushed out of memory for it."""


@dataclass(frozen=True, slots=True)
class Rooms:
    """What an exchange needs of the other rooms, as plain functions."""

    classify: Callable[[str, str], RequestFacts]
    """(method, path) -> what the route alone says."""
    authorize: Callable[[Client, RequestFacts], str | None]
    """The tenant's name. Raises BadKey, Forbidden."""
    buffers: Callable[[RequestFacts, Client], bool]
    """Is the body of this client's request read before dispatch?"""
    read: Callable[[RequestFacts, str, bytes], Awaitable[RequestFacts]]
    """(what the route says, content type, body) -> what the request says."""
    prepare: Callable[[Engine, RequestFacts, Client, str, Body, Permit], Awaitable[Request]]
    """The outgoing request."""
    timeouts: Callable[[RequestFacts], Timeouts]
    """The limits that hold for this request."""
    acquaint: Callable[[Engine, RequestFacts, Hearing], Awaitable[Sequence[int] | None]]
    """Work on a long prompt that must not hold the loop. The prompt in the engine's own tokens; empty: not known;
    None: its reuse cannot be predicted."""
    tap: Callable[[Answer, Sequence[str], RequestFacts, Recorder, Hearing], Passage]
    """The observer of an answer to a request that asked for these things beside the client, which hands on what the
    answer says, whether the answer is a stream, and what edits it."""
    reply: Callable[[Answer, Passage, Recorder, str, Headers], Headers]
    """The answer's headers, as the client gets them; the last are what a limited tenant is told."""
    refuse: Callable[[ProxyError, RequestFacts, Client, str, Headers], tuple[int, Headers, bytes]]
    """Our own error in the caller's dialect."""
    send: Callable[[Finished], None]
    """The one record of an exchange that chose no engine leaves."""
    leave: Callable[[Ended], None]
    """The one record of any other leaves, and the rooms learn from it."""
    fault: Callable[[str, BaseException], None]
    """Our own bug, for the log."""
