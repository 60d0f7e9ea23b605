"""Where engines may read one body differently: names in other letters, members that stand there twice, or beside
another that says the same.

Engines written in Go take `Messages` for `messages`, and put what a name says the second time into what it said the
first; others keep the last, or refuse. A limit that looks at one reading is passed by with another.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from proxy.wire.decoding import loads_pairs
from proxy.wire.fields import mapping, objects
from proxy.wire.prompts import EMBEDDED, MANY, ONE

NAMES = frozenset({
    "content", "context", "images", "input", "instructions", "max_completion_tokens", "max_output_tokens", "max_tokens",
    "messages", "model", "options", "prompt", "query", "raw", "role", "suffix", "stream", "system", "template",
    "thinking", "tool_calls", "tools",
})  # fmt: skip
"""Members of a body and of its messages on which model, prompt and limits hang, in engines written in Go."""

INNER = frozenset({"arguments", "function", "name", "text"})
"""The same of the parts and calls of a message. A body may have others of these names."""

PLACES = {
    "embed": ((*EMBEDDED, "messages"),),
    "classify": ((*EMBEDDED, "messages"),),
    "rerank": (ONE, MANY),
    "score": (ONE, MANY),
}
"""Kind -> places of which each has several names; an engine looks under one of them."""


def respelt(asked: dict[str, Any], *, inside: bool = False) -> str | None:
    """The name that one engine reads here and another does not; None: there is none. `inside` messages too, and not
    only beside and among them."""
    places: Iterator[dict[str, Any]] = iter((asked, *objects(asked.get("messages"))))
    if (name := _respelt(places, NAMES)) is not None or not inside:
        return name
    messages = (*objects(asked.get("messages")), *objects(asked.get("input")))
    return _respelt(iter(messages), NAMES) or _respelt(_inner(messages), INNER)


def _inner(messages: tuple[dict[str, Any], ...]) -> Iterator[dict[str, Any]]:
    for message in messages:
        yield from objects(message.get("content"))
        for call in objects(message.get("tool_calls")):
            yield call
            yield mapping(call.get("function"))


def _respelt(places: Iterator[dict[str, Any]], names: frozenset[str]) -> str | None:
    for place in places:
        for name in place:
            if name not in names and (folded := name.casefold()) in names:
                return folded
    return None


def rivals(kind: str, asked: dict[str, Any]) -> tuple[str, str] | None:
    """Two members of which some engines read the one and others the other; None: there are none."""
    for names in PLACES.get(kind, ()):
        given = [name for name in names if asked.get(name)]
        if len(given) > 1:
            return given[0], given[1]
    return None


class _Twice(Exception):
    """An object has this name twice."""


def doubled(text: bytes) -> str | None:
    """A name that an object of this JSON text has twice; empty where it is none of `NAMES`, None where there is none.

    About a nanosecond a byte, as reading it. Raises `Unreadable` where it is no JSON.
    """
    try:
        loads_pairs(text, _once)
    except _Twice as twice:
        return name if (name := str(twice)) in NAMES else ""
    return None


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise _Twice(name)
