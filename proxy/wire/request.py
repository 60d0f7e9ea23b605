"""A request body, read into facts. Never raises, whatever the body is; it goes to the engine as it came."""

import zlib
from typing import Any

from proxy.records import RequestFacts
from proxy.wire.decoding import Unreadable, loads
from proxy.wire.dialects import dialect_of
from proxy.wire.fields import flag, mapping, objects, string
from proxy.wire.framing import media_type
from proxy.wire.prompts import dumped
from proxy.wire.routes import Route

INFLATED_LIMIT = 64 * 1024 * 1024
"""Bytes that a compressed body may inflate to for reading: the default body limit. Above it nothing is read."""

VALUES_LIMIT = 1_000_000
"""Commas, about as many values, of a body that is read: each may take 150 bytes and more than a microsecond. No context
window holds more token ids, and no prompt's text has as many commas in 16 MB."""

COMPRESSED = (b"\x1f\x8b", b"\x78")
"""How gzip (RFC 1952) and zlib (RFC 1950) bodies begin; no JSON text does."""

NAME_LIMIT = 4_096
"""Characters of a model's name that are read: no path is longer (Linux' PATH_MAX), and names are kept for long."""

OPTION_LIMIT = 64
"""Characters of an option's value that are read: they are numbers and flags."""

_NAMES = frozenset({
    "content", "context", "images", "input", "max_completion_tokens", "max_tokens", "messages", "model", "options",
    "prompt", "query", "raw", "role", "suffix", "stream", "system", "template", "thinking", "tool_calls", "tools",
})  # fmt: skip
"""Members of a body and of its messages on which model, prompt and limits hang, in engines written in Go."""

RELOADING = ("draft_num_predict", "main_gpu", "num_batch", "num_ctx", "num_gpu", "num_thread", "use_mmap")
"""Options that make Ollama load a model anew when they change (its scheduler's own list)."""


def read_facts(route: Route, content_type: str, body: bytes) -> RequestFacts:
    """What the request asks for. A body that cannot be read, or that engines read differently, leaves model and prompt
    unknown."""
    found = RequestFacts(route.dialect, route.kind, route.route)
    if route.dialect == "passthrough" and media_type(content_type).startswith("multipart/"):
        return found
    try:
        plain = _inflated(body)
        if len(plain) > VALUES_LIMIT and plain.count(b",") > VALUES_LIMIT:
            raise Unreadable("more values than are read")
        asked = loads(plain)
        if not isinstance(asked, dict) or _ambiguous(asked):
            return found
        found = RequestFacts(
            route.dialect,
            route.kind,
            route.route,
            _model(found, asked),
            flag(asked.get("stream")),
            options=_options(asked),
        )
        return dialect_of(found.dialect).read_request(found, asked) if found.route == "inference" else found
    except (Unreadable, RecursionError, zlib.error):
        return found


def expects_stream(facts: RequestFacts) -> bool:
    """An answer to this will most likely be a stream: Ollama's own routes stream unless told not to."""
    if facts.stream is None:
        return facts.dialect == "ollama" and facts.kind in ("chat", "generate")
    return facts.stream


def _inflated(body: bytes) -> bytes:
    if not body.startswith(COMPRESSED):
        return body
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
    plain = inflater.decompress(body, INFLATED_LIMIT)
    if inflater.unconsumed_tail or inflater.unused_data:
        raise Unreadable("inflates to more than is read")
    return plain


def _ambiguous(asked: dict[str, Any]) -> bool:
    """Whether a name is spelt so that one engine reads it and another does not: Go takes `Messages` for `messages`."""
    places = (asked, *objects(asked.get("messages")))
    return any(name not in _NAMES and name.casefold() in _NAMES for place in places for name in place)


def _model(found: RequestFacts, asked: dict[str, Any]) -> str | None:
    """`name` is Ollama's word for it, on routes that look models up and manage them."""
    name = string(asked.get("model")) or (string(asked.get("name")) if found.route != "inference" else None)
    return name[:NAME_LIMIT] if name is not None else None


def _options(asked: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    options = mapping(asked.get("options"))
    return tuple((name, dumped(options[name])[:OPTION_LIMIT]) for name in RELOADING if options.get(name) is not None)
