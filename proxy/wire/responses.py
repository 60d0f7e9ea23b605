"""OpenAI's Responses, as vLLM, Ollama and llama.cpp speak them."""

from typing import Any

import msgspec

from proxy.events import NOTHING, Event, Frame
from proxy.records import RequestFacts
from proxy.wire.decoding import DONE, MOST, Shape, blank, loads_short
from proxy.wire.fields import items, mapping, objects, output_limit, text
from proxy.wire.openai import OUTPUT_LIMITS
from proxy.wire.prompts import responses_prompt
from proxy.wire.reports import complaint, completed, llamacpp_report, llamacpp_usage, responses_usage, vllm_report

_ANSWERS = "response.output_text.delta"
_CALLS = frozenset({"response.function_call_arguments.delta", "response.mcp_call_arguments.delta"})
_REASONS = frozenset(
    {"response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.reasoning.delta"}
)
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
ENDS = tuple(end.encode() for end in sorted(_ENDS))


class Said(msgspec.Struct, gc=False):
    """One event, or a whole response."""

    type: str = ""
    delta: str | None = None
    item: Any = None
    response: Any = None
    timings: Any = None
    code: Any = None
    error: Any = None


_SAID = Shape(Said)


def read_request(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    """What a body of Responses asks for."""
    names = tuple([name for name in ("max_output_tokens", *OUTPUT_LIMITS) if asked.get(name) is not None])
    limit = output_limit(*map(asked.get, names))
    return found._replace(max_output=limit, prompt=responses_prompt(asked), output_names=names)


class Responses:
    """Reads the frames of one answer."""

    # State: whether the end has come.
    __slots__ = ("_ended", "_streamed")

    def __init__(self, facts: RequestFacts, streamed: bool) -> None:
        self._streamed = streamed
        self._ended = False

    def read(self, frame: Frame) -> Event:
        """What one event, or the whole body, says. Raises `Unreadable`."""
        if blank(frame.data) or frame.data.startswith(DONE):
            return NOTHING
        if not self._streamed:
            return _whole(mapping(loads_short(frame.data)), None)
        said = _SAID.read(frame.data)
        if said.error or said.type == "error":
            return Event(error=complaint(said.error or {"code": said.code}))
        if said.delta is not None:
            return _piece(said)
        if said.type in _ENDS:
            self._ended = True
            return _whole(mapping(said.response), said.timings)._replace(text="", done=True)
        return _called(said.item) if said.type == "response.output_item.added" else NOTHING

    def complete(self) -> bool:
        """`response.completed`, `.incomplete` or `.failed`; what is no stream is complete as it ends."""
        return self._ended or not self._streamed


def _piece(said: Said) -> Event:
    if not said.delta:
        return NOTHING
    if said.type == _ANSWERS:
        return Event((0,), text=said.delta)
    if said.type in _REASONS:
        return Event((0,), reasoning=True)
    return Event((0,)) if said.type in _CALLS else NOTHING


def _called(item: object) -> Event:
    """A call begins with its name."""
    return Event((0,)) if mapping(item).get("type") == "function_call" and mapping(item).get("name") else NOTHING


def _whole(response: dict[str, Any], beside: object) -> Event:
    """What a finished response says. llama.cpp's `timings` stand beside it in a stream, inside it in a body."""
    timings = beside if beside is not None else response.get("timings")
    metrics = response.get("metrics")
    usage = responses_usage(response.get("usage"), trusted=timings is not None or metrics is not None)
    error = response.get("error")
    return Event(
        text="".join(_texts(response)),
        finish=_finish(response),
        usage=completed(usage, llamacpp_usage(timings)),
        report=llamacpp_report(timings, True) or vllm_report(metrics, True),
        error=complaint(error) if error else None,
    )


def _finish(response: dict[str, Any]) -> tuple[tuple[int, str], ...]:
    """Why it ended: the reason where it is incomplete, else its status."""
    reason = text(mapping(response.get("incomplete_details")).get("reason")) or text(response.get("status"))
    return ((0, reason),) if reason else ()


def _texts(response: dict[str, Any]) -> list[str]:
    output = objects(items(response.get("output"))[:MOST])
    parts = (part for item in output for part in objects(items(item.get("content"))[:MOST]))
    return [text(part.get("text")) for part in parts if part.get("type") == "output_text"]
