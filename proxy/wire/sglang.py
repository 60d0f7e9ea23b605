"""SGLang's native generate. Text is cumulative unless the server says otherwise; counts are in `meta_info`."""

from typing import Any

import msgspec

from proxy.errors import ProxyError
from proxy.events import MOST_CHOICES, NOTHING, Event, Frame
from proxy.records import RequestFacts
from proxy.wire.counting import RunningCount
from proxy.wire.decoding import DONE, Shape, blank
from proxy.wire.fields import choice_count, count, first_given, mapping, objects, output_limit, string
from proxy.wire.prompts import raw_prompt
from proxy.wire.reports import complaint, sglang_report, sglang_usage


class Generated(msgspec.Struct, gc=False):
    """One event of a stream, or a whole result."""

    index: int = 0
    text: str | None = None
    meta_info: Any = None
    error: Any = None


_GENERATED = Shape(Generated)

TEXTS = 64
"""Choices of which the text so far is kept, up to an event's size each: few ask for more than 8."""


def read_request(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    """What a native body of SGLang asks for."""
    sampling = asked.get("sampling_params")
    several = objects(sampling) or [mapping(sampling)]
    prompt, prompts = raw_prompt(first_given(asked, "text", "input_ids"))
    return found._replace(
        n=choice_count(several[0].get("n")),
        prompts=prompts,
        max_output=output_limit(*(each.get("max_new_tokens") for each in several)),
        prompt=prompt,
    )


def render_error(error: ProxyError, status: int) -> dict[str, Any]:
    """SGLang's flat object."""
    return {"object": "error", "message": str(error), "type": error.type, "param": error.param, "code": status}


class SgLang:
    """Reads the frames of one answer."""

    # State: the text so far of each choice while texts are cumulative, the running count, choices that have
    # finished, and whether [DONE] has come.
    __slots__ = ("_asked", "_cumulative", "_done", "_finished", "_running", "_streamed", "_texts")

    def __init__(self, facts: RequestFacts, streamed: bool) -> None:
        self._streamed = streamed
        self._asked = facts.n * facts.prompts
        self._running = RunningCount(streamed)
        self._texts: dict[int, str] = {}
        self._cumulative = True
        self._finished: set[int] = set()
        self._done = False

    def read(self, frame: Frame) -> Event:
        """What one event, or the whole body, says. Raises `Unreadable`."""
        data = frame.data
        if data.startswith(DONE):
            self._done = True
            return Event(done=True)
        if blank(data):
            return NOTHING
        if data.startswith(b"["):
            return self._several(data)
        said = _GENERATED.read(data)
        return Event(error=complaint(said.error)) if said.error else self._event(said)

    def complete(self) -> bool:
        """[DONE], or a finish reason for every choice; what is no stream is complete as it ends."""
        return self._done or len(self._finished) >= self._asked or not self._streamed

    def _several(self, data: bytes) -> Event:
        """A list of results: all texts and ends; the figures of one alone would be taken for the whole."""
        events = [self._event(said) for said in _GENERATED.several(data)]
        return Event(
            text="".join(event.text for event in events),
            finish=tuple(end for event in events for end in event.finish),
        )

    def _event(self, said: Generated) -> Event:
        info, index = mapping(said.meta_info), said.index % MOST_CHOICES
        text = self._news(index, said.text or "")
        rise = None
        if self._running.live:
            rise = self._running.rise(index, count(info.get("completion_tokens")), bool(text))
        wrote = bool(text) and self._streamed if rise is None else rise > 0
        tokens = (index,) if wrote else ()
        event = Event(tokens, text=text, usage=sglang_usage(info), counted=rise or None)
        return self._finish(event, index, info) if info.get("finish_reason") else event

    def _finish(self, event: Event, index: int, info: dict[str, Any]) -> Event:
        self._finished.add(index)
        stated = info["finish_reason"]
        reason = string(stated) or string(mapping(stated).get("type")) or "stop"
        return event._replace(
            finish=((index, reason),),
            report=sglang_report(info, self._asked == 1),
            error=complaint(stated) if reason == "abort" else None,
        )

    def _news(self, index: int, text: str) -> str:
        """What is new in a text that holds all before it; from the first that does not, and of choices above `TEXTS`,
        texts are taken as they are."""
        if index not in self._texts and len(self._texts) >= TEXTS:
            return text
        before = self._texts.get(index, "")
        if not text or not self._cumulative or not text.startswith(before):
            self._cumulative = self._cumulative and not text
            return text
        self._texts[index] = text
        return text[len(before) :]
