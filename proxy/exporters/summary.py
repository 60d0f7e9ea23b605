"""What many records say together: percentiles over all of them, failures beside them.

Percentiles are nearest rank over the raw values, merged before they are taken: a mean of percentiles is none. Latency
is of inference requests that completed (ttft: of those that produced a token); how many failed is said next to it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from math import ceil
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from proxy.claims import OF_ONE
from proxy.names import shortest
from proxy.records import PHASES, Outcome

QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
SLOWEST = 10
"""Inference requests that are listed by name: a pull of minutes is no news."""
GROUPS = 50
"""Groups shown of each kind, the largest; the rest are one."""
REST = "(others)"


Seconds = Annotated[float, Meta(ge=-1e12, le=1e12)]
"""Thirty thousand years either way: beyond them sums and milliseconds are no numbers any more."""
Moment = Annotated[float, Meta(ge=0, le=1e11)]
"""Seconds since the epoch, to the year 5138: what calendars can say."""
Count = Annotated[int, Meta(ge=0, le=10**15)]


class PhaseRow(msgspec.Struct, frozen=True):
    """A phase, as the contract has it."""

    s: Seconds
    klass: str = msgspec.field(name="class")


class Tokens(msgspec.Struct, frozen=True):
    """Tokens, as the contract has them."""

    prompt: Count | None = None
    cached: Count | None = None
    output: Count | None = None


class Prefix(msgspec.Struct, frozen=True):
    """The prompt's place, as the contract has it."""

    family: str | None = None


class Row(msgspec.Struct, frozen=True):
    """What a report needs of one record in the form of the contract."""

    id: str
    at: Moment
    outcome: str
    total_s: Seconds
    engine: str = ""
    route: str = "inference"
    model: str | None = None
    tenant: str | None = None
    ttft_s: Seconds | None = None
    tpot_s: Seconds | None = None
    phases: dict[str, PhaseRow] = {}
    tokens: Tokens = Tokens()
    prefix: Prefix = Prefix()
    findings: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        """An inference request that completed: its times say what clients get."""
        return self.outcome == Outcome.COMPLETED and self.route == "inference"


def report(records: Iterable[Mapping[str, Any]], window_s: float | None = None) -> dict[str, Any]:
    """The report over records in the form of the contract (`contract.to_dict`)."""
    return summarize([msgspec.convert(record, Row) for record in records], window_s)


def summarize(rows: Sequence[Row], window_s: float | None = None) -> dict[str, Any]:
    """The report: all together, by phase and class, by engine, model, tenant, family of prompts and time, the slowest.

    `window_s`: length of a time window; None: a twelfth of the whole, on a round number of seconds.
    """
    if not rows:
        return {"requests": 0, **_latency(rows)}
    start, end = min(row.at for row in rows), max(row.at for row in rows)
    inference = [row for row in rows if row.route == "inference"]
    length = window_s or _round_up((end - start) / 12)
    first: dict[str, str] = {}  # spelling of each model
    return {
        "from": start,
        "to": end,
        **_group(rows),
        "tokens": _tokens(rows),
        "findings": dict(Counter(finding for row in rows for finding in row.findings).most_common()),
        "phases": _phases(rows),
        "engines": _by(rows, lambda row: row.engine or "(none)"),
        "models": _by(rows, lambda row: first.setdefault(shortest(row.model), row.model) if row.model else "(none)"),
        "tenants": _by([row for row in rows if row.tenant is not None], lambda row: row.tenant or ""),
        "families": _by([row for row in rows if row.prefix.family is not None], lambda row: row.prefix.family or ""),
        "windows": _windows(rows, length),
        "slowest": [_slow(row) for row in nlargest(SLOWEST, inference, key=lambda row: row.total_s)],
    }


def distribution(seconds: Iterable[float]) -> dict[str, float | int | None]:
    """Count, percentiles and maximum of times, in milliseconds; unknown where there are none."""
    values = sorted(seconds)
    if not values:
        return {"count": 0, **dict.fromkeys((*QUANTILES, "max_ms"))}
    ranks = {name: _ms(values[ceil(q * len(values)) - 1]) for name, q in QUANTILES.items()}
    return {"count": len(values), **ranks, "max_ms": _ms(values[-1])}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 6)


def _latency(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "duration": distribution(row.total_s for row in rows if row.well),
        "ttft": distribution(row.ttft_s for row in rows if row.ttft_s is not None),
        "tpot": distribution(row.tpot_s for row in rows if row.tpot_s is not None),
    }


def _group(rows: Sequence[Row]) -> dict[str, Any]:
    outcomes = Counter(row.outcome for row in rows)
    failures = {name: count for name, count in outcomes.most_common() if name != Outcome.COMPLETED}
    return {"requests": len(rows), "completed": outcomes[Outcome.COMPLETED], "failures": failures, **_latency(rows)}


def _by(rows: Sequence[Row], key: Callable[[Row], str]) -> dict[str, Any]:
    """Groups by name, the largest first; names beyond GROUPS share one."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
    shown = {name: _group(members) for name, members in ranked[:GROUPS]}
    rest = [row for _, members in ranked[GROUPS:] for row in members]
    return {**shown, REST: _group(rest)} if rest else shown


def _phases(rows: Sequence[Row]) -> dict[str, Any]:
    """Phase -> class -> distribution, over completed requests, in the order of life."""
    values: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row.well:
            for name, phase in row.phases.items():
                values.setdefault(name, {}).setdefault(phase.klass, []).append(phase.s)
    return {
        name: {klass: distribution(times) for klass, times in values[name].items()} for name in PHASES if name in values
    }


def _tokens(rows: Sequence[Row]) -> dict[str, int]:
    tokens = [_of_all(row) for row in rows]
    known = [each for each in tokens if each.cached is not None and each.prompt is not None]
    return {
        "prompt": sum(each.prompt or 0 for each in tokens),
        "output": sum(each.output or 0 for each in tokens),
        "cached": sum(each.cached or 0 for each in known),
        "cache_known_prompt": sum(each.prompt or 0 for each in known),
    }


def _of_all(row: Row) -> Tokens:
    """The row's tokens, without those of one prompt or choice of several: they are no part of a sum."""
    parts = [name for name in ("prompt", "output", "cached") if f"{OF_ONE}{name}_tokens" in row.findings]
    return msgspec.structs.replace(row.tokens, **dict.fromkeys(parts)) if parts else row.tokens


def _windows(rows: Sequence[Row], length: float) -> list[dict[str, Any]]:
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(int(row.at // length), []).append(row)
    return [{"from": index * length, "s": length, **_group(groups[index])} for index in sorted(groups)]


def _slow(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "at": row.at,
        "engine": row.engine,
        "model": row.model,
        "outcome": row.outcome,
        "total_s": row.total_s,
        "ttft_s": row.ttft_s,
        "phases": {name: phase.s for name, phase in row.phases.items()},
    }


def _round_up(seconds: float) -> float:
    """The next of 1, 2, 5, 10, ... minutes and hours that a reader can count in."""
    steps = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200)
    return next((float(step) for step in steps if step >= seconds), 86400.0)
