"""What streams feel of the office: loop lag while it is scraped each second, and while it is killed.

The way of an event through phasegate includes whatever the loop was late for it: `event_p99_ms` bounds the loop's lag
at its own 99th percentile, which the histogram of looks can only place between two edges.

    python -m tests.bench.lag [--streams 50] [--seconds 20] [--models 8]

Streams of 100 events a second under `--models` names go through `phasegate serve`; `/metrics` is scraped each second;
half-way the office is killed. Prints one JSON object: streams that failed, how many of the looks at the data process'
loop were no later than 1 and 5 ms, the way of an event from the engine to the client (`event_p99_ms`), scrapes, series,
and what is known of records: exchanges that ended, those counted, those lost. Exit 1 where a stream failed or a record
is neither counted nor lost.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.bench.relay import Bench, family
from tests.support.loopback import free_port

SAMPLE = re.compile(r"^phasegate_(\w+?)(?:\{(.*)\})? ([0-9.e+-]+|NaN)$", re.MULTILINE)
SETTLED_S = 3.0
"""From the last exchange's end to a scrape that has it: a pulse and a tick, twice."""


def scraped(admin: int) -> str | None:
    """The text of `/metrics`; None while there is no office."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return None


def total(text: str, name: str, *labels: str) -> float:
    """The sum of a metric's samples that have all these labels."""
    found = ((label or "", value) for metric, label, value in SAMPLE.findall(text) if metric == name)
    return sum(float(value) for label, value in found if all(one in label for one in labels))


def under_load(bench: Bench, port: int, admin: int, data: int) -> tuple[dict[str, Any], list[str]]:
    """What the streams saw, and every scrape meanwhile; half-way the office is killed."""
    options = bench.options
    words = [port, "streams", options.streams, options.seconds, 10, options.models]
    command = [sys.executable, "-m", "tests.bench.load", *map(str, words)]
    client = subprocess.Popen(command, stdout=subprocess.PIPE)
    start, killed, texts = time.monotonic(), False, []
    while client.poll() is None:
        if not killed and time.monotonic() - start > options.seconds / 2:
            os.kill(family(data)[1], signal.SIGKILL)
            killed = True
        if (text := scraped(admin)) is not None:
            texts.append(text)
        time.sleep(1)
    assert client.stdout is not None
    return json.loads(client.stdout.read()), texts


def report(streams: dict[str, Any], first: str, last: str, scrapes: int, exchanges: int) -> dict[str, Any]:
    def grown(name: str, *labels: str) -> float:
        return total(last, name, *labels) - total(first, name, *labels)

    looks = grown("loop_lag_seconds_count")
    within = {ms: grown("loop_lag_seconds_bucket", f'le="0.00{ms}"') / max(1, looks) for ms in (1, 5)}
    return {
        "failed": streams["failed"],
        "events": streams["done"],
        "event_p50_ms": streams["p50_ms"],
        "event_p99_ms": streams["p99_ms"],
        "looks": looks,
        **{f"within_{ms}_ms": round(share, 4) for ms, share in within.items()},
        "scrapes": scrapes,
        "series": len(SAMPLE.findall(last)),
        "exchanges": exchanges,
        "counted": total(last, "requests_total", 'route="inference"'),
        "lost": total(last, "records_lost_total"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lag", description="What streams feel of the office.")
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--models", type=int, default=8)
    options = parser.parse_args()
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(options, Path(directory), free_port())
        ours = [sys.executable, "-m", "proxy", "serve", "--upstream", f"http://127.0.0.1:{bench.engine}", "--quiet",
                "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]  # fmt: skip
        engine = [sys.executable, "-m", "tests.bench.engine", str(bench.engine)]
        with bench.running(engine, bench.engine), bench.running(ours, port) as data:
            if data is None:
                sys.exit("phasegate does not start")
            warm = bench.load(port, "requests", 400, 4, options.models)
            time.sleep(SETTLED_S)
            first = scraped(admin) or ""
            streams, texts = under_load(bench, port, admin, data)
            time.sleep(SETTLED_S)
            last = scraped(admin) or ""
        found = report(streams, first, last, len(texts), warm["done"] + options.streams)
    print(json.dumps(found))
    sys.exit(bool(found["failed"]) or found["counted"] + found["lost"] < found["exchanges"])


if __name__ == "__main__":
    main()
