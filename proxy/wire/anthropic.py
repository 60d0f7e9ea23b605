"""Anthropic's messages, as vLLM, Ollama and llama.cpp speak them. Thinking blocks are reasoning."""

from typing import Any

import msgspec

from proxy.errors import ProxyError
from proxy.events import NOTHING, Event, Frame
from proxy.records import RequestFacts, Usage
from proxy.wire.decoding import DONE, Shape, blank
from proxy.wire.fields import output_limit
from proxy.wire.prompts import chat_prompt
from proxy.wire.reports import anthropic_usage, complaint, completed


class Delta(msgspec.Struct, gc=False):
    """A piece of a content block, or the end of the message."""

    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class Block(msgspec.Struct, gc=False):
    """A content block as it begins, or whole."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    name: str | None = None


class Started(msgspec.Struct, gc=False):
    """The message as it begins."""

    usage: Any = None


class Said(msgspec.Struct, gc=False):
    """One event, or a whole message."""

    type: str = ""
    delta: Delta | None = None
    content_block: Block | None = None
    content: list[Block] | None = None
    message: Started | None = None
    stop_reason: str | None = None
    usage: Any = None
    error: Any = None


_SAID = Shape(Said)


def read_request(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    """What a body of Anthropic asks for."""
    prompt = chat_prompt(asked, asked.get("system"))
    return found._replace(max_output=output_limit(asked.get("max_tokens")), prompt=prompt)


_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def render_error(error: ProxyError, status: int) -> dict[str, Any]:
    """Anthropic's typed pair."""
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": str(error)}}


class Anthropic:
    """Reads the frames of one answer."""

    # State: usage as the message began, which is kept back (Ollama's is a guess), and whether the end has come.
    __slots__ = ("_begun", "_ended", "_streamed")

    def __init__(self, facts: RequestFacts, streamed: bool) -> None:
        self._streamed = streamed
        self._begun: Usage | None = None
        self._ended = False

    def read(self, frame: Frame) -> Event:
        """What one event, or the whole body, says. Raises `Unreadable`."""
        if blank(frame.data) or frame.data.startswith(DONE):
            return NOTHING
        said = _SAID.read(frame.data)
        if said.error:
            return Event(error=complaint(said.error))
        return self._event(said) if self._streamed else _whole(said)

    def complete(self) -> bool:
        """`message_stop`; what is no stream is complete as it ends."""
        return self._ended or not self._streamed

    def _event(self, said: Said) -> Event:
        if said.delta is not None and said.type == "content_block_delta":
            return _piece(said.delta)
        if said.content_block is not None:
            return _opened(said.content_block)
        if said.type == "message_start":
            self._begun = anthropic_usage(said.message.usage) if said.message else None
            return Event(role=True)
        if said.type == "message_delta":
            return self._closing(said)
        self._ended = self._ended or said.type == "message_stop"
        return Event(done=True) if said.type == "message_stop" else NOTHING

    def _closing(self, said: Said) -> Event:
        reason = said.delta.stop_reason if said.delta else None
        usage = anthropic_usage(said.usage)
        if usage is not None and usage.prompt_tokens is None and self._begun is not None:
            usage = completed(usage, self._begun)
        return Event(finish=((0, reason),) if reason else (), usage=usage)


def _piece(delta: Delta) -> Event:
    if delta.text:
        return Event((0,), text=delta.text)
    if delta.thinking:
        return Event((0,), reasoning=True)
    return Event((0,)) if delta.partial_json else NOTHING


def _opened(block: Block) -> Event:
    """A tool call begins with its name; other blocks begin empty as a rule."""
    if block.name:
        return Event((0,))
    return _piece(Delta(block.text, block.thinking))


def _whole(said: Said) -> Event:
    return Event(
        text="".join(block.text or "" for block in said.content or ()),
        finish=((0, said.stop_reason),) if said.stop_reason else (),
        usage=anthropic_usage(said.usage),
    )
