"""Commands as processes of their own: what they import, a full disk, ^C at those that run for a while."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.cli import INTERRUPTED, UNHEARD
from tests.live.processes import status, until
from tests.support.imports import ROOT
from tests.support.loopback import free_port

LIMIT_S = 40.0


@pytest.fixture(autouse=True)
def _heeded() -> Iterator[None]:
    """Children ignore interrupts where we do, as we may have been told by a shell that started us in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy", *command],
        cwd=ROOT,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupted(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Its exit code, and the lines that it said from then on."""
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=LIMIT_S)[1]
    return process.returncode, said.splitlines()


def said(process: subprocess.Popen[str], word: str) -> None:
    """When it has said so."""
    assert process.stderr is not None
    assert any(word in line for line in process.stderr)


@pytest.mark.parametrize("verb", ["audit", "probe"])
def test_one_that_waits_for_an_answer(verb: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(LIMIT_S)
        with started(verb, f"http://127.0.0.1:{silent.getsockname()[1]}") as process, silent.accept()[0]:
            assert interrupted(process) == (INTERRUPTED, ["phasegate: interrupted"])


def test_the_engine_alone() -> None:
    port = free_port()
    with started("sim", f"--port={port}") as process:
        until(lambda: status(f"http://127.0.0.1:{port}/health") == 200, LIMIT_S, lambda: "the engine")
        said(process, "simulating")
        assert interrupted(process) == (INTERRUPTED, ["phasegate: interrupted"])


def test_a_proxy_that_serves_takes_it_for_a_wish_to_stop() -> None:
    where = [f"--{name}=127.0.0.1:{free_port()}" for name in ("listen", "admin")]
    with started("serve", *where, f"--upstream=http://127.0.0.1:{free_port()}") as process:
        said(process, "point clients here")
        code, lines = interrupted(process)
        assert code == 0
        assert any("draining" in line for line in lines)
        assert not any("interrupted" in line for line in lines)


def test_a_verb_is_imported_on_use_only():
    code = "import sys, proxy.cli; sys.exit(any(name.startswith('proxy.cli.') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_that_the_terminal_cannot_show_ends_no_command(tmp_path):
    file = tmp_path / "r.jsonl"
    file.write_text('{"id": "a", "at": 1, "outcome": "completed", "total_s": 1, "model": "\\u65e5"}\n')
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "report", str(file)],
        env={**os.environ, "PYTHONIOENCODING": "latin-1:strict"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "\\u65e5" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("words", [("--help",), ("config", "print"), ("report", "FILE"), ("report", "FILE", "--rows")])
def test_a_full_disk_behind_the_output_is_said_in_one_line(tmp_path, words):
    file = tmp_path / "r.jsonl"
    file.write_text('{"id": "a", "at": 1, "outcome": "completed", "total_s": 1}\n')
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "proxy", *(str(file) if word == "FILE" else word for word in words)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "phasegate: cannot go on: No space left on device\n")


def test_a_reader_that_goes_needs_no_word(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_bytes(
        b"".join(b'{"id": "%d", "at": 1, "outcome": "completed", "total_s": 1}\n' % n for n in range(9_999))
    )
    command = [sys.executable, "-m", "proxy", "report", "--rows", str(file)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait(LIMIT_S)) == (b"", UNHEARD)
    process.stderr.close()
