"""What outlives a restart: one small JSON file, replaced as a whole, so that it is never half written."""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

DEPTH = 3
"""How deep it is taken apart to be written: each budget and each model's calibration is a piece."""

BATCH = 8
"""Pieces made between two turns of the loop. A calibration takes 50 us, a budget 1."""


def recall(file: Path) -> dict[str, Any] | None:
    """What was kept; empty where there is no such file, None where it is none of ours."""
    try:
        kept = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return kept if isinstance(kept, dict) else None


async def spell(what: dict[str, Any]) -> list[bytes]:
    """Its JSON text in pieces. It is made on the loop, for a thread would hold the interpreter for longer, and others
    have their turn meanwhile; so it must not change, save what an iterator gives when its turn comes."""
    text = []
    for number, piece in enumerate(pieces(what)):
        text.append(piece)
        if number % BATCH == 0:
            await asyncio.sleep(0)
    return text


def keep(file: Path, text: Iterable[bytes]) -> None:
    """Write it in place of what was there. Raises OSError."""
    handle, part = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.writelines(text)
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise


def pieces(value: Any, depth: int = DEPTH) -> Iterator[bytes]:
    """The JSON text of a value, in pieces; an iterator in it is a list of what it gives."""
    if depth and value and isinstance(value, dict):
        for number, (name, each) in enumerate(value.items()):
            yield b"%b%b:" % (b"," if number else b"{", msgspec.json.encode(name))
            yield from pieces(each, depth - 1)
        yield b"}"
    elif depth and isinstance(value, list | Iterator):
        mark = b"["
        for each in value:
            yield mark
            yield from pieces(each, depth - 1)
            mark = b","
        yield b"]" if mark == b"," else b"[]"
    else:
        yield msgspec.json.encode(value)
