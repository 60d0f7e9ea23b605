"""llama.cpp's native completion and infill. Several prompts give several results: a list, or events by index."""

from typing import Any

import msgspec

from proxy.errors import ProxyError
from proxy.events import MOST_CHOICES, NOTHING, Event, Frame
from proxy.records import RequestFacts, Usage
from proxy.wire.counting import RunningCount
from proxy.wire.decoding import DONE, Shape, blank
from proxy.wire.fields import choice_count, count, first_given, output_limit
from proxy.wire.openai import OUTPUT_LIMITS
from proxy.wire.prompts import EMBEDDED, infill_prompt, raw_prompt
from proxy.wire.reports import complaint, completed, llamacpp_report, llamacpp_usage


class Result(msgspec.Struct, gc=False):
    """One event of a stream, or a whole result. `tokens_evaluated` is the whole prompt, what was reused included."""

    index: int = 0
    content: str | None = None
    stop: bool | None = None
    stop_type: str | None = None
    tokens_predicted: Any = None
    tokens_evaluated: Any = None
    timings: Any = None
    error: Any = None


_RESULT = Shape(Result)
ENDS = (b'"stop":true', b'"stop": true')


def read_request(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    """What a native body of llama.cpp asks for."""
    prompt, prompts = infill_prompt(asked), 1
    if found.kind != "infill":
        prompt, prompts = raw_prompt(first_given(asked, *(EMBEDDED if found.kind == "embed" else ("prompt",))))
    return found._replace(
        n=choice_count(asked.get("n_cmpl", asked.get("n"))),
        prompts=prompts,
        max_output=output_limit(*map(asked.get, OUTPUT_LIMITS)),
        prompt=prompt,
    )


_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    501: "not_supported_error",
    503: "unavailable_error",
}


def render_error(error: ProxyError, status: int) -> dict[str, Any]:
    """llama.cpp's object: the code is the status."""
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    if error.code == "context_length_exceeded":
        kind = "exceed_context_size_error"
    return {"error": {"code": status, "message": str(error), "type": kind}}


class LlamaCpp:
    """Reads the frames of one answer."""

    # State: the running count, prompts seen and prompts that have stopped.
    __slots__ = ("_asked", "_generates", "_running", "_seen", "_stopped", "_streamed")

    def __init__(self, facts: RequestFacts, streamed: bool) -> None:
        self._streamed = streamed
        self._generates = facts.kind in ("completion", "infill")
        self._asked = facts.n * facts.prompts
        self._running = RunningCount(streamed)
        self._seen: set[int] = set()
        self._stopped: set[int] = set()

    def read(self, frame: Frame) -> Event:
        """What one event, or the whole body, says. Raises `Unreadable`."""
        data = frame.data
        if blank(data) or data.startswith(DONE):
            return NOTHING
        if data.startswith(b"["):
            return self._several(data)
        result = _RESULT.read(data)
        return Event(error=complaint(result.error)) if result.error else self._event(result)

    def complete(self) -> bool:
        """`stop: true` for every prompt; what is no stream of tokens is complete as it ends."""
        stopped = len(self._stopped) >= self._asked and self._seen <= self._stopped
        return stopped or not (self._streamed and self._generates)

    def _several(self, data: bytes) -> Event:
        """A list of results: all texts and ends; the figures of one alone would be taken for the whole."""
        events = [self._event(result) for result in _RESULT.several(data)]
        return Event(
            text="".join(event.text for event in events),
            finish=tuple(end for event in events for end in event.finish),
            done=any(event.done for event in events),
        )

    def _event(self, result: Result) -> Event:
        index = result.index % MOST_CHOICES
        self._seen.add(index)
        text = result.content or ""
        rise = None
        if self._running.live:
            rise = self._running.rise(index, count(result.tokens_predicted), bool(text))
        wrote = bool(text) and self._streamed if rise is None else rise > 0
        tokens = (index,) if wrote else ()
        event = Event(tokens, text=text, counted=rise or None)
        return self._stop(event, index, result) if result.stop else event

    def _stop(self, event: Event, index: int, result: Result) -> Event:
        self._stopped.add(index)
        stated = Usage(count(result.tokens_evaluated), count(result.tokens_predicted))
        return event._replace(
            finish=((index, result.stop_type or "stop"),),
            usage=completed(llamacpp_usage(result.timings), stated),
            report=llamacpp_report(result.timings, self._asked == 1),
            done=True,
        )
