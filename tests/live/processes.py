"""Engines and phasegate as child processes: each line is stamped as it comes, and each child is stopped for sure."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.support.imports import ROOT
from tests.support.loopback import free_port

ENGINES = ROOT / "tests" / "live" / "engines.sh"
HOME = Path(os.environ.get("ENGINES_HOME") or Path.home() / ".cache" / "phasegate-tests")
"""Where `engines.sh` puts what it installs."""

UNAVAILABLE = 69
"""`engines.sh` cannot have this engine (EX_UNAVAILABLE)."""

NICE = 10
"""Engines give way: on a machine of two cores an engine's threads would otherwise decide when the proxy and the client
may look at their clocks, and the test would measure that. Where the system has a class for it (Linux: SCHED_IDLE) they
give way at once, and not after a slice of some 3 ms."""

FRONTED = ("ollama",)
"""Engines whose work is a child's: `engines.sh` lets that one give way, for the front has a clock to look at too."""

READY_S = {"llamacpp": 60, "ollama": 30, "vllm": 240}
"""Seconds to the first answer, on a busy machine; alone 1, 1 and 25."""

STOP_S = 15.0
"""How long a child may take to end by itself."""


class Line(NamedTuple):
    """What a child wrote, and when it came."""

    at_ns: int
    text: str


class Child:
    """A process in a group of its own.

    State: the lines so far; a thread adds to them.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.lines: list[Line] = []
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,  # not a session of its own: Linux weighs sessions alike, whatever their niceness
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def said(self) -> str:
        """All it wrote."""
        return "\n".join(line.text for line in self.lines)

    def kill(self) -> None:
        """At once, with all its children."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """In due form, and by force where that takes too long. The exit code."""
        if self.alive:
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._signal(signal.SIGKILL)  # what is left of its children
        code = self._process.wait()
        self._reader.join(STOP_S)
        return code

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # all of the group have ended
            os.killpg(self._process.pid, number)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self.lines.append(Line(time.monotonic_ns(), line.decode(errors="replace").rstrip("\n")))


class Engine(Child):
    """A real engine, started by `engines.sh`; ready when the constructor returns."""

    def __init__(
        self, kind: str, *flags: str, port: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        worker = kind not in FRONTED
        command = [*(("nice", "-n", str(NICE)) if worker else ()), str(ENGINES), "start", kind, str(self.port), *flags]
        super().__init__(command, environment)
        if worker and hasattr(os, "SCHED_IDLE"):  # before it has children; they and all threads inherit it
            os.sched_setscheduler(self.pid, os.SCHED_IDLE, os.sched_param(0))
        probe = {"llamacpp": "/health", "ollama": "/api/version", "vllm": "/health"}[kind]
        try:
            until(lambda: status(self.url + probe) == 200 or not self.alive, READY_S[kind], lambda: self.said[-4000:])
            assert self.alive, self.said[-4000:]
        except BaseException:
            self.stop()
            raise


class Phasegate(Child):
    """The proxy, as a user starts it; `records` are its JSON lines."""

    def __init__(self, upstream: str, folder: Path, *flags: str) -> None:
        self.port, self.admin_port = free_port(), free_port()
        self.url, self.admin = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.admin_port}"
        self.file = folder / f"{self.port}.jsonl"
        command = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream, "--records", str(self.file)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin_port}", *flags]
        super().__init__(command)
        try:
            until(lambda: status(self.admin + "/healthz") == 200 or not self.alive, 30, lambda: self.said)
            until(lambda: "point clients here" in self.said or not self.alive, 30, lambda: self.said)
        except BaseException:
            self.stop()
            raise

    @property
    def ready(self) -> bool:
        return status(self.admin + "/readyz") == 200

    def engines(self) -> list[dict[str, Any]]:
        """What `/api/engines` says."""
        return httpx.get(self.admin + "/api/engines").json()  # type: ignore[no-any-return]


def status(url: str) -> int | None:
    """The status of a GET; None where nobody answers."""
    try:
        return httpx.get(url, timeout=5).status_code
    except httpx.HTTPError:
        return None


def until(true: Callable[[], bool], seconds: float, why: Callable[[], str] = lambda: "") -> None:
    """Waits until it holds; AssertionError, with `why`, where it does not within `seconds`."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s: {why()}"
        time.sleep(0.05)


def install(kind: str) -> str | None:
    """Installs the engine unless it is there. Why it cannot be had; None: it can."""
    done = subprocess.run([str(ENGINES), "install", kind], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr.strip() or f"engines.sh ends with {done.returncode}")
