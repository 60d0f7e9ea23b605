"""llama.cpp's native completion and infill. Several prompts give several results: a list, or events by index."""

from typing import Any

import msgspec

from proxy.events import NOTHING, Event, Frame
from proxy.records import RequestFacts, Usage
from proxy.wire.counting import RunningCount
from proxy.wire.decoding import DONE, Shape, blank, loads
from proxy.wire.errors import complaint
from proxy.wire.fields import count
from proxy.wire.reports import completed, known, llamacpp_report, llamacpp_usage


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


class LlamaCpp:
    """Reads the frames of one answer."""

    # State: the running count, prompts seen and prompts that have stopped.
    __slots__ = ("_covers_all", "_generates", "_running", "_seen", "_stopped", "_streamed")

    def __init__(self, facts: RequestFacts, streamed: bool) -> None:
        self._streamed = streamed
        self._generates = facts.kind in ("completion", "infill")
        self._covers_all = facts.n == 1 and facts.prompts == 1
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
        stopped = bool(self._seen) and self._seen <= self._stopped
        return stopped or not (self._streamed and self._generates)

    def _several(self, data: bytes) -> Event:
        """A list of results: all texts and ends; the figures of one alone would be taken for the whole."""
        events = [self._event(_RESULT.of(each)) for each in loads(data) if isinstance(each, dict)]
        return Event(
            text="".join(event.text for event in events),
            finish=tuple(end for event in events for end in event.finish),
            done=any(event.done for event in events),
        )

    def _event(self, result: Result) -> Event:
        self._seen.add(result.index)
        text = result.content or ""
        rise = self._running.rise(result.index, count(result.tokens_predicted)) if self._running.live else None
        wrote = bool(text) and self._streamed if rise is None else rise > 0
        tokens = (result.index,) if wrote else ()
        event = Event(tokens, text=text, counted=rise or None)
        return self._stop(event, result) if result.stop else event

    def _stop(self, event: Event, result: Result) -> Event:
        self._stopped.add(result.index)
        stated = known(Usage(count(result.tokens_evaluated), count(result.tokens_predicted)))
        return event._replace(
            finish=((result.index, result.stop_type or "stop"),),
            usage=completed(completed(None, llamacpp_usage(result.timings)), stated or Usage()),
            report=llamacpp_report(result.timings, self._covers_all),
            done=True,
        )
