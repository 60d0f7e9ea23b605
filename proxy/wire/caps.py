"""Capping the output that a request asks for: a splice of the one number, every other byte as it came."""

from collections.abc import Iterable

from proxy.records import RequestFacts
from proxy.wire.decoding import Unreadable, loads
from proxy.wire.fields import output_limit
from proxy.wire.splicing import find, members, splice

PATHS: dict[str, tuple[tuple[str, ...], ...]] = {
    "openai": (("max_tokens",), ("max_completion_tokens",), ("n_predict",)),
    "responses": (("max_output_tokens",),),
    "anthropic": (("max_tokens",),),
    "ollama": (("options", "num_predict"),),
    "llamacpp": (("n_predict",), ("max_tokens",)),
    "sglang": (("sampling_params", "max_new_tokens"),),
}
"""Dialect -> where it states the limit; where nothing is stated, the first is made."""


def cap_output(facts: RequestFacts, body: bytes, tokens: int) -> bytes | None:
    """The body that asks for at most `tokens` of output; None where that cannot be written safely.

    Every limit that is stated and higher is lowered; one that is lower stays.
    """
    paths = PATHS.get(facts.dialect, ())
    stated = {path: text for path in paths if (text := find(body, path)) is not None} or dict.fromkeys(paths[:1], b"")
    capped: bytes | None = body if stated and not _respelt(body, paths) else None
    for path, text in stated.items():
        if capped is not None and not _within(text, tokens):
            capped = splice(capped, path, b"%d" % tokens)
    return capped


def _within(text: bytes, tokens: int) -> bool:
    try:
        limit = output_limit(loads(text))
    except Unreadable:
        return False
    return limit is not None and limit <= tokens


def _respelt(body: bytes, paths: Iterable[tuple[str, ...]]) -> bool:
    """Whether a limit stands there in other letters, which engines written in Go would take for it."""
    names = {path[0] for path in paths}
    try:
        return any(member.name not in names and member.name.casefold() in names for member in members(body))
    except ValueError:
        return True
