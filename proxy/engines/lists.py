"""Model lists of several engines, told as one.

`/v1/models` answers `{"object": "list", "data": [{"id": ...}]}`, Ollama's `/api/tags` `{"models": [{"name": ...}]}`;
llama.cpp's `/v1/models` has both members. What two engines list under one name is told once, the first engine's way.
"""

import json
from collections.abc import Iterable
from typing import Any

from proxy.engines.values import members, parsed

MEMBERS = {"data": "id", "models": "name"}
"""Member that holds a list -> what names its entries."""


def merge(bodies: Iterable[bytes]) -> bytes:
    """One list from several engines' answers; what is no list is left out."""
    whole: dict[str, Any] = {}
    seen: set[tuple[str, object]] = set()
    for body in bodies:
        for member, value in members(parsed(body)).items():
            if member not in MEMBERS:
                whole.setdefault(member, value)
            elif isinstance(value, list):
                whole.setdefault(member, []).extend(_new(member, value, seen))
    return json.dumps(whole, separators=(",", ":")).encode()


def _new(member: str, entries: list[Any], seen: set[tuple[str, object]]) -> Iterable[Any]:
    for entry in entries:
        name = entry.get(MEMBERS[member]) if isinstance(entry, dict) else None
        if isinstance(name, str) and (member, name) not in seen:
            seen.add((member, name))
            yield entry
