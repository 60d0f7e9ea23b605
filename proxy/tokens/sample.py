"""A prompt as the regression reads it: one number per thing that can cost tokens."""

from typing import NamedTuple

from proxy.records import Prompt
from proxy.tokens.shapes import Shape

FEATURES = (
    *Shape._fields,
    "tool_tokens",
    "tools",
    "has_tools",
    "call_tokens",
    "calls",
    "messages",
    "chat",
    "no_system",
    "raw",
    "generate",
)
"""Names of a sample's numbers, in order. The first speak of text. The rest speak of what a chat template does: it may
write tools out with blanks and rules or leave them out, put a system message in where there is none, or wrap Ollama's
`generate`."""

Sample = tuple[int, ...]
"""A number for each of `FEATURES`."""


class Texts(NamedTuple):
    """The texts of a prompt, by the part that they play."""

    content: tuple[str, ...]
    tools: tuple[str, ...]
    calls: tuple[str, ...]


class Shapes(NamedTuple):
    """The same, measured."""

    content: Shape
    tools: Shape
    calls: Shape


def texts(prompt: Prompt) -> Texts:
    """Everything in the prompt that is text, and not empty."""
    return Texts(
        content=prompt.texts + tuple(p.text for m in prompt.messages for p in m.parts if p.kind == "text" and p.text),
        tools=prompt.tools,
        calls=tuple(text for m in prompt.messages for call in m.calls for text in (call.name, call.arguments)),
    )


def sample(prompt: Prompt, shapes: Shapes, kind: str) -> Sample:
    """The prompt's sample; `kind` is that of its facts. Token ids are no part of it: they are exact."""
    messages, raw = prompt.messages, len(prompt.texts)
    return (
        *shapes.content,
        shapes.tools.tokens,
        len(prompt.tools),
        int(bool(prompt.tools)),
        shapes.calls.tokens,
        sum(len(message.calls) for message in messages),
        len(messages),
        int(bool(messages)),
        int(bool(messages) and messages[0].role != "system"),
        0 if kind == "generate" else raw,
        raw if kind == "generate" else 0,
    )
