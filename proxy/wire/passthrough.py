"""Answers that are not read: sizes and times are all that is known of them. And refusals, which all dialects have."""

from typing import Any

import msgspec

from proxy.events import NOTHING, Event, Frame
from proxy.records import Prompt, RequestFacts
from proxy.wire.decoding import Shape, Unreadable
from proxy.wire.fields import first_given, items
from proxy.wire.prompts import chat_prompt, raw_prompt
from proxy.wire.reports import complaint


def read_request(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    """The prompt, wherever such a body may have it, so that no prompt goes uncounted; batches hold lists of chats."""
    chats = [each if isinstance(each, list) else [each] for each in items(asked.get("messages"))]
    if chats:
        several = sum(isinstance(each, list) for each in items(asked.get("messages")))
        prompt = chat_prompt({**asked, "messages": [message for chat in chats for message in chat]})
        return found._replace(prompts=max(several, 1), prompt=prompt)
    prompt, prompts = raw_prompt(first_given(asked, "prompt", "input", "inputs", "text", "token_ids"))
    return found._replace(prompts=prompts, prompt=None if prompt == Prompt() else prompt)


class Passthrough:
    """Reads nothing; the framing's end is the end."""

    __slots__ = ()

    def __init__(self, facts: RequestFacts, streamed: bool) -> None:
        pass

    def read(self, frame: Frame) -> Event:
        """Nothing."""
        return NOTHING

    def complete(self) -> bool:
        """Always."""
        return True


class Refusal(msgspec.Struct):
    """The members under which engines put the kind of an error."""

    error: Any = None
    detail: Any = None
    type: Any = None
    error_type: Any = None
    code: Any = None


_REFUSAL = Shape(Refusal)


class Refusals:
    """Reads the body of a 4xx or 5xx, whatever its dialect."""

    __slots__ = ()

    def read(self, frame: Frame) -> Event:
        """The kind of the error; of a body that is no JSON, that it is one."""
        try:
            said = _REFUSAL.read(frame.data)
        except Unreadable:
            return Event(error="")
        return Event(error=complaint(msgspec.structs.asdict(said)))

    def complete(self) -> bool:
        """Always."""
        return True
