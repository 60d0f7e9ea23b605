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
from collections.abc import Callable, Iterable, Sequence
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
    """Index of the message in the request whose content this is; -1: of none (frames, tools without a message)."""
    role: str = ""
    """Whose content this is; `tools` for the list of tools; empty for what frames a message."""


OPEN, CLOSE, LINE = Segment(START, MARKERS[START]), Segment(END, MARKERS[END]), Segment("\n")
ASSISTANT = Segment("assistant\n")
"""What frames every message: made once, for a long conversation has hundreds."""


def render(prompt: Prompt) -> tuple[Segment, ...]:
    """The segments of a chat prompt, or of the first raw prompt; empty where token ids are given."""
    if prompt.messages or prompt.tools:
        return tuple([segment for segment in _chat(prompt) if segment.text])
    return tuple(Segment(text, 0, 0, "prompt") for text in prompt.texts[:1] if text)


def text_of(segments: Iterable[Segment]) -> str:
    """The rendered prompt as one string; character positions refer to it."""
    return "".join(segment.text for segment in segments)


def _chat(prompt: Prompt) -> list[Segment]:
    tools = "\n\n# Tools\n" + "\n".join(prompt.tools) if prompt.tools else ""
    leads = bool(prompt.messages) and prompt.messages[0].role in LEADS
    segments: list[Segment] = []
    if tools and not leads:
        segments += (OPEN, Segment("system\n"), Segment(tools, 0, -1, "tools"), CLOSE, LINE)
    for index, message in enumerate(prompt.messages):
        segments += (OPEN, Segment(message.role + "\n"))
        _content(segments, index, message)
        if tools and leads and index == 0:
            segments.append(Segment(tools, 0, 0, "tools"))
        segments += (CLOSE, LINE)
    segments += (OPEN, ASSISTANT)
    return segments


def _content(segments: list[Segment], index: int, message: Message) -> None:
    text = ""
    for part in message.parts:
        if part.kind == "text":
            text += part.text
        elif part.kind == "image":
            digest = sha256(part.text.encode("utf-8", "surrogatepass")).hexdigest()
            segments.append(Segment(text, 0, index, message.role))
            segments.append(Segment(IMAGE, MARKERS[IMAGE], index, message.role))
            segments.append(Segment(digest * 4, 0, index, message.role))
            text = ""
    if message.calls:
        text += ("\n" if text else "") + "\n".join(map(_call, message.calls))
    segments.append(Segment(text, 0, index, message.role))


def _call(call: Call) -> str:
    name = json.dumps(call.name, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {name}, "arguments": {call.arguments}}}\n</tool_call>'
