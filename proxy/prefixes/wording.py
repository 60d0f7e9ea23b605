"""An audit in words and as a table, for people."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from proxy.plain import printable
from proxy.prefixes.breakers.cost import HOUR_S, dearest, in_time, unit_of
from proxy.prefixes.breakers.finder import LEAST_REQUESTS, LEAST_TOKENS
from proxy.prefixes.ledger import BINS

FIXES = {
    "move": "moving it to the end",
    "reorder": "a fixed order, the constant part first,",
    "normalise": "one form for all",
    "keep": "keeping what was dropped",
}
"""Fix -> what it is in a sentence."""

KINDS = {
    "timestamp": "a time stamp",
    "date": "a date",
    "uuid": "a request id",
    "session_id": "a session id",
    "nonce": "a random string",
    "counter": "a counter",
    "user_name": "a name",
    "locale_number": "numbers in two notations",
    "tool_order": "the order of the tools",
    "json_key_order": "the order of JSON keys",
    "fewshot_order": "the order of the examples",
    "whitespace": "white space or line ends",
    "trailing_space": "blanks at line ends",
    "bom": "a byte order mark",
    "unicode_norm": "two Unicode forms",
    "docs_before_instructions": "documents before the instructions",
    "image_before_text": "an image before the text",
    "think_stripped": "reasoning is missing from earlier answers",
    "history_truncated": "the oldest turns are dropped",
    "history_rewritten": "earlier turns come back changed",
    "prompt_version": "variants of the prompt",
    "other": "text that varies",
}
"""Kind -> what it is in a sentence."""

MOST = 20
"""Families in the table: the largest."""

CELL_CHARS = 120
"""Of one cell."""

TELLING = 2 * LEAST_TOKENS
"""Prompt tokens of a family from which on silence means that nothing breaks it: a breaker of half the prompt would have
cost enough to be named."""

BROKEN = 0.1
"""The part of all tokens that stands behind broken prefixes from which on silence means that nobody found what breaks
them."""


def headline(report: dict[str, Any], prefill_rate: float | None = None) -> str:
    """The audit in one sentence; of a running proxy, since when it counts."""
    if (since := report.get("since")) is None:
        return _headline(report, prefill_rate)
    began = datetime.fromtimestamp(since).isoformat(" ", "seconds")
    return f"since {began}: {_headline(report, prefill_rate)}"


def _headline(report: dict[str, Any], prefill_rate: float | None) -> str:
    if "vllm_rule_infinite" in report:
        return f"ideal {_percent(report['vllm_rule_infinite'])} of {report['input_tokens']:,} prompt tokens"
    if report["totals"].get("requests") == 0:
        return "no prompts yet"
    breakers = _priced(report, prefill_rate)
    said = ", ".join(_rates(report["totals"]))
    if not breakers:
        return said + (f"; {_silence(report)}" if "breakers" in report else "")
    return f"{said}: {sentence(breakers[0], unit_of(breakers))}"


def _priced(report: dict[str, Any], prefill_rate: float | None) -> list[dict[str, Any]]:
    """The breakers, the dearest first."""
    breakers = report.get("breakers", [])
    return dearest([in_time(one, prefill_rate) for one in breakers] if prefill_rate else breakers)


def _silence(report: dict[str, Any]) -> str:
    """What it means that no breaker was found: families that are too small for the search are searched together."""
    sizes = [(one["requests"], one["prompt_tokens"]) for one in report.get("families", [])]
    small = [size for size in sizes if size[0] < LEAST_REQUESTS]
    pools = [*sizes, (sum(requests for requests, _ in small), sum(tokens for _, tokens in small))]
    needed = f"from {LEAST_REQUESTS} requests and {TELLING:,} tokens of a kind on"
    if (broken := _broken(report["totals"])) >= BROKEN:
        return f"what breaks the prefixes of {_percent(broken)} was not found ({needed} it is looked for)"
    if any(requests >= LEAST_REQUESTS and tokens >= TELLING for requests, tokens in pools):
        return "nothing breaks the prefixes"
    return f"too few to tell what breaks prefixes ({needed})"


def _broken(totals: dict[str, Any]) -> float:
    """The part of all prompt tokens that stands in text seen before, behind another beginning."""
    return float(totals.get("bins", {}).get("text_break", 0) / max(1, totals.get("prompt_tokens", 0)))


def _rates(totals: dict[str, Any]) -> Iterator[str]:
    """Ideal, attainable, delivered, as far as they are known."""
    if "reuse" in totals:
        reuse = totals["reuse"]
        yield f"ideal {_percent(reuse['inf']['rate'])}"
        for size, found in reuse.items():
            if size != "inf":
                yield f"attainable with {int(size):,} tokens of KV memory {_percent(found['rate'])}"
    else:
        known, requests = totals.get("known_requests", 0), totals.get("requests", 0)
        some = " where the cache's size is known" if totals.get("sized_requests", requests) < requests else ""
        for name, where in (("ideal", ""), ("attainable", some), ("delivered", "")):
            if totals.get(name) is not None:
                yield f"{name} {_percent(totals[name])}{where}"
        if totals.get("delivered") is not None and known < requests:
            there = totals.get("known_ideal")
            of = f" (ideal there {_percent(there)})" if there is not None else ""
            yield f"as engines say of {known:,} of {requests:,} requests{of}"
        if totals.get("delivered") is None:
            yield "delivered unknown: no engine says its cached tokens"


def sentence(breaker: dict[str, Any], unit: str) -> str:
    """One breaker in words; its price in a unit of `UNITS`."""
    place = f"the {breaker['role']} text of family {breaker['family']} changes at character {breaker['char']}"
    saves = f"{FIXES.get(breaker['fix'], breaker['fix'])} saves {_cost(breaker, unit, briefly=False)}"
    return f"{place} ({KINDS.get(breaker['kind'], breaker['kind'])}); {saves}"


def table(report: dict[str, Any], prefill_rate: float | None = None) -> str:
    """Breakers, the largest families and the curve, aligned."""
    if "vllm_rule_infinite" in report:
        rows: list[tuple[str, ...]] = [("capacity in tokens", "hit rate")]
        rows.append(("unlimited", _percent(report["vllm_rule_infinite"])))
        rows += [(f"{int(size):,}", _percent(rate)) for size, rate in report["vllm_rule_lru"].items()]
        return _aligned(rows)
    parts = [_breakers(report, prefill_rate), _engines(report), _families(report), _curve(report)]
    return "\n\n".join(_aligned(rows) for rows in parts if len(rows) > 1)


def _engines(report: dict[str, Any]) -> list[tuple[str, ...]]:
    """Where each engine's prompt tokens went, in parts of a hundred; `~`: hits are in part what was expected."""
    rows: list[tuple[str, ...]] = [("engine", "cache", "requests", "prompt tokens", *BINS)]
    for one in report.get("engines", []):
        tokens = max(1, one["prompt_tokens"])
        hit, *bins = (_percent(one["bins"][name] / tokens) for name in BINS)
        hit = f"~{hit}" if one.get("known_requests", one["requests"]) < one["requests"] else hit
        rows.append((one["engine"], one["verdict"], f"{one['requests']:,}", f"{one['prompt_tokens']:,}", hit, *bins))
    return rows


def _breakers(report: dict[str, Any], prefill_rate: float | None) -> list[tuple[str, ...]]:
    breakers = _priced(report, prefill_rate)
    unit = unit_of(breakers)
    rows: list[tuple[str, ...]] = [("breaker", "family", "where", "requests", "saves", "fix", "looks like")]
    for one in breakers:
        where = f"message {one['message']} ({one['role']}), character {one['char']}"
        looks = " | ".join(one["excerpts"][:2])
        rows.append((one["kind"], one["family"], where, f"{one['requests']:,}", _cost(one, unit), one["fix"], looks))
    return rows


def _families(report: dict[str, Any]) -> list[tuple[str, ...]]:
    # Requests are counted in our tokens and whole blocks, records in the engine's, by its rules, as in the table above.
    block = report.get("block", 1)
    reusable = f"reusable in blocks of {block}" if block > 1 else "reusable"
    rows: list[tuple[str, ...]] = [("family", "requests", "prompt tokens", reusable)]
    largest = sorted(report.get("families", []), key=lambda one: -int(one["prompt_tokens"]))
    for one in largest[:MOST]:
        share = _percent(one["reuse"] / max(1, one["prompt_tokens"]))
        rows.append((one["family"], f"{one['requests']:,}", f"{one['prompt_tokens']:,}", share))
    if len(largest) > MOST:
        rest = largest[MOST:]
        tokens = sum(one["prompt_tokens"] for one in rest)
        share = _percent(sum(one["reuse"] for one in rest) / max(1, tokens))
        rows.append(("other", f"{sum(one['requests'] for one in rest):,}", f"{tokens:,}", share))
    return rows


def _curve(report: dict[str, Any]) -> list[tuple[str, ...]]:
    """Each size that gives more than the next smaller one; memory that gives nothing is no row. Of whole blocks, where
    an engine may give single tokens."""
    curve = report.get("curve", [])
    block = next((one["block"] for one in curve if isinstance(one.get("block"), int)), report.get("block", 1))
    hits = f"hits in blocks of {block}" if block > 1 else "hits"
    rows: list[tuple[str, ...]] = [("KV memory in our tokens", "engine", hits)]
    best: dict[str, str] = {}
    for one in curve:
        engine, rate = one.get("engine", "all as one"), _percent(one["rate"])
        if rate != best.get(engine, _percent(0)):
            rows.append((f"{one['capacity_tokens']:,}", engine, rate))
        best[engine] = rate
    return rows


def _cost(breaker: dict[str, Any], unit: str, *, briefly: bool = True) -> str:
    """In a unit that is known of all; where less than an hour was observed, what that cost stands first."""
    observed_s, part = breaker.get("observed_s"), breaker.get("share_saved")
    of, _, what = unit.partition("_")
    observed = breaker.get(f"{of}_observed")
    said = _much(of, breaker[unit])
    if what == "per_hour" and observed is not None and observed_s is not None and observed_s < HOUR_S:
        pace = "" if briefly else f", {said.split()[0]} an hour at that pace"
        said = f"{_much(of, observed)} in the {observed_s:,.0f} s observed{pace}"
    elif what == "per_hour":
        said += " an hour"
    return said if part is None else f"{said} ({_percent(part)}{'' if briefly else ' of its prompt tokens'})"


def _much(of: str, count: float) -> str:
    return f"{count:,.1f} prefill seconds" if of == "seconds" else f"{count:,} of our tokens"


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"


def _aligned(table: list[tuple[str, ...]]) -> str:
    """Rows in columns. Engines, roles and excerpts come from outside."""
    rows = [[printable(cell, CELL_CHARS) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
