"""Ollama's generate, chat and embed, its progress lines, and look-alikes without counters."""

from typing import Any

from proxy.errors import ProxyError
from proxy.events import NOTHING, Event, Frame
from proxy.records import RequestFacts
from proxy.wire.decoding import Shape, blank
from proxy.wire.fields import first_given, mapping, output_limit
from proxy.wire.openai import Output, calls_any, spoken
from proxy.wire.prompts import EMBEDDED, chat_prompt, generate_prompt, raw_prompt
from proxy.wire.reports import OllamaCounters, complaint, ollama_report, ollama_usage


class Line(OllamaCounters):
    """One line of a stream, or a whole body."""

    message: Output | None = None
    response: str | None = None
    thinking: str | None = None
    done: bool | None = None
    done_reason: str | None = None
    error: object = None


_LINE = Shape(Line)
_EMPTY = Output()


def read_request(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    """What a body of Ollama asks for."""
    prompts = 1
    if found.kind == "chat":
        prompt = chat_prompt(asked)
    elif found.kind == "generate":
        prompt = generate_prompt(asked)
    else:
        prompt, prompts = raw_prompt(first_given(asked, *EMBEDDED))
    limit = output_limit(mapping(asked.get("options")).get("num_predict"))
    return found._replace(prompts=prompts, max_output=limit, prompt=prompt)


def render_error(error: ProxyError, status: int) -> dict[str, Any]:
    """Ollama's string."""
    return {"error": str(error)}


class Ollama:
    """Reads the frames of one answer."""

    plain = True
    """A piece of text changes nothing of its state."""

    # State: nothing; every line stands for itself.
    __slots__ = ("_generates", "_streamed")

    def __init__(self, facts: RequestFacts, streamed: bool) -> None:
        self._streamed = streamed
        self._generates = facts.kind in ("chat", "generate")

    def read(self, frame: Frame) -> Event:
        """What one line, or the whole body, says. Raises `Unreadable`."""
        if blank(frame.data):
            return NOTHING
        line = _LINE.read(frame.data)
        if line.error:
            return Event(error=complaint(line.error))
        message = line.message or _EMPTY
        answer = line.response or spoken(message)
        calls = calls_any(message.tool_calls)
        thought = bool(line.thinking or message.thinking)
        spoke = bool(answer) or calls or thought
        tokens = (0,) if spoke and self._streamed else ()
        reasoning = thought and not answer and not calls and self._streamed
        event = tuple.__new__(Event, (tokens, reasoning, answer, (), None, None, None, False, False, None, ()))
        return self._last(event, line) if line.done or line.total_duration is not None else event

    def complete(self) -> bool:
        """Always: `done: true` ends an answer, and so does a clean close, as after its repeat guard."""
        return True

    def _last(self, event: Event, line: Line) -> Event:
        return event._replace(
            finish=((0, line.done_reason),) if line.done_reason else (),
            usage=ollama_usage(line),
            report=ollama_report(line, self._generates),
            done=bool(line.done),
        )
