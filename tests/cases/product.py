"""What the runner knows of phasegate: settings, what a record says, names of series, the report.

This file, `inprocess` and `shipped` are the only ones of this package that name anything of `proxy`.
"""

import functools
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from click.testing import CliRunner

from proxy.admission.keyring import Keyring
from proxy.cli.audit import audit
from proxy.cli.report import report
from proxy.events import Event
from proxy.records import RequestRecord
from tests.cases.case import Case
from tests.cases.exposition import Exposition, quantile
from tests.cases.seen import Exchange, Record, ms
from tests.support import imports

ROOMS = {
    "tokens": ("proxy.app", "proxy.tokens"),
    "admission": ("proxy.app", "proxy.admission"),
    "queueing": ("proxy.app", "proxy.admission.slots"),
    "prefixes": ("proxy.app", "proxy.prefixes"),
    "store": ("proxy.cli.report", "proxy.exporters.summary"),
    "scrape": ("proxy.office.main", "proxy.office.scrape"),
}
"""Rooms beyond relay and spine: where each is put in, and what is imported there once it is built."""

HOUR_S = 3600.0
"""What a case's timeouts are where it says nothing."""


@functools.cache
def rooms() -> frozenset[str]:
    """The rooms that are built, as the imports of the sources tell."""
    edges = imports.graph()
    return frozenset(
        room
        for room, (root, module) in ROOMS.items()
        if any(name == module or name.startswith(f"{module}.") for name in imports.reachable(edges, [root]))
    )


class Product(Protocol):
    """What the runner asks of a product that has played a case."""

    def records(self, id: str) -> list[Record]:
        """Its records of one exchange, in the words of checks."""

    def report(self) -> dict[str, float | None]:
        """What the report command says of this case's records."""

    def findings(self) -> list[str]:
        """Findings over all records."""

    def spoken(self) -> Mapping[str, str]:
        """All that it says by itself, by place."""

    def tracebacks(self) -> list[str]:
        """Lines of its log that tell of a bug."""


# --- settings -------------------------------------------------------------------------------------------------------


def settings(case: Case, urls: list[str], folder: Path, **more: Any) -> dict[str, Any]:
    """The product's settings as plain values, from the words of a case's `config`. `folder`: for files of its own."""
    config = case.config
    upstream = [{"url": url, "kind": case.engine_kind, **_upstream(case, len(urls))} for url in urls]
    tree: dict[str, Any] = {
        "upstream": upstream,
        "ask_usage": config.get("ask_usage", False),
        "log_level": config.get("log_level", "info"),
        "timeouts": {
            "connect_s": HOUR_S,
            "total_s": 0.0,
            "body_s": HOUR_S,
            "first_byte_s": config.get("first_byte_timeout_ms", HOUR_S * 1e3) / 1e3,
            "idle_s": config.get("idle_timeout_ms", HOUR_S * 1e3) / 1e3,
        },
        **more,
    }
    if "body_limit_bytes" in config:
        tree["body_limit_bytes"] = config["body_limit_bytes"]
    if "encoding" in config:
        tree["tokens"] = {"vocabulary": config["encoding"], "models": {"*": config["encoding"]}}
    if limits := _limits(config):
        tree["limit"] = limits
    if "tenants" in config:
        file = folder / "keys.json"
        file.write_text(_keys(config["tenants"]))
        tree["tenants"] = {"keys_file": str(file)}
    return tree


def _limits(config: dict[str, Any]) -> list[dict[str, Any]]:
    """One rule for everybody, where the case limits something, and one for each tenant that has a rate."""
    mode = config.get("mode", "enforce")
    names = ("max_prompt_tokens", "max_concurrency", "queue_length")
    named = {name: config[name] for name in names if name in config}
    rules: list[dict[str, Any]] = []
    if named:
        rules.append({"name": "case", "mode": mode, "per": ["engine"], "queue_timeout_s": HOUR_S, **named})
    for tenant in config.get("tenants", ()):
        if (rate := tenant.get("requests_per_minute")) is not None:
            name = tenant["name"]
            rules.append({"name": f"rate of {name}", "mode": mode, "tenants": [name], "requests_per_minute": rate})
    return rules


def _keys(tenants: list[dict[str, Any]]) -> str:
    """The file of hashed keys."""
    keyring = Keyring(salt="salt of a test")
    for number, tenant in enumerate(tenants):
        keyring = keyring.add(tenant["name"], tenant["key"], f"key-{number}", "2026-01-01")
    return keyring.dumps()


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

    def pieces(self, stamps: Sequence[int], text: str) -> None:
        self.text.append(text)
        self.stamps.setdefault(0, []).extend(stamps)


def said(record: RequestRecord, heard: Heard) -> dict[str, Any]:
    """A record in the words of checks."""
    finished, breakdown = record.finished, record.breakdown
    timeline, usage, count, prefix = finished.timeline, finished.usage, finished.counted, finished.prefix
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
            "count": gaps.number,
            "mean": ms(gaps.total_ns) / gaps.number if gaps.number else None,
            "p50": ms(gaps.p50_ns) if gaps.number else None,
            "p99": ms(gaps.p99_ns) if gaps.number else None,
            "max": ms(gaps.max_ns) if gaps.number else None,
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
    said = json.loads(result.stdout)
    return {f"{name}.{part}": value for name in ("ttft", "duration") for part, value in said[name].items()}


def breakers_of(case: Case, exchanges: list[Exchange], folder: Path) -> list[dict[str, Any]]:
    """The prefix breakers that the audit command finds in this case's requests."""
    file = folder / "requests.jsonl"
    file.write_text("\n".join(filter(None, map(_audited, exchanges))))
    options = ["--json", "--block", str(case.config.get("block_size", 16)), str(file)]
    result = CliRunner().invoke(audit, options, catch_exceptions=False)
    found: list[dict[str, Any]] = json.loads(result.stdout)["breakers"]
    return found


def _audited(exchange: Exchange) -> str | None:
    """One line of the audit's input; None for a request without JSON."""
    request, answer = exchange.request, exchange.answers[-1]
    try:
        body = json.loads(request.body)
    except ValueError:
        return None
    said = exchange.records[-1]["text"] if exchange.records else ""
    line = {"id": exchange.id, "t_s": answer.began_ns / 1e9, "path": request.target, "body": body, "output_text": said}
    return json.dumps(line)


def bugs(output: str) -> list[str]:
    """Lines of a log that tell of a bug."""
    return [
        f"logged: {line}" for line in output.splitlines() if "Traceback (most recent" in line or "proxy_fault" in line
    ]
