"""All that the runner knows of phasegate: settings, how it is started, what a record says, names of series.

Nothing else in this package names anything of `proxy`.
"""

import asyncio
import contextlib
import io
import itertools
import json
import logging
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx
import msgspec
import structlog
from click.testing import CliRunner

from proxy.app import DataApp
from proxy.attribution.ladder import attribute
from proxy.cli import serve
from proxy.cli.report import report
from proxy.config import Settings, masked
from proxy.events import Event
from proxy.exporters.contract import to_dict
from proxy.messages import Hello, Message
from proxy.office import logs
from proxy.office.findings import findings
from proxy.office.main import build
from proxy.records import Finished, RequestRecord
from proxy.tap import Tap
from proxy.timeline import Recorder
from tests.cases.case import Case
from tests.cases.exposition import Exposition, parse, quantile
from tests.cases.seen import Record, ms
from tests.support.clock import VirtualLoop

ROOMS = {
    "tokens": "proxy.tokens.desk",
    "admission": "proxy.admission.door",
    "queueing": "proxy.admission.queue",
    "prefixes": "proxy.prefixes.audit",
    "store": "proxy.cli.report",
    "scrape": "proxy.office.scrape",
}
"""Rooms beyond relay and spine, and the module whose being there says that the room is built."""

HOUR_S = 3600.0
"""What a case's timeouts are where it says nothing."""


def rooms() -> set[str]:
    """The rooms that are built: those that the composition roots import."""
    return {room for room, module in ROOMS.items() if module in sys.modules}


class Product(Protocol):
    """What the runner asks of a product that has played a case."""

    def records(self, id: str) -> list[Record]:
        """Its records of one exchange, in the words of checks."""

    def report(self) -> dict[str, float | None]:
        """What the report command says of this case's records."""

    def breakers(self) -> list[dict[str, Any]]:
        """Prefix breakers that the audit reports."""

    def findings(self) -> list[str]:
        """Findings over all records."""

    def spoken(self) -> Mapping[str, str]:
        """All that it says by itself, by place."""

    def tracebacks(self) -> list[str]:
        """Lines of its log that tell of a bug."""


# --- settings -------------------------------------------------------------------------------------------------------


def settings(case: Case, urls: list[str], **more: Any) -> dict[str, Any]:
    """The product's settings as plain values, from the words of a case's `config`."""
    config = case.config
    upstream = [{"url": url, "kind": case.engine_kind, **_upstream(case, len(urls))} for url in urls]
    tree: dict[str, Any] = {
        "upstream": upstream,
        "ask_usage": config.get("ask_usage", False),
        "log_level": config.get("log_level", "info"),
        "timeouts": {
            "connect_s": HOUR_S,
            "total_s": 0.0,
            "first_byte_s": config.get("first_byte_timeout_ms", HOUR_S * 1e3) / 1e3,
            "idle_s": config.get("idle_timeout_ms", HOUR_S * 1e3) / 1e3,
        },
        **more,
    }
    if "body_limit_bytes" in config:
        tree["body_limit_bytes"] = config["body_limit_bytes"]
    return tree


def _upstream(case: Case, engines: int) -> dict[str, Any]:
    """Replicas serve the same models: those that the case's requests name."""
    out: dict[str, Any] = {}
    if "block_size" in case.config:
        out["block_size"] = case.config["block_size"]
    if engines > 1:
        out["models"] = sorted({name for step in case.steps for name in step.models})
    return out


# --- records --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Heard:
    """What the reader handed on while one answer was read."""

    text: list[str] = field(default_factory=list)
    finish: str | None = None
    stamps: dict[int, list[int]] = field(default_factory=dict)
    """Times of token events by choice, ns."""

    def event(self, t: int, event: Event) -> None:
        self.text.append(event.text)
        for choice in event.tokens:
            self.stamps.setdefault(choice, []).append(t)
        for choice, reason in event.finish:
            if choice == 0:
                self.finish = reason


def said(record: RequestRecord, heard: Heard) -> dict[str, Any]:
    """A record in the words of checks."""
    finished, breakdown = record.finished, record.breakdown
    timeline, usage, count, prefix = finished.timeline, finished.usage, finished.count, finished.prefix
    return {
        "outcome": finished.outcome.value,
        "model": finished.facts.model,
        "ttfb_ms": _ms(timeline.first_byte_ns),
        "ttft_ms": _ms(timeline.first_token_ns),
        "answer_ttft_ms": _ms(timeline.first_answer_ns),
        "duration_ms": _ms(timeline.total_ns),
        "tpot_ms": _ms(breakdown.tpot_ns),
        "itl_ms": _gaps(record, heard),
        "events": timeline.events,
        "token_events": timeline.token_events,
        "unreadable_events": timeline.unreadable_events,
        "text": "".join(heard.text),
        "finish": heard.finish,
        "done": timeline.done,
        "prompt_tokens": usage and usage.prompt_tokens,
        "output_tokens": usage and usage.output_tokens,
        "cached_tokens": usage and usage.cached_tokens,
        "rates": {"prefill": breakdown.prefill_rate, "decode": breakdown.decode_rate},
        "phases": {phase.name: ms(phase.ns) for phase in breakdown.phases},
        "counted": {
            "tokens": count and count.text_tokens,
            "prompts": count and count.prompts,
            "images": count and count.images,
            "unknown_parts": count and count.unknown_parts,
            "how": count and count.how,
        },
        "admission": {"decision": finished.admission.decision, "reason": finished.admission.reason},
        "reuse_tokens": prefix and prefix.expected,
        "ledger": {**dict.fromkeys(BINS, 0), **dict(prefix.bins)} if prefix is not None and prefix.bins else {},
        "findings": list(record.findings),
        "faults": _unsound(record),
    }


BINS = ("hit", "compulsory", "structural", "capacity", "other_replica", "text_break", "engine_gap")


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e6


def _gaps(record: RequestRecord, heard: Heard) -> dict[str, Any]:
    """Gaps by choice: the folded ones of the record, and the list that was heard."""
    out: dict[str, Any] = {}
    for gaps in record.finished.timeline.gaps:
        stamps = heard.stamps.get(gaps.choice, [])
        out[str(gaps.choice)] = {
            "list": [ms(after - before) for before, after in itertools.pairwise(stamps)],
            "count": gaps.count,
            "mean": ms(gaps.total_ns) / gaps.count if gaps.count else None,
            "p50": ms(gaps.p50_ns) if gaps.count else None,
            "p99": ms(gaps.p99_ns) if gaps.count else None,
            "max": ms(gaps.max_ns) if gaps.count else None,
        }
    return out


def _unsound(record: RequestRecord) -> list[str]:
    """What no record may say."""
    phases, total_ns = record.breakdown.phases, record.finished.timeline.total_ns
    faults = [f"phase {phase.name} is {phase.ns} ns" for phase in phases if phase.ns < 0]
    if (parts_ns := sum(phase.ns for phase in phases)) != total_ns:
        faults.append(f"the phases sum to {parts_ns} ns, the total is {total_ns} ns")
    return faults


# --- metrics --------------------------------------------------------------------------------------------------------

_COUNTERS = (
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_known_prompt_tokens",
    "cache_unknown_requests",
    "prompt_unknown_requests",
    "cold_loads",
    "requests",
)
_TIMES = {
    "ttfb": "phasegate_ttfb_seconds",
    "ttft": "phasegate_ttft_seconds",
    "itl": "phasegate_itl_seconds",
    "tpot": "phasegate_tpot_seconds",
    "duration": "phasegate_request_duration_seconds",
    "overhead": "phasegate_overhead_seconds",
    "phase": "phasegate_phase_seconds",
}
_COMPARABLE = ("ttfb", "ttft", "duration", "phase")
"""Histograms that share one list of edges."""


def series(exposition: Exposition, name: str) -> float | None:
    """The number behind a logical series name."""
    head, _, rest = name.partition(".")
    if head == "labels":
        return _labels(exposition, rest)
    if head == "requests" and rest:
        return exposition.total("phasegate_requests_total", outcome=rest)
    if head == "phase":
        phase, _, part = rest.partition(".")
        return _histogram(exposition, _TIMES["phase"], part, phase=phase)
    if head in _TIMES:
        return _histogram(exposition, _TIMES[head], rest)
    return _SINGLE[name](exposition)


_SINGLE: dict[str, Callable[[Exposition], float]] = {
    **{name: lambda exposition, name=name: exposition.total(f"phasegate_{name}_total") for name in _COUNTERS},  # type: ignore[misc]
    "in_flight": lambda exposition: exposition.total("phasegate_in_flight"),
    "count_error.count": lambda exposition: exposition.total("phasegate_count_error_ratio_count"),
    "edge_lists": lambda exposition: len(exposition.edge_lists(_TIMES[name] for name in _COMPARABLE)),
}


def _labels(exposition: Exposition, name: str) -> float:
    if name == "longest":
        return max(map(len, exposition.label_values()), default=0)
    return len(exposition.label_values(name))


def _histogram(exposition: Exposition, name: str, part: str, **labels: str) -> float | None:
    if part == "count":
        return exposition.total(f"{name}_count", **labels)
    if part == "sum_ms":
        return exposition.total(f"{name}_sum", **labels) * 1e3
    buckets = exposition.buckets(name, **labels)
    if part == "highest_edge_ms":
        return max(edge for edge in buckets if edge != float("inf")) * 1e3 if buckets else None
    value = quantile({"p50_ms": 0.5, "p99_ms": 0.99}[part], buckets)
    return None if value is None else value * 1e3


def report_of(file: Path) -> dict[str, float | None]:
    """What the report command says of a file of records."""
    result = CliRunner().invoke(report, ["--json", str(file)], catch_exceptions=False)
    said = json.loads(result.output)
    return {f"{name}.{part}": value for name in ("ttft", "duration") for part, value in said[name].items()}


# --- the product in this process ------------------------------------------------------------------------------------

_HEARD: ContextVar[Heard | None] = ContextVar("heard", default=None)


class _Listening(Recorder):
    """A recorder that passes on what it is told, and notes it on the way."""

    __slots__ = ("_heard", "_recorder")

    def __init__(self, recorder: Recorder, heard: Heard) -> None:
        self._recorder = recorder
        self._heard = heard

    def event(self, t: int, event: Event) -> None:
        self._heard.event(t, event)
        self._recorder.event(t, event)

    def unreadable(self, t: int) -> None:
        self._recorder.unreadable(t)


class HeardApp(DataApp):
    """The data process, with an ear at the recorder of each exchange. `heard`: by request id."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.heard: dict[str, Heard] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            id = next((value.decode() for name, value in scope["headers"] if name.lower() == b"x-request-id"), "")
            _HEARD.set(self.heard.setdefault(id, Heard()))
        await super().__call__(scope, receive, send)

    def _tap(self, answer: Any, facts: Any, recorder: Recorder) -> tuple[Tap, bool]:
        heard = _HEARD.get()
        return super()._tap(answer, facts, _Listening(recorder, heard or Heard()))


class InProcess:
    """The product over scripted transports: the data application, and an office in the same process."""

    def __init__(self, case: Case, loop: VirtualLoop, transport: httpx.AsyncBaseTransport) -> None:
        # All state: the product's parts, its output so far, its records by id, and what they said when it stopped.
        self._loop = loop
        self._folder = tempfile.TemporaryDirectory(prefix="phasegate-case-")
        self._records_file = Path(self._folder.name) / "records.jsonl"
        tree = settings(case, engine_urls(case), records=str(self._records_file))
        self._settings = msgspec.convert(tree, Settings, strict=False)
        self._output = io.StringIO()
        self._restore = contextlib.ExitStack()
        self._listen()
        hello = Hello(pid=1, version="0", records=str(self._records_file), log_level=self._settings.log_level)
        with contextlib.redirect_stdout(self._output):
            self._office, self._exposition = build(hello)
        self.app = HeardApp(self._settings, clock=loop.clock, transport=transport, send=self._take)
        self._by_id: dict[str, list[RequestRecord]] = {}
        self._newest: RequestRecord | None = None
        self._admin: dict[str, str] = {}

    async def start(self) -> None:
        """As at start."""
        self._loop.set_exception_handler(self._complain)
        if (start := getattr(self.app, "start", None)) is not None:
            await start()

    async def stop(self) -> None:
        """Settle what waits, keep what can still be asked for, and let go."""
        self._office.tick(self._loop.clock.now_ns())
        self._collect()
        await self.app.aclose()
        self._restore.close()

    def exposition(self) -> Exposition:
        self._office.tick(self._loop.clock.now_ns())
        self._office.take(self.app.state(), self._loop.clock.now_ns())
        self._collect()
        return parse(self._text())

    def _text(self) -> str:
        return self._exposition.render()[0].decode()

    def records(self, id: str) -> list[Record]:
        return [said(record, self.app.heard.get(id, Heard())) for record in self._by_id.get(id, [])]

    def report(self) -> dict[str, float | None]:
        self._office.tick(self._loop.clock.now_ns())
        return report_of(self._records_file)

    def breakers(self) -> list[dict[str, Any]]:
        return []

    def findings(self) -> list[str]:
        return []

    def spoken(self) -> Mapping[str, str]:
        every = [to_dict(record) for records in self._by_id.values() for record in records]
        return {
            "its output": self._output.getvalue(),
            "metrics": self._text(),
            "records as JSON": json.dumps(every),
            "its configuration as JSON": json.dumps(masked(self._settings)),
            "records on disk": self._records_file.read_text() if self._records_file.exists() else "",
        }

    def tracebacks(self) -> list[str]:
        return bugs(self._output.getvalue())

    def _take(self, message: Message) -> None:
        self._office.take(message, self._loop.clock.now_ns())
        self._collect()

    def _collect(self) -> None:
        """Note what the office has published since the last look: it keeps the latest thousand."""
        fresh = []
        for record in self._office.records():
            if record is self._newest:
                break
            fresh.append(record)
        for record in reversed(fresh):
            self._by_id.setdefault(record.finished.id, []).append(record)
            self._newest = record

    def _listen(self) -> None:
        """Keep what is logged, by structlog and by logging."""
        with contextlib.redirect_stderr(self._output):
            logs.configure(self._settings.log_level, as_json=False)
        self._restore.callback(structlog.reset_defaults)
        handler, root = logging.StreamHandler(self._output), logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG if self._settings.log_level == "debug" else logging.INFO)
        self._restore.callback(root.setLevel, level)
        self._restore.callback(root.removeHandler, handler)

    def _complain(self, loop: Any, context: dict[str, Any]) -> None:
        """What asyncio would log of a task that failed unseen."""
        self._output.write(f"Traceback (most recent): {context.get('message')}: {context.get('exception')!r}\n")


def engine_urls(case: Case) -> list[str]:
    """Where the engines of a virtual case stand."""
    host = case.config.get("engine_host", "engine.test")
    return [f"http://{host}:{8000 + number}" for number in range(case.config.get("replicas", 1))]


def bugs(output: str) -> list[str]:
    """Lines of a log that tell of a bug."""
    return [
        f"logged: {line}" for line in output.splitlines() if "Traceback (most recent" in line or "proxy_fault" in line
    ]


# --- the product as shipped -----------------------------------------------------------------------------------------

START_S = 20.0
QUIET_S = 6.0
"""How long the metrics may take to show that all is over: the pulse comes once a second."""
STOP_S = 20.0
PULSE_S = 1.2
"""A little more than between two pulses."""


class Shipped:
    """`phasegate serve` as a process of its own, started by this module so that an ear is at its recorders."""

    def __init__(self, case: Case, urls: list[str]) -> None:
        # All state: the folder with its files, its ports, the process, and what it said.
        self._folder = tempfile.TemporaryDirectory(prefix="phasegate-case-")
        folder = Path(self._folder.name)
        self._records_file, self._said_file = folder / "records.jsonl", folder / "said.jsonl"
        self._output_file, self._config_file = folder / "output.txt", folder / "phasegate.toml"
        self.port, self._admin_port = free_port(), free_port()
        tree = settings(
            case,
            urls,
            listen=f"127.0.0.1:{self.port}",
            admin=f"127.0.0.1:{self._admin_port}",
            records=str(self._records_file),
        )
        self._config_file.write_text(toml(tree))
        self._said_file.touch()
        self._process: subprocess.Popen[bytes]
        self._spoken: dict[str, str] = {}

    async def start(self) -> None:
        """Until both listeners answer."""
        command = [
            sys.executable,
            "-m",
            "tests.cases.product",
            str(self._said_file),
            "--config",
            str(self._config_file),
        ]
        with self._output_file.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        end_s = time.monotonic() + START_S
        while not await self._answers():
            if time.monotonic() > end_s or self._process.poll() is not None:
                raise RuntimeError(f"serve did not start: {self._output_file.read_text()[-2000:]}")
            await asyncio.sleep(0.1)

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            await self._get("/healthz")
        except OSError:
            return False
        return True

    async def stop(self) -> None:
        """As a service manager does."""
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, STOP_S)
        finally:
            self._process.kill()
        self._spoken["its output"] = self._output_file.read_text()
        self._spoken["records on disk"] = self._records_file.read_text() if self._records_file.exists() else ""

    async def scrape(self) -> Exposition:
        """Its metrics now, as far as the last pulse told."""
        await asyncio.sleep(PULSE_S)
        self._spoken["metrics"] = await self._get("/metrics")
        return parse(self._spoken["metrics"])

    async def quiet(self) -> Exposition:
        """Its metrics once they show that all is over, and its JSON."""
        end_s = time.monotonic() + QUIET_S
        now = await self.scrape()
        while series(now, "in_flight") and time.monotonic() < end_s:
            now = await self.scrape()
        for path in ("/api/requests?limit=1000", "/api/engines", "/api/config"):
            self._spoken[path] = await self._get(path)
        return now

    async def _get(self, path: str) -> str:
        def fetch() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._admin_port}{path}", timeout=10) as answer:
                return str(answer.read().decode())

        return await asyncio.to_thread(fetch)

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._said_file.read_text().splitlines() if line.endswith("}")]

    def ids(self) -> list[str]:
        """Ids of all records so far."""
        return [line["id"] for line in self._lines()]

    def records(self, id: str) -> list[Record]:
        return [line["said"] for line in self._lines() if line["id"] == id]

    def report(self) -> dict[str, float | None]:
        return report_of(self._records_file)

    def breakers(self) -> list[dict[str, Any]]:
        return []

    def findings(self) -> list[str]:
        return []

    def spoken(self) -> Mapping[str, str]:
        return self._spoken

    def tracebacks(self) -> list[str]:
        return bugs(self._spoken["its output"])

    def memory_mark(self) -> int:
        """Resident bytes now; from here on the peak counts anew."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        return self._memory("VmRSS")

    def memory_peak(self) -> int:
        """The most resident bytes since the mark."""
        return self._memory("VmHWM")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name))


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def toml(tree: dict[str, Any]) -> str:
    """Settings as a TOML file: scalars, lists of strings, tables, lists of tables."""
    plain = [f"{name} = {json.dumps(value)}" for name, value in tree.items() if not _is_table(value)]
    tables: list[str] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            tables += [f"[{name}]", toml(value)]
        elif _is_table(value):
            tables += [line for item in value for line in (f"[[{name}]]", toml(item))]
    return "\n".join([*plain, *tables, ""])


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def main(arguments: list[str]) -> None:
    """`phasegate serve` with these options, save that each record goes to a file in the words of checks, too."""
    file = Path(arguments[0]).open("a", buffering=1)  # noqa: SIM115  # open as long as the process lives

    class Told(HeardApp):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **{**named, "send": self._tell(named["send"])})

        def _tell(self, send: Callable[[Message], None]) -> Callable[[Message], None]:
            def told(message: Message) -> None:
                send(message)
                if isinstance(message, Finished):
                    breakdown = attribute(message)
                    record = RequestRecord(message, breakdown, findings(message, breakdown))
                    file.write(
                        json.dumps({"id": message.id, "said": said(record, self.heard.get(message.id, Heard()))}) + "\n"
                    )

            return told

    serve.DataApp = Told  # type: ignore[misc]
    serve.serve(arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
