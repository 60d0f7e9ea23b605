"""The registry: which reader an answer gets. A new dialect is one file, and one line here."""

from collections.abc import Callable
from typing import Protocol

from proxy.events import Event, Frame
from proxy.records import RequestFacts
from proxy.wire.anthropic import Anthropic
from proxy.wire.framing import streams
from proxy.wire.llamacpp import LlamaCpp
from proxy.wire.ollama import Ollama
from proxy.wire.openai import OpenAi
from proxy.wire.passthrough import Passthrough, Refused
from proxy.wire.responses import Responses
from proxy.wire.sglang import SgLang


class Reader(Protocol):
    """Frames of one answer to events. It has state: one reader an answer."""

    def read(self, frame: Frame) -> Event:
        """What the frame says; raises `Unreadable` (a ValueError) where it cannot be read."""
        ...

    def complete(self) -> bool:
        """The framing ended cleanly: has the dialect's own end been seen?"""
        ...


READERS: dict[str, Callable[[RequestFacts, bool], Reader]] = {
    "openai": OpenAi,
    "ollama": Ollama,
    "llamacpp": LlamaCpp,
    "responses": Responses,
    "anthropic": Anthropic,
    "sglang": SgLang,
    "passthrough": Passthrough,
}


def reader_for(facts: RequestFacts, content_type: str, status: int) -> Reader:
    """The reader of an answer; its content type, not the request, says whether it is a stream."""
    if status >= 400:
        return Refused()
    make = Passthrough if facts.route == "read" else READERS.get(facts.dialect, Passthrough)
    return make(facts, streams(content_type))
