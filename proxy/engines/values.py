"""Values out of an engine's JSON. Nothing there is trusted to be well formed: what has another form is None."""

import json
import math
from typing import Any

from proxy.crowds import crowd

NAME_LIMIT = 256
"""Characters of a model's name, a digest or a version that are kept."""

ENTRIES_LIMIT = 4096
"""Entries that are read from one list (models, slots, ranks); a list with more is no engine's."""

WHOLE_LIMIT = 2**53
"""No engine counts tokens or bytes so far; up to here every program reads the same number."""

CROWD, PLAIN = 32_000, 4
"""Objects and lists that are read of one answer: of more an engine has nothing to say, and all of it is read on the
loop; and plain values that take as long as one."""


def parsed(body: bytes) -> Any:
    """The JSON value; None where there is none, or a crowd of them."""
    if crowd(body, PLAIN) > CROWD:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def entries(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    if not isinstance(value, list):
        return []
    return [entry for entry in value[:ENTRIES_LIMIT] if isinstance(entry, dict)]


def members(value: Any) -> dict[str, Any]:
    """An object; an empty one where it is none."""
    return value if isinstance(value, dict) else {}


def word(value: Any, instead: str | None = None) -> str | None:
    """A text of bounded length that can be encoded (JSON may hold halves of surrogate pairs); `instead` of an empty
    one."""
    if not isinstance(value, str):
        return None
    return value[:NAME_LIMIT].encode("utf-8", "replace").decode() or instead


def whole(value: Any) -> int | None:
    """A number of things, 0 included."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < WHOLE_LIMIT else None


def positive(value: Any) -> int | None:
    """A number of things, one at least."""
    return whole(value) or None


def share(value: Any) -> float | None:
    """A part of a whole, 0 to 1; what is a little over is all of it."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        return None
    return min(1.0, float(value))
