"""A request body, read into facts. Never raises, whatever the body is; it goes to the engine as it came."""

import zlib
from typing import Any

from proxy.crowds import crowd
from proxy.records import RELOADING, RequestFacts
from proxy.wire.ambiguity import doubled, respelt, rivals
from proxy.wire.decoding import Unreadable, loads
from proxy.wire.dialects import dialect_of
from proxy.wire.fields import flag, mapping, string
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

NO_OBJECT = "it is no JSON object"
OWN_TEMPLATE = "it brings a template of its own"
SPELT = "it spells `{}` in other letters"
"""Why a body cannot be read."""

TEMPLATES = ("template", "chat_template")
"""Members with which a body brings a template of its own (Ollama, vLLM): whatever it says is read too, as often as it
likes."""

OPTION_LIMIT = 64
"""Characters of an option's value that are read: they are numbers and flags."""


def read_facts(route: Route, content_type: str, body: bytes, *, closely: bool = False) -> RequestFacts:
    """What the request asks for. A body that cannot be read, or that engines read differently, leaves model and prompt
    unknown, and `unread` says why.

    `closely`: somebody limits what it may ask for, so it is gone through once more for whatever an engine could read in
    it that is not read here.
    """
    found = RequestFacts(route.dialect, route.kind, route.route)
    try:
        plain = _plain(found, content_type, body)
        asked = _object(plain)
        if (name := respelt(asked)) is not None:
            return found._replace(unread=SPELT.format(name))
        found = RequestFacts(
            route.dialect,
            route.kind,
            route.route,
            _model(found, asked),
            flag(asked.get("stream")),
            options=_options(found.dialect, asked),
        )
        if found.route == "inference":
            found = dialect_of(found.dialect).read_request(found, asked)
            if any(map(asked.get, TEMPLATES)):
                found = found._replace(unread_prompt=OWN_TEMPLATE)
        return found._replace(unread=unclear) if closely and (unclear := _unclear(found.kind, asked, plain)) else found
    except (Unreadable, RecursionError) as error:
        return found._replace(unread=str(error) if isinstance(error, Unreadable) else "it is nested too deeply")


def _plain(found: RequestFacts, content_type: str, body: bytes) -> bytes:
    """The body's text, where it may be read."""
    if found.dialect == "passthrough" and media_type(content_type).startswith("multipart/"):
        raise Unreadable("it is a form")
    plain = _inflated(body)
    if len(plain) > VALUES_LIMIT and crowd(plain, 1) > VALUES_LIMIT:
        raise Unreadable(f"it has more than {VALUES_LIMIT:,} values")
    return plain


def _inflated(body: bytes) -> bytes:
    if not body.startswith(COMPRESSED):
        return body
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = inflater.decompress(body, INFLATED_LIMIT)
    except zlib.error as error:
        raise Unreadable("it cannot be inflated") from error
    if inflater.unconsumed_tail or inflater.unused_data:
        raise Unreadable("it inflates to more than is read")
    return plain


def _object(plain: bytes) -> dict[str, Any]:
    try:
        asked = loads(plain)
    except Unreadable as error:
        raise Unreadable(NO_OBJECT) from error
    if not isinstance(asked, dict):
        raise Unreadable(NO_OBJECT)
    return asked


def _unclear(kind: str, asked: dict[str, Any], plain: bytes) -> str:
    """Why the members of this body do not mean the same to all engines; empty: they do."""
    if (name := respelt(asked, inside=True)) is not None:
        return SPELT.format(name)
    if (name := doubled(plain)) is not None:
        return f"it has `{name}` twice" if name else "it has a member twice"
    if (names := rivals(kind, asked)) is not None:
        return "it has both `{}` and `{}`".format(*names)
    return ""


def _model(found: RequestFacts, asked: dict[str, Any]) -> str | None:
    """`name` is Ollama's word for it, on routes that look models up and manage them. `source` is what it copies, and
    `from` what it makes a new one of, which it would fetch where it is not; files were sent before, with no name."""
    words = ("model",) if found.route == "inference" else ("from", "source", "model", "name")
    if found.route != "inference" and asked.get("files"):
        return None
    name = next(filter(None, [string(asked.get(word)) for word in words]), None)
    return name[:NAME_LIMIT] if name is not None else None


def _options(dialect: str, asked: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Of a body that is not Ollama's own also the window that stands beside the model, as clients of `/v1` write it."""
    options = mapping(asked.get("options"))
    if dialect != "ollama" and "num_ctx" in asked:
        options = {"num_ctx": asked["num_ctx"], **options}
    return tuple((name, dumped(options[name])[:OPTION_LIMIT]) for name in RELOADING if options.get(name) is not None)
