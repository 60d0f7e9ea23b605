"""`phasegate report`: what the recorded requests say together."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from proxy.cli.apart import apart
from proxy.cli.config import FILE, found, standing
from proxy.cli.finite import Finite
from proxy.cli.saying import stop, tell
from proxy.cli.sieve import Sieve
from proxy.cli.tables import as_csv, as_markdown, as_text
from proxy.clock import SystemClock
from proxy.exporters.means import Stretch, compared
from proxy.exporters.reader import Unreadable, Wanted, lines, means
from proxy.exporters.summary import Row, summarize
from proxy.plain import json_text

PROGRESS = 50_000
"""Records between two words to a waiting reader: about half a second."""

WANTS = "give a store or a records file, as `phasegate serve --store FILE.db --records FILE.jsonl` writes them"

LONGEST_S = 10**9
"""Of a time window: thirty years."""

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

FORMS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "text": as_text,
    "json": lambda report: json_text(json.dumps(report, indent=2, ensure_ascii=False)),
    "csv": as_csv,
    "md": as_markdown,
}


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds since the epoch, of an ISO date, a number of such seconds, or `30m`, `2h`, `7d` (ago)."""
    if value is None:
        return None
    ago = re.fullmatch(r"(\d{1,9})([smhd])", value)
    if ago is not None:
        return SystemClock().wall_s() - int(ago[1]) * UNITS_S[ago[2]]
    try:
        return float(value) if re.fullmatch(r"\d+(\.\d*)?", value) else datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError):  # OverflowError: year 9999, and the zone adds to it
        raise click.BadParameter(f"{value!r}: use 2026-01-31T12:00, seconds since the epoch, or 30m, 2h, 7d") from None


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--json", is_flag=True, help="The whole report as JSON.")
@click.option("--csv", is_flag=True, help="One line per distribution.")
@click.option("--md", is_flag=True, help="As Markdown.")
@click.option("--rows", is_flag=True, help="The records themselves, one JSON line each.")
@click.option("--since", callback=moment, help="Requests that arrived then or later: 2026-01-31T12:00, 2h, 7d.")
@click.option("--until", callback=moment, help="Requests that arrived before.")
@click.option("--model", help="Requests for this model.")
@click.option("--window", type=Finite(1, LONGEST_S), help="Seconds a time window has.")
@click.option("--config", "settings", type=FILE, help="TOML file that names the store, where FILE is not given.")
@click.pass_context
def report(
    context: click.Context,
    /,
    file: Path | None,
    since: float | None,
    until: float | None,
    model: str | None,
    window: float | None,
    settings: Path | None,
    **forms: bool,
) -> None:
    """Percentiles per phase, model, class, tenant, family of prompts and time; the slowest requests; failures beside
    latency.

    FILE is a store (SQLite) or a records file (JSONL, gzipped too); without it, the one of the settings. A store also
    has what the engines' own metrics said: their means are shown beside ours, where a report is of all models.
    """
    apart(context, *forms)
    apart(context, "file", "settings")
    apart(context, "rows", "window")
    form = next((form for form, chosen in forms.items() if chosen), "text")
    path, wanted = file or _configured(settings), Wanted(since, until, model)
    if str(path).startswith(("http:/", "https:/")):  # a path has lost one of its slashes
        raise click.UsageError(f"that is an address; {WANTS}")
    sieve = Sieve(path, "records", PROGRESS)
    records = _picked(sieve, path, wanted)
    try:
        if form == "rows":
            for line, _ in records:
                click.echo(_shown(line))
        else:
            rows = [row for _, row in records]
            if not rows:
                some = sieve.read or wanted != Wanted()
                tell(f"phasegate: {path}: {'no record fits' if some else 'holds no record yet'}")
            seen = summarize(rows, window)
            click.echo(FORMS[form]({**seen, **_means(means(path, wanted))}))
    except Unreadable as error:
        stop(f"{error}; {WANTS}")


def _means(found: Iterable[Stretch]) -> dict[str, Any]:
    """`means`: engine -> mean -> its own beside ours; nothing at all where nothing was kept."""
    engines: dict[str, dict[str, Any]] = {}
    for one in found:
        seen = {"from": one.since_s, "to": one.until_s, **asdict(compared(one.theirs, one.ours))}
        engines.setdefault(one.engine, {})[one.name] = seen
    return {"means": engines} if engines else {}


def _configured(settings: Path | None) -> Path:
    """The store of the settings, else their records file."""
    named = standing(found(settings, {})).settings
    name = named.store or named.records
    if not name:
        raise click.UsageError("no FILE given, and the settings name no store and no records file")
    return Path(name)


def _picked(sieve: Sieve, path: Path, wanted: Wanted) -> Iterator[tuple[bytes, Row]]:
    """The records wanted, each as it stands and as a row. Raises Unreadable for a file of other things."""
    decode = msgspec.json.Decoder(Row).decode
    return ((line, row) for line, row in sieve.rows(lines(path, wanted), decode) if _fits(row, wanted))


def _shown(line: bytes) -> bytes:
    """The record as it stands; what cannot be printed is written in JSON's other way."""
    text = line.rstrip(b"\n").decode("utf-8", "replace")
    return json_text(text).encode()


def _fits(row: Row, wanted: Wanted) -> bool:
    return (
        (wanted.since_s is None or row.at >= wanted.since_s)
        and (wanted.until_s is None or row.at < wanted.until_s)
        and (wanted.model is None or row.model == wanted.model)
    )
