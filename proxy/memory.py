"""What outlives a restart: one small JSON file, replaced as a whole, so that it is never half written."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEPTH = 3
"""How deep it is taken apart: each budget and each model's calibration is a piece, made in less than a millisecond."""


def recall(file: Path) -> dict[str, Any] | None:
    """What `keep` wrote; empty where there is no such file, None where it is none of ours."""
    try:
        kept = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return kept if isinstance(kept, dict) else None


def keep(file: Path, what: dict[str, Any]) -> None:
    """Write it in place of what was there. Raises OSError.

    For a thread of its own: it is written a piece at a time, and between two pieces the interpreter serves others.
    """
    handle, part = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            for piece in pieces(what):
                out.write(piece.encode("ascii"))
                out.flush()
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise


def pieces(value: Any, depth: int = DEPTH) -> Iterator[str]:
    """The JSON text of a value, in pieces."""
    if depth and value and isinstance(value, dict):
        for number, (name, each) in enumerate(value.items()):
            yield f"{',' if number else '{'}{json.dumps(name)}:"
            yield from pieces(each, depth - 1)
        yield "}"
    elif depth and value and isinstance(value, list):
        for number, each in enumerate(value):
            yield "," if number else "["
            yield from pieces(each, depth - 1)
        yield "]"
    else:
        yield json.dumps(value)
