"""What relaying costs: everything side by side in one run, CPU time as ratios.

    python -m tests.bench.relay [--seconds 5] [--requests 2000] [--streams 50] [--open 1000] [--repeat 1] [--json]
                                [--vllm-router PROGRAM] [--litellm PROGRAM] [--only ROW,ROW] [--rooms off]

One scripted engine and one load client, each in its own process; the CPU time of each proxy's processes is read from
/proc. Three loads: streams of 100 events a second, requests of 2 KB that are answered with one event, and the same
requests of clients that connect for each (`connect_us`: curl, many a script and load generator; at the engine
connections are kept). Rows:

    direct      no proxy
    bare        raw ASGI and an aiohttp session (tests/bench/bare.py)
    wire        our listener, headers and relay alone
    untapped    the data process without counting and audit, answers unread
    tapped      the same with its tap: relay, tap, timeline
    whole       the data process as shipped; records go nowhere
    phasegate   `phasegate serve`: data process and office, CPU time apart (`--rooms off`: no counting, no audit)
    nginx       `proxy_buffering off`, where it is installed
    vllm-router, litellm    where a program is given

`--repeat N`: all rows N times in turn, and medians. `ttfb_p50_ms` is that of one request at a time. Below the rows
stand the ratios that are promised, with their goals. Numbers of one run compare with each other, not with those of
another machine or hour.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.loopback import free_port

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START_S = 30.0
"""A proxy that does not listen by then is left out; LiteLLM takes ten seconds."""
HELD_S = 60.0
"""Open streams of six seconds have ended by then."""
ALONE = 300
"""Requests one after the other, for the time that is added to one."""
NGINX = """
daemon off; pid {dir}/pid; error_log stderr error; worker_processes 1; events {{ worker_connections 8192; }}
http {{ access_log off; client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};
  uwsgi_temp_path {dir}; scgi_temp_path {dir};
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 2048; }}
  server {{ listen 127.0.0.1:{port}; keepalive_requests 1000000;
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
  }} }} }}
"""
ROOMS_OFF = """
[tokens]
count = false
[prefixes]
audit = false
"""
LITELLM = """
model_list:
  - model_name: m
    litellm_params: {{ model: openai/m, api_base: "http://127.0.0.1:{engine}/v1", api_key: sk-bench }}
general_settings: {{ dangerously_permit_weak_or_unset_master_key: true }}
"""

GOALS = (
    ("relay, tap and timeline, an event", "event_us", "tapped", "bare", 1.3),
    ("relay, tap and timeline, a request", "request_us", "tapped", "bare", 1.3),
    ("tap on to tap off, an event", "event_us", "tapped", "untapped", 1.15),
    ("all rooms, an event", "event_us", "phasegate", "bare", 1.3),
    ("all rooms, a request", "request_us", "phasegate", "bare", 2.0),
    ("all rooms, a request that connects", "connect_us", "phasegate", "bare", 2.0),
    ("to vllm-router, an event", "event_us", "phasegate", "vllm-router", 1.4),
    ("to vllm-router, a request", "request_us", "phasegate", "vllm-router", 4.0),
)
"""Ratios of CPU time: what, of which column, one row to another, and the most that it should be."""


@dataclass
class Row:
    """One proxy's numbers."""

    name: str
    event_us: float | None = None
    request_us: float | None = None
    connect_us: float | None = None
    office_us: float | None = None
    delay_p99_ms: float | None = None
    ttfb_p50_ms: float | None = None
    stream_kb: float | None = None
    grown_kb: float | None = None
    failed: int = 0


@dataclass
class Bench:
    """What is run, and against what."""

    options: argparse.Namespace
    directory: Path
    engine: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def command(self, name: str, port: int) -> list[str] | None:
        """How a row's proxy is started; None: it is not here."""
        python, url, options = sys.executable, f"http://127.0.0.1:{self.engine}", self.options
        if name in ("wire", "untapped", "tapped", "whole"):
            return [python, "-m", "tests.bench.relayed", str(port), url, name]
        if name == "bare":
            return [python, "-m", "tests.bench.bare", str(port), url]
        if name == "phasegate":
            admin = f"127.0.0.1:{free_port()}"
            config = self.write("phasegate.toml", ROOMS_OFF if options.rooms == "off" else "")
            return [python, "-m", "proxy", "serve", "--upstream", url, "--listen", f"127.0.0.1:{port}",
                    "--admin", admin, "--config", config, "--quiet"]  # fmt: skip
        if name == "nginx" and shutil.which("nginx"):
            config = self.write("nginx.conf", NGINX.format(dir=self.directory, engine=self.engine, port=port))
            return ["nginx", "-e", "stderr", "-c", config]
        if name == "vllm-router" and options.vllm_router:
            return [options.vllm_router, "--worker-urls", url, "--host", "127.0.0.1", "--port", str(port),
                    "--prometheus-port", str(free_port())]  # fmt: skip
        if name == "litellm" and options.litellm:
            config = self.write("litellm.yaml", LITELLM.format(engine=self.engine))
            return [options.litellm, "--config", config, "--host", "127.0.0.1", "--port", str(port)]
        return None

    def write(self, name: str, text: str) -> str:
        path = self.directory / name
        path.write_text(text)
        return str(path)

    @contextlib.contextmanager
    def running(self, command: list[str], port: int) -> Iterator[int | None]:
        """The process id of what listens on `port`; None where it does not come up."""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield process.pid if listens(port, process) else None
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def load(self, port: int, *words: object) -> dict[str, Any]:
        command = [sys.executable, "-m", "tests.bench.load", str(port), *map(str, words)]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        return dict(json.loads(done.stdout))


def listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            time.sleep(0.5)  # what it still does at its start is not ours to measure
            return True
        time.sleep(0.05)
    return False


def family(pid: int) -> list[int]:
    """A process and all below it, the process first."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(below for child in children for below in family(int(child)))]


def cpu_s(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total * TICK_S


def rss_kb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1024


def measure(bench: Bench, name: str) -> Row | None:
    """A row's numbers; None where its proxy is not here."""
    if name == "direct":
        row = Row(name)
        fill(row, *loads(bench, bench.engine))
        return row
    port = free_port()
    command = bench.command(name, port)
    if command is None:
        return None
    with bench.running(command, port) as pid:
        return proxied(bench, Row(name), port, pid) if pid is not None else None


def proxied(bench: Bench, row: Row, port: int, pid: int) -> Row:
    options = bench.options
    bench.load(port, "requests", 200, 4)  # warm
    everyone = family(pid)
    office = everyone[1:] if row.name == "phasegate" else []
    relaying = [each for each in everyone if each not in office]
    marks = [cpu_s(relaying)]
    streams = bench.load(port, "streams", options.streams, options.seconds, 10)
    marks.append(cpu_s(relaying))
    before_kb, office_s = rss_kb(pid), cpu_s(office)
    requests = bench.load(port, "requests", options.requests, 4)
    marks.append(cpu_s(relaying))
    connects = bench.load(port, "connects", options.requests, 4)
    marks.append(cpu_s(relaying))
    fill(row, streams, requests, bench.load(port, "requests", ALONE, 1))
    row.failed += connects["failed"]
    row.event_us = (marks[1] - marks[0]) / max(1, streams["done"]) * 1e6
    row.request_us = (marks[2] - marks[1]) / max(1, requests["done"]) * 1e6
    row.connect_us = (marks[3] - marks[2]) / max(1, connects["done"]) * 1e6
    row.grown_kb = rss_kb(pid) - before_kb
    if office:
        row.office_us = (cpu_s(office) - office_s) / max(1, requests["done"] + connects["done"] + ALONE) * 1e6
    row.stream_kb = memory(bench, row, port, relaying) if options.open else None
    return row


def loads(bench: Bench, port: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    options = bench.options
    return (
        bench.load(port, "streams", options.streams, options.seconds, 10),
        bench.load(port, "requests", options.requests, 4),
        bench.load(port, "requests", ALONE, 1),
    )


def fill(row: Row, streams: dict[str, Any], requests: dict[str, Any], alone: dict[str, Any]) -> None:
    row.delay_p99_ms = streams["p99_ms"]
    row.ttfb_p50_ms = alone["p50_ms"]
    row.failed = streams["failed"] + requests["failed"]


def memory(bench: Bench, row: Row, port: int, pids: list[int]) -> float:
    """Memory of one more open stream, KB."""
    count: int = bench.options.open
    before = sum(map(rss_kb, pids))
    command = [sys.executable, "-m", "tests.bench.load", str(port), "streams", str(count), "6", "1000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        time.sleep(4)
        after = sum(map(rss_kb, pids))
        try:
            client.wait(HELD_S)
        except subprocess.TimeoutExpired:
            client.kill()
            row.failed += 1
            print(f"{row.name}: open streams did not end", file=sys.stderr)
    return (after - before) / count


def median(runs: list[Row]) -> Row:
    """Of each number the median of these runs; failures add up."""
    row = Row(runs[0].name, failed=sum(run.failed for run in runs))
    for column in vars(row).keys() - {"name", "failed"}:
        values = [value for run in runs if (value := getattr(run, column)) is not None]
        setattr(row, column, statistics.median(values) if values else None)
    return row


def ratios(rows: list[Row]) -> str:
    """The promised ratios, as far as their rows were run."""
    by_name = {row.name: row for row in rows}
    lines = []
    for what, column, ours, theirs, goal in GOALS:
        one, other = (getattr(by_name[name], column) if name in by_name else None for name in (ours, theirs))
        if one and other:
            lines.append(f"{what:36}{ours} / {theirs:12} {one / other:5.2f}  (goal {goal})")
    return "\n".join(lines)


def shown(rows: list[Row]) -> str:
    bare = next((row for row in rows if row.name == "bare"), None)
    columns = (
        "event_us",
        "request_us",
        "connect_us",
        "office_us",
        "delay_p99_ms",
        "ttfb_p50_ms",
        "stream_kb",
        "grown_kb",
    )
    lines = [f"{'':12}" + "".join(f"{column:>13}" for column in columns) + f"{'x event':>9}{'x request':>11}  failed"]
    for row in rows:
        cells = [getattr(row, column) for column in columns]
        ratios = [
            ours / theirs if ours and theirs else None
            for ours, theirs in ((row.event_us, bare and bare.event_us), (row.request_us, bare and bare.request_us))
        ]
        line = f"{row.name:12}" + "".join(f"{'-' if cell is None else format(cell, '.2f'):>13}" for cell in cells)
        lines.append(
            line + "".join(f"{'-' if r is None else format(r, '.2f'):>10}" for r in ratios) + f"{row.failed:>8}"
        )
    return "\n".join(lines)


ROWS = ("direct", "bare", "wire", "untapped", "tapped", "whole", "phasegate", "nginx", "vllm-router", "litellm")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.relay", description="What relaying costs.")
    parser.add_argument("--seconds", type=int, default=5, help="of streaming, each row")
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--open", type=int, default=1000, help="open streams for the memory column; 0: leave it out")
    parser.add_argument("--repeat", type=int, default=1, help="runs of all rows, of which the medians are shown")
    parser.add_argument("--vllm-router", metavar="PROGRAM")
    parser.add_argument("--litellm", metavar="PROGRAM")
    parser.add_argument("--only", default=",".join(ROWS), help="rows, with commas")
    parser.add_argument("--rooms", choices=("on", "off"), default="on", help="counting and audit, in row phasegate")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(options, Path(directory), free_port())
        with bench.running([sys.executable, "-m", "tests.bench.engine", str(bench.engine)], bench.engine) as engine:
            if engine is None:
                sys.exit("the scripted engine does not start")
            names = options.only.split(",") * options.repeat
            runs = [row for name in names if (row := measure(bench, name)) is not None]
    rows = [median([run for run in runs if run.name == name]) for name in dict.fromkeys(run.name for run in runs)]
    print(json.dumps([vars(row) for row in rows], indent=1) if options.json else f"{shown(rows)}\n\n{ratios(rows)}")


if __name__ == "__main__":
    main()
