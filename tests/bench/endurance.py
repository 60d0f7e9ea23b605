"""Many requests through the embedded engine: every record in the store, memory flat, a report in seconds.

    python -m tests.bench.endurance [--requests 100000] [--connections 32] [--json]

Starts `phasegate sim`, played fast, and `phasegate serve` with a store before it, and asks. Resident memory of both
processes is read ten times on the way: what it grew over the second half is what a week would add up.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.loopback import free_port

LOOKS = 10
START_S = 30.0
QUESTIONS = 400
"""Different questions behind one system prompt, asked in turn: caches fill, and then are full."""
RULES = "You are the clerk of a small library. Answer in one sentence and name the shelf. " * 8


def request(number: int) -> bytes:
    messages = [
        {"role": "system", "content": RULES},
        {"role": "user", "content": f"Question {number % QUESTIONS}: which book is about rivers?"},
    ]
    body = json.dumps({"model": "sim", "stream": number % 3 > 0, "max_tokens": 4, "messages": messages}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-request-id: e{number}"
    return f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    writer.write(request(number))
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head[:200]
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    if length:
        await reader.readexactly(int(length))
        return
    while (line := await reader.readuntil(b"\r\n")) != b"0\r\n":
        await reader.readexactly(int(line, 16) + 2)
    await reader.readexactly(2)


async def ask(port: int, numbers: Iterator[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for number in numbers:
            await one(reader, writer, number)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def load(port: int, first: int, count: int, connections: int) -> None:
    numbers = iter(range(first, first + count))
    await asyncio.gather(*(ask(port, numbers) for _ in range(connections)))


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(*command: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", "proxy", *command], stdout=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + START_S
        while not listens(port):
            assert time.monotonic() < end_s, f"{command[0]} does not listen"
            time.sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def resident_kb(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def measure(requests: int, connections: int, folder: Path) -> dict[str, Any]:
    engine, data, admin = free_port(), free_port(), free_port()
    store = folder / "requests.db"
    serve = [f"--upstream=http://127.0.0.1:{engine}", f"--listen=127.0.0.1:{data}", f"--admin=127.0.0.1:{admin}"]
    proxy_kb, office_kb = [], []
    start_s = time.monotonic()
    with running("sim", f"--port={engine}", "--speed=100", "--model=sim", port=engine):  # noqa: SIM117  # the engine outlives the proxy
        with running("serve", *serve, f"--store={store}", "--quiet", port=data) as proxy:
            for look in range(LOOKS):
                asyncio.run(load(data, look * requests // LOOKS, requests // LOOKS, connections))
                proxy_kb.append(resident_kb(proxy.pid))
                office_kb.append(resident_kb(child(proxy.pid)))
            asked_s = time.monotonic() - start_s
    with contextlib.closing(sqlite3.connect(store)) as rows:
        stored = rows.execute("select count(*), count(distinct id) from requests").fetchone()
    start_s = time.monotonic()
    subprocess.run([sys.executable, "-m", "proxy", "report", str(store), "--json"], check=True, capture_output=True)
    return {
        "requests": requests,
        "stored": stored[0],
        "distinct": stored[1],
        "requests_per_s": round(requests / asked_s),
        "proxy_kb": proxy_kb,
        "office_kb": office_kb,
        "store_mb": round(store.stat().st_size / 1e6),
        "report_s": round(time.monotonic() - start_s, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = measure(options.requests, options.connections, Path(folder))
    if options.json:
        print(json.dumps(seen))
    else:
        for name, value in seen.items():
            print(f"{name:>16}  {value}")
    return 0 if seen["stored"] == seen["distinct"] == seen["requests"] else 1


if __name__ == "__main__":
    sys.exit(main())
