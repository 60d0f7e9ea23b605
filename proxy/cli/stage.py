"""The demo's stage: the embedded engine and phasegate in front of it, each a process of its own on this machine."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

READY_S = 60.0
"""Seconds until a process must answer; both start in about one, on a machine that has nothing else to do."""

SETTLE_S = 20.0
"""Seconds until a record must be written: settling takes six at most, and the machine may be busy."""

POLL_S = 0.05
"""Seconds between two looks at a port or a file."""


class StageError(Exception):
    """A process did not start, or a record did not come."""


class Stage:
    """Where to send requests, and what phasegate and the engine wrote about them."""

    def __init__(self, folder: Path, port: int, settle_s: float = SETTLE_S) -> None:
        self.port = port
        self._settle_s = settle_s
        self._records, self._truth = folder / "records.jsonl", folder / "truth.jsonl"

    async def records(self, ids: Sequence[str]) -> dict[str, Any]:
        """phasegate's record of each request, by id; raises StageError when one does not come."""
        found: dict[str, Any] = {}
        for _ in range(round(self._settle_s / POLL_S)):
            found = {row["id"]: row for row in _rows(self._records)}
            if all(id in found for id in ids):
                return {id: found[id] for id in ids}
            await asyncio.sleep(POLL_S)
        missing = sum(id not in found for id in ids)
        raise StageError(f"{missing} of {len(ids)} records did not come within {self._settle_s:.0f} s")

    def truths(self, ids: Sequence[str]) -> dict[str, Any]:
        """The engine's own truth about each request, by id."""
        rows = {row["request"].partition("-")[2]: row for row in _rows(self._truth)}
        return {id: rows[id] for id in ids if id in rows}


@asynccontextmanager
async def stage(folder: Path, engine: Sequence[str]) -> AsyncIterator[Stage]:
    """Start the engine with the options `engine` and phasegate before it; both end with the block."""
    engine_port, port, admin = _free_ports(3)
    async with AsyncExitStack() as stack:
        truth = ["--truth", str(folder / "truth.jsonl")]
        process = await stack.enter_async_context(_process(folder, "sim", "--port", str(engine_port), *truth, *engine))
        await _ready(folder / "sim.log", process, engine_port)
        options = ["--upstream", f"http://127.0.0.1:{engine_port}", "--listen", f"127.0.0.1:{port}"]
        options += ["--admin", f"127.0.0.1:{admin}", "--records", str(folder / "records.jsonl"), "--quiet"]
        process = await stack.enter_async_context(_process(folder, "serve", *options))
        await _ready(folder / "serve.log", process, port)
        yield Stage(folder, port)


@asynccontextmanager
async def _process(folder: Path, verb: str, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    with (folder / f"{verb}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "proxy", verb, *options, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _ready(log: Path, process: asyncio.subprocess.Process, port: int) -> None:
    for _ in range(round(READY_S / POLL_S)):
        if process.returncode is not None:
            break
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(POLL_S)
        else:
            writer.close()
            return
    raise StageError(f"phasegate {log.stem} did not start: {_last_words(log)}")


def _last_words(log: Path) -> str:
    said = log.read_text(errors="replace").strip().splitlines()
    return said[-1] if said else "it said nothing"


def _rows(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a JSONL file that is still being written."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def _free_ports(count: int) -> list[int]:
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports
