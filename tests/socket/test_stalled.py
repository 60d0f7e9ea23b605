"""Whoever started phasegate and stopped reading what it says: traffic, health and the end do not wait for them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.live.processes import status, until
from tests.support.imports import ROOT
from tests.support.loopback import free_port

START_S = 40.0
CHAT = {"model": "sim", "max_tokens": 1, "messages": [{"role": "user", "content": "hello"}]}
REQUESTS = 40


class Served(NamedTuple):
    """phasegate, between a simulated engine and somebody who does not read."""

    process: subprocess.Popen[bytes]
    data: str
    admin: str

    def end(self) -> float:
        """Seconds that it took to end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        return time.monotonic() - began


@contextmanager
def started(*command: str, **streams: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", "proxy", *command], cwd=ROOT, stdin=subprocess.DEVNULL, **streams)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


@contextmanager
def serving(*options: str, **streams: int) -> Iterator[Served]:
    engine, data, admin = free_port(), free_port(), free_port()
    where = [f"--upstream=http://127.0.0.1:{engine}", f"--listen=127.0.0.1:{data}", f"--admin=127.0.0.1:{admin}"]
    with started("sim", f"--port={engine}", "--speed=1000", "--model=sim"):
        until(lambda: status(f"http://127.0.0.1:{engine}/health") == 200, START_S, lambda: "the engine")
        with started("serve", *where, *options, **streams) as process:
            served = Served(process, f"http://127.0.0.1:{data}", f"http://127.0.0.1:{admin}")
            until(lambda: status(served.admin + "/readyz") == 200, START_S, lambda: "phasegate")
            yield served


def ask(served: Served, count: int) -> None:
    with httpx.Client(base_url=served.data, timeout=START_S) as client:
        for _ in range(count):
            assert client.post("/v1/chat/completions", json=CHAT).status_code == 200


def fill(pipe: int) -> None:
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x" * 4096)
    os.set_blocking(pipe, True)


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe that is full, and that nobody reads."""
    read, write = os.pipe()
    fill(write)
    yield write
    os.close(read)
    os.close(write)


@pytest.mark.slow
def test_a_terminal_that_stands_still_costs_lines_alone(unread: int, tmp_path: Path) -> None:
    records = tmp_path / "r.jsonl"
    with serving(f"--records={records}", stdout=unread, stderr=subprocess.DEVNULL) as served:
        ask(served, REQUESTS)
        until(lambda: records.read_bytes().count(b"\n") == REQUESTS, START_S, lambda: "records")
        assert status(served.admin + "/metrics") == 200
        assert served.end() < 5
    assert all(json.loads(line)["v"] == 1 for line in records.read_text().splitlines())


@pytest.mark.slow
def test_a_pipe_for_records_that_nobody_reads_costs_records_alone(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    full = os.open(fifo, os.O_RDWR)
    fill(full)
    with serving("--quiet", f"--records={fifo}", stderr=subprocess.PIPE) as served:
        ask(served, REQUESTS)
        assert status(served.admin + "/metrics") == 200
        assert served.end() < 5
        assert served.process.stderr is not None
        with served.process.stderr as stderr:
            said = stderr.read().decode()
    os.close(full)
    assert re.search(rf"records_lost .*lost={REQUESTS}\b", said)


@pytest.mark.slow
def test_a_log_that_nobody_reads_holds_no_request_up(unread: int) -> None:
    with serving("--quiet", stderr=unread) as served:
        ask(served, REQUESTS)
        assert status(served.admin + "/healthz") == 200
        assert served.end() < 5
