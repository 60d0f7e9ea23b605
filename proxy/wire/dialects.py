"""The registry: what each dialect can do. A new dialect is one file, and one line here."""

from collections.abc import Callable
from typing import Any, NamedTuple

from proxy.errors import ProxyError
from proxy.events import NOTHING, Event, Frame, Reader
from proxy.records import RequestFacts
from proxy.wire import anthropic, llamacpp, ollama, openai, passthrough, responses, sglang
from proxy.wire.decoding import DONE, Unreadable
from proxy.wire.framing import says_json, streams


class Perhaps:
    """A body that does not say what it is: JSON of engines that do not care, or a page of whoever stands before them,
    in which there is no event to read."""

    # State: the reader's.
    __slots__ = ("_reader",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, frame: Frame) -> Event:
        """What it says, if it can be read."""
        try:
            return self._reader.read(frame)
        except Unreadable:
            return NOTHING

    def complete(self) -> bool:
        """As the reader says."""
        return self._reader.complete()


class Dialect(NamedTuple):
    """How one language is read and answered."""

    read_request: Callable[[RequestFacts, dict[str, Any]], RequestFacts]
    """Fills in what a body asks for; model, stream and options are there already."""
    reader: Callable[[RequestFacts, bool], Reader]
    """A reader for one answer; the flag says that it is a stream."""
    render_error: Callable[[ProxyError, int], dict[str, Any]]
    """The body of an error of ours with this status."""
    ends: tuple[bytes, ...] = ()
    """Bytes of which one stands in every terminal event of a stream."""


DIALECTS = {
    "openai": Dialect(openai.read_request, openai.OpenAi, openai.render_error, (DONE,)),
    "ollama": Dialect(ollama.read_request, ollama.Ollama, ollama.render_error),
    "llamacpp": Dialect(llamacpp.read_request, llamacpp.LlamaCpp, llamacpp.render_error, llamacpp.ENDS),
    "responses": Dialect(responses.read_request, responses.Responses, openai.render_error, responses.ENDS),
    "anthropic": Dialect(anthropic.read_request, anthropic.Anthropic, anthropic.render_error, (b"message_stop",)),
    "sglang": Dialect(sglang.read_request, sglang.SgLang, sglang.render_error, (DONE,)),
    "passthrough": Dialect(passthrough.read_request, passthrough.Passthrough, openai.render_error),
}


def dialect_of(name: str) -> Dialect:
    """The dialect of this name; what nobody knows is passed through."""
    return DIALECTS.get(name, DIALECTS["passthrough"])


def reader_for(facts: RequestFacts, content_type: str, status: int) -> Reader:
    """The reader of an answer; its content type, not the request, says whether it is a stream."""
    if status >= 400:
        return passthrough.Refusals()
    told_nothing = facts.route == "read" or status >= 300
    reader = dialect_of("passthrough" if told_nothing else facts.dialect).reader(facts, streams(content_type))
    return reader if streams(content_type) or says_json(content_type) else Perhaps(reader)
