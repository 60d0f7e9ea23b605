"""What outlives a restart: one small JSON file, replaced as a whole, so that it is never half written."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def recall(file: Path) -> dict[str, Any]:
    """What `keep` wrote; empty where there is no such file, or it is none of ours."""
    try:
        kept = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def keep(file: Path, what: dict[str, Any]) -> None:
    """Write it in place of what was there. Raises OSError."""
    handle, part = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w") as out:
            json.dump(what, out)
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise
