"""The output that a request asks for: which engine heeds which limit, and capping it.

A cap is a splice of the one number, every other byte as it came.
"""

from collections.abc import Collection, Iterable
from typing import Any

from proxy.records import RequestFacts
from proxy.wire.decoding import Unreadable, loads
from proxy.wire.fields import output_limit
from proxy.wire.splicing import find, members, splice

Path = tuple[str, ...]

PATHS: dict[str, tuple[Path, ...]] = {
    "openai": (("max_tokens",), ("max_completion_tokens",), ("n_predict",)),
    "responses": (("max_output_tokens",), ("max_tokens",), ("max_completion_tokens",), ("n_predict",)),
    "anthropic": (("max_tokens",),),
    "ollama": (("options", "num_predict"),),
    "llamacpp": (("n_predict",), ("max_tokens",), ("max_completion_tokens",)),
    "sglang": (("sampling_params", "max_new_tokens"),),
}
"""Dialect -> where it states the limit; all engines heed the first, where an engine knows the route. llama.cpp heeds
its own words on all routes (`tools/server/server-schema.cpp`), Ollama no `max_completion_tokens` (its issue 7125)."""


def heeds(kind: str, facts: RequestFacts) -> bool:
    """Whether an engine of this kind is known to heed a limit that the request states."""
    return _heeded(kind, facts, facts.output_names)


def cap_output(facts: RequestFacts, body: bytes, tokens: int, kind: str = "") -> bytes | None:
    """The body that asks an engine of this kind for at most `tokens` of output; None where that cannot be written
    safely.

    Every limit that is stated and higher is lowered, one that is lower stays. Where none is stated that the engine is
    known to heed, one is made, no higher than those that are. 0 is no limit to Ollama's own runner and next to nothing
    to others: it becomes 1, the least that all take for the same.
    """
    paths = PATHS.get(facts.dialect, ())
    if not paths or _unclear(body, {path[0] for path in paths}):
        return None
    stated = {path: text for path in paths if (text := find(body, path)) is not None}
    limits = {path: _limit(text, tokens) for path, text in stated.items()}
    if not stated or not _heeded(kind, facts, [path[0] for path in stated]):
        limits.setdefault(paths[0], min(limits.values(), default=tokens))
    capped: bytes | None = body
    for path, limit in limits.items():
        if capped is not None and _number(stated.get(path)) != limit:
            capped = splice(capped, path, b"%d" % limit)
    return capped


def _heeded(kind: str, facts: RequestFacts, names: Collection[str]) -> bool:
    if not names or kind == "llamacpp" or PATHS[facts.dialect][0][0] in names:
        return True
    chats = facts.dialect == "openai" and facts.kind == "chat"
    return chats and kind in ("vllm", "sglang") and "max_completion_tokens" in names


def _limit(text: bytes, tokens: int) -> int:
    """The limit to have in place of this one."""
    limit = _number(text)
    if limit is None and _stated(text) == 0:
        return 1
    return tokens if limit is None else min(limit, tokens)


def _number(text: bytes | None) -> int | None:
    return None if text is None else output_limit(_stated(text))


def _stated(text: bytes) -> Any:
    try:
        return loads(text)
    except Unreadable:
        return None


def _unclear(body: bytes, names: Iterable[str]) -> bool:
    """Whether a limit stands there twice, or in other letters, which engines written in Go would take for it."""
    try:
        said = [member.name for member in members(body)]
    except ValueError:
        return True
    folded = [name.casefold() for name in said]
    return any(folded.count(name) > said.count(name) or said.count(name) > 1 for name in names)
