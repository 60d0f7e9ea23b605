"""Reads the recorded exchanges, and turns them into what the data process would have handed over."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proxy.engines.inflight import InFlight
from proxy.engines.runners import Runners
from proxy.records import EngineReport, Evidence, Finished, Outcome, RequestFacts, Timeline, Usage

GOLDEN = Path(__file__).parent / "golden"
Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


def facts(row: Row) -> RequestFacts:
    native = row["path"].startswith("/api/")
    return RequestFacts(
        dialect="ollama" if native else "openai",
        kind=row["path"].rpartition("/")[2],
        route="inference",
        model=row.get("model"),
        n=row["n"],
        prompts=row.get("prompts", 1),
        options=tuple(row.get("options", {}).items()),
    )


def timeline(row: Row, choices: int = 1) -> Timeline:
    end = ns(row["end"]) or 0
    return Timeline(
        at_s=row["sent"],
        total_ns=end,
        dispatched_ns=0,
        head_ns=ns(row["head"]),
        role_ns=ns(row["role"]),
        first_token_ns=ns(row["first"]),
        first_answer_ns=ns(row["first"]),
        last_token_ns=ns(row["last"]),
        last_byte_ns=None if row["aborted"] else end,
        streamed=row["stream"],
        token_events=row["tokens"],
        choices=row["n"] if row["tokens"] else 0,
        finish=row.get("finish"),
    )


def usage(row: Row) -> Usage | None:
    report, said = row["report"] or {}, row["usage"]
    if "eval_count" in report or "prompt_eval_count" in report:
        return Usage(report.get("prompt_eval_count"), report.get("eval_count"))
    if "prompt_n" in report:
        cached = report.get("cache_n")
        return Usage(report["prompt_n"] + (cached or 0), report["predicted_n"], cached)
    return Usage(*said) if said else None


def report(row: Row) -> EngineReport | None:
    said = row["report"] or {}
    if "total_duration" in said:
        return EngineReport(
            source="ollama.durations",
            total_ns=said["total_duration"],
            load_ns=said.get("load_duration", 0),
            prefill_ns=said.get("prompt_eval_duration", 0),
            decode_ns=said.get("eval_duration", 0),
        )
    if "prompt_ms" in said:
        return EngineReport(
            source="llamacpp.timings",
            prefill_ns=round(said["prompt_ms"] * 1e6),
            decode_ns=round(said["predicted_ms"] * 1e6),
            fresh_tokens=said["prompt_n"],
            output_tokens=said["predicted_n"],
            covers_all=row["n"] == 1 and row.get("prompts", 1) == 1,
        )
    if "queue_time_ms" in said:
        return EngineReport(
            source="vllm.metrics",
            queue_ns=round(said["queue_time_ms"] * 1e6),
            prefill_ns=round(said["time_to_first_token_ms"] * 1e6),
            decode_ns=round(said["generation_time_ms"] * 1e6) if said.get("generation_time_ms") is not None else None,
        )
    return None


def finished(row: Row, evidence: Evidence) -> Finished:
    return Finished(
        id=row["id"],
        engine="e",
        facts=facts(row),
        outcome=Outcome.CLIENT_GONE if row["aborted"] else Outcome.COMPLETED,
        status=row.get("status", 200),
        timeline=timeline(row),
        evidence=evidence,
        usage=usage(row),
        report=report(row),
    )


def replay(run: list[Row], runners: Runners) -> Iterator[tuple[Row, Finished]]:
    """Every exchange of a run in the order of their ends, with the evidence that the in-flight table gives."""
    table = InFlight(runners)
    moments: list[tuple[int, int, str, Row]] = []
    for row in run:
        sent = round(row["sent"] * 1e9)
        moments.append((sent, 0, "sent", row))
        if row["first"] is not None:
            moments.append((sent + (ns(row["first"]) or 0), 1, "first", row))
        moments.append((sent + (ns(row["end"]) or 0), 2, "end", row))
    for t, _, what, row in sorted(moments, key=lambda moment: moment[:2]):
        if what == "sent":
            table.began(row["id"], t, facts(row))
            table.dispatched(row["id"], t)
        elif what == "first":
            table.first_token(row["id"], t)
        else:
            said = report(row)
            wait = None
            if said is not None and said.total_ns is not None:
                wait = said.total_ns - (said.prefill_ns or 0) - (said.decode_ns or 0)
            yield row, finished(row, table.ended(row["id"], t, wait))
