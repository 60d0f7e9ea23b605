"""Canonical rendering of a prompt: the one text that chains, families and breakers speak of ("canon 1").

A prompt becomes segments: special markers, one token each, and pieces of text. The text of the prompt is all segments
joined; its tokens are the tokens of the segments one after the other, every text segment being tokenised on its own, so
that no token spans two segments and the work for a segment seen before can be kept.

* A raw prompt (completions, generate with `raw`) is one text segment; a prompt given as token ids has none.
* Each chat message is `<|im_start|>`, role and a line feed, content, `<|im_end|>`, a line feed; after the last one
  stands `<|im_start|>` and `assistant` and a line feed.
* Content is its text parts joined. An image ends the text segment and is `<|image|>` and the SHA-256 of its URL or data
  in lower-case hex, four times.
* Tool calls follow the last text of their message after a line feed, one `<tool_call>` element each.
* Tools stand in a segment of their own after the content of the first message if that is a system message, else in a
  system message put in front of all.
* Nothing else is rendered. Empty segments vanish.

This is no engine's own template. It is the same for the same prompt, it keeps every order, and it differs where the
engine's text differs; for whole-token agreement with an engine its own token ids can be given instead.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from proxy.records import Call, Message, Prompt

Encode = Callable[[str], Sequence[int]]
"""Text to token ids, ordinary encoding: special tokens inside the text are plain text."""

START, END, IMAGE = "<|im_start|>", "<|im_end|>", "<|image|>"
MARKERS = {START: 100264, END: 100265, IMAGE: 100266}
"""Ids behind the last of cl100k_base (100,260), so that no text can produce them."""

LEADS = ("system", "developer")
"""Roles of a message that takes the tools."""


class Segment(NamedTuple):
    """One piece of a rendered prompt (a tuple: a request has dozens, and the hot path makes them all)."""

    text: str
    marker: int = 0
    """Token id of a special marker; 0: plain text."""
    message: int = -1
    """Index of the message in the request; -1: in none (the generation prompt, a system message made for tools)."""
    role: str = ""
    """Whose content this is; `tools` for the list of tools; empty for what frames a message."""


def render(prompt: Prompt) -> tuple[Segment, ...]:
    """The segments of a chat prompt, or of the first raw prompt; empty where token ids are given."""
    if prompt.messages or prompt.tools:
        return tuple(segment for segment in _chat(prompt) if segment.text)
    return tuple(Segment(text, 0, 0, "prompt") for text in prompt.texts[:1] if text)


def text_of(segments: Iterable[Segment]) -> str:
    """The rendered prompt as one string; character positions refer to it."""
    return "".join(segment.text for segment in segments)


def tokens_of(segments: Iterable[Segment], encode: Encode) -> list[int]:
    """The token ids of the rendered prompt."""
    ids: list[int] = []
    for segment in segments:
        if segment.marker:
            ids.append(segment.marker)
        else:
            ids.extend(encode(segment.text))
    return ids


def _chat(prompt: Prompt) -> Iterator[Segment]:
    tools = "\n\n# Tools\n" + "\n".join(prompt.tools) if prompt.tools else ""
    leads = bool(prompt.messages) and prompt.messages[0].role in LEADS
    if tools and not leads:
        yield from _frame(-1, "system", [Segment(tools, 0, -1, "tools")])
    for index, message in enumerate(prompt.messages):
        content = list(_content(index, message))
        if tools and leads and index == 0:
            content.append(Segment(tools, 0, 0, "tools"))
        yield from _frame(index, message.role, content)
    yield Segment(START, MARKERS[START])
    yield Segment("assistant\n")


def _frame(index: int, role: str, content: Iterable[Segment]) -> Iterator[Segment]:
    yield Segment(START, MARKERS[START], index)
    yield Segment(role + "\n", 0, index)
    yield from content
    yield Segment(END, MARKERS[END], index)
    yield Segment("\n", 0, index)


def _content(index: int, message: Message) -> Iterator[Segment]:
    text = ""
    for part in message.parts:
        if part.kind == "text":
            text += part.text
        elif part.kind == "image":
            yield Segment(text, 0, index, message.role)
            yield Segment(IMAGE, MARKERS[IMAGE], index, message.role)
            yield Segment(sha256(part.text.encode("utf-8", "surrogatepass")).hexdigest() * 4, 0, index, message.role)
            text = ""
    calls = "\n".join(map(_call, message.calls))
    yield Segment(text + ("\n" if text and calls else "") + calls, 0, index, message.role)


def _call(call: Call) -> str:
    name = json.dumps(call.name, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {name}, "arguments": {call.arguments}}}\n</tool_call>'
