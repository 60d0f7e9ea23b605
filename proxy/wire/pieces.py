"""Reads that are pieces of an answer's text and say no more, looked at many at a time.

Most reads of a stream are, an event each. Their JSON is decoded in one call, by a type that fits nothing else, which
costs about half of what it costs one by one (`tests.bench.observe`); where one does not fit, all are read so.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from proxy.events import Framing, Reader
from proxy.wire.decoding import REFUSED
from proxy.wire.framing import Ndjson, Sse
from proxy.wire.ollama import Ollama
from proxy.wire.openai import OpenAi


class Delta(msgspec.Struct, gc=False, frozen=True):
    """OpenAI's, with text or reasoning alone."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    thinking: str | None = None
    tool_calls: None = None
    function_call: None = None


class Choice(msgspec.Struct, gc=False):
    """Choice 0 with such a delta, or with text of its own."""

    delta: Delta = Delta()
    text: str | None = None
    index: Literal[0] | None = 0
    finish_reason: Literal[""] | None = None
    token_ids: None = None
    logprobs: None = None
    meta_info: None = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk that says no more than that."""

    choices: tuple[Choice]
    usage: None = None
    metrics: None = None
    timings: None = None
    error: None = None

    def piece(self) -> str | None:
        """Its answer text; empty: reasoning; None: neither."""
        (choice,) = self.choices
        delta = choice.delta
        thought = delta.reasoning_content or delta.reasoning or delta.thinking
        return delta.content or choice.text or ("" if thought else None)


class Message(msgspec.Struct, gc=False, frozen=True):
    """Ollama's, with text or reasoning alone."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: None = None


class Line(msgspec.Struct, gc=False):
    """A line of a stream of Ollama that says no more than that."""

    message: Message = Message()
    response: str | None = None
    thinking: str | None = None
    done: Literal[False] | None = None
    total_duration: None = None
    error: None = None

    def piece(self) -> str | None:
        """Its answer text; empty: reasoning; None: neither."""
        answer = self.response or self.message.content
        return answer or ("" if self.thinking or self.message.thinking else None)


DECODERS: dict[type[Any], Callable[[bytes], list[Any]]] = {
    OpenAi: msgspec.json.Decoder(Chunk).decode_lines,
    Ollama: msgspec.json.Decoder(Line).decode_lines,
}
"""By reader: how lines of JSON become pieces."""


def texts_of(framing: Framing, reader: Reader) -> Callable[[Sequence[bytes]], Sequence[str]] | None:
    """Reads to the text of each, empty for reasoning, where each is one event that says no more than a piece of choice
    0's answer; else to nothing, and then nothing has changed. None: this answer's reads must be looked at one by one.
    """
    if not isinstance(framing, Sse | Ndjson) or not isinstance(reader, OpenAi | Ollama):
        return None
    decode = DECODERS[type(reader)]

    def texts(reads: Sequence[bytes]) -> Sequence[str]:
        lines = framing.lines(reads) if reader.plain else b""
        try:
            found = [one.piece() for one in decode(lines)]
        except REFUSED:
            return ()
        pieces = [piece for piece in found if piece is not None]
        return pieces if len(pieces) == len(found) == len(reads) else ()

    return texts
