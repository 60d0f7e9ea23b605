"""`phasegate audit`: where prompt tokens come from, and which few characters break the prefix cache."""

import gzip
import json
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import click

from proxy.cli import UNREACHABLE, USAGE
from proxy.prefixes.canon import Encode
from proxy.prefixes.ledger import Books
from proxy.prefixes.offline import Offline, Trace
from proxy.prefixes.wording import headline, table
from proxy.records import PrefixVerdict
from proxy.tokens.pieces import pieces
from proxy.tokens.vocabularies import load
from proxy.wire.request import read_facts
from proxy.wire.routes import classify

PROGRESS = 5_000
"""Requests between two words to a waiting reader: a few seconds."""

TRACE_BLOCK = 512
"""Tokens of a block in Mooncake's traces."""

ENCODING = "cl100k_base"
"""The vocabulary of the canonical rendering."""

DEFAULT_CAPACITIES = (100_000, 500_000, 1_000_000, 2_000_000, 3_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000)
"""Of a trace, where none is asked for: the sizes at which the curve of Mooncake's paper is read."""

CHAT = "/v1/chat/completions"
"""The path of a request that does not say its own."""

TIMEOUT_S = 10
"""For a live proxy to answer."""


@click.command()
@click.argument("source", required=False)
@click.option("--trace", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A trace of block ids.")
@click.option("--block", type=click.IntRange(min=1), help="Tokens a block. [16; 512 for traces]")
@click.option(
    "--capacity", "capacities", type=click.IntRange(min=1), multiple=True, help="KV pool, in tokens; repeatable."
)
@click.option(
    "--prefill-rate", type=click.FloatRange(min=0, min_open=True), help="Prompt tokens a second, to speak of time."
)
@click.option("--token", envvar="PHASEGATE_ADMIN_TOKEN", default="", help="Of a running proxy's admin listener.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def audit(
    source: str | None,
    trace: Path | None,
    block: int | None,
    capacities: tuple[int, ...],
    prefill_rate: float | None,
    token: str,
    as_json: bool,
) -> None:
    """Audit prefix caching: of requests in a file, of a trace, of a records file, or of a running proxy.

    SOURCE is a file of requests (JSON lines with id, t_s, path, body, output_text), a records file, either of them
    gzipped too, or the address of a running proxy's admin listener.
    """
    if trace is not None:
        report = _trace(trace, block or TRACE_BLOCK, capacities or DEFAULT_CAPACITIES)
    elif source is None:
        raise click.UsageError("give a file, an address, or --trace FILE")
    elif source.startswith(("http://", "https://")):
        report = _live(source, token)
    else:
        report = _file(Path(source), block or 16, capacities)
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        click.echo(headline(report, prefill_rate))
        click.echo(table(report, prefill_rate))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file; a line that is none ends the program with a word about it."""
    if not path.is_file():
        raise click.UsageError(f"{path}: no such file")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if number % PROGRESS == 0:
                click.echo(f"{number:,} requests read", err=True)
            try:
                found = json.loads(line)
            except ValueError as error:
                raise click.UsageError(f"{path}, line {number}: {error}") from None
            if not isinstance(found, dict):
                raise click.UsageError(f"{path}, line {number}: not a JSON object")
            yield found


def _trace(path: Path, block: int, capacities: tuple[int, ...]) -> dict[str, Any]:
    trace = Trace(block, capacities)
    for line in _lines(path):
        trace.add(line["input_length"], line["hash_ids"])
    return trace.report()


def _file(path: Path, block: int, capacities: tuple[int, ...]) -> dict[str, Any]:
    audit = Offline(_encoder(), block, capacities, secrets.token_bytes(16))
    books, families = Books(), _Families()
    read = skipped = recorded = 0
    for line in _lines(path):
        read += 1
        if "v" in line:
            settled = _settled(books, line)
            recorded += settled
            if settled:
                families.add(line)
        else:
            skipped += not _take(audit, line)
    if skipped:
        click.echo(f"{skipped:,} of {read:,} lines hold no prompt", err=True)
    if recorded:
        return {**books.report(), "families": families.rows()}
    click.echo("searching for what breaks prefixes", err=True)
    return audit.report(list(audit.breakers()))


class _Families:
    """The families that a running proxy named in its records. State: one row each."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    def add(self, line: dict[str, Any]) -> None:
        """One record whose prompt was audited; without a name it is of no family that is known."""
        prefix, reuse = line["prefix"], line["prefix"].get("infinite") or 0
        if (name := prefix.get("family")) is None:
            return
        about = {"family": str(name), "engine": line.get("engine"), "model": line.get("model")}
        sums = {"requests": 0, "prompt_tokens": 0, "reuse": 0, "hit_requests": 0}
        row = self._rows.setdefault(str(name), {**about, **sums})
        row["requests"] += 1
        row["prompt_tokens"] += sum(prefix["bins"].values())
        row["reuse"] += reuse
        row["hit_requests"] += reuse > 0

    def rows(self) -> list[dict[str, Any]]:
        """As `/api/prefixes` has them, of the records alone."""
        return list(self._rows.values())


def _encoder() -> Encode:
    """Text to tokens, in pieces of bounded work: a file may hold anything."""
    encode = load(ENCODING).encode_ordinary
    return lambda text: [token for piece in pieces(text) for token in encode(piece)]


def _settled(books: Books, line: dict[str, Any]) -> bool:
    """One record into the books; whether its prompt was audited."""
    prefix = line.get("prefix")
    if not prefix or not prefix.get("bins"):
        return False
    bins = tuple(prefix["bins"].items())
    verdict = PrefixVerdict(
        block=1,
        tokens=sum(prefix["bins"].values()),
        expected=prefix.get("expected"),
        attainable=prefix.get("attainable"),
        infinite=prefix.get("infinite"),
        bins=bins,
    )
    books.add(str(line.get("engine")), verdict, prefix.get("reported"))
    return True


def _take(audit: Offline, line: dict[str, Any]) -> bool:
    """One request into the audit; whether it holds a prompt."""
    body = json.dumps(line.get("body"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    facts = read_facts(classify("POST", line.get("path", CHAT)), "application/json", body)
    if facts.prompt is None:
        return False
    at_s, answer = float(line.get("t_s") or 0), line.get("output_text")
    audit.add(str(line.get("id")), at_s, facts.model or "", facts.prompt, answer)
    return True


def _live(address: str, token: str) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        with urlopen(Request(address.rstrip("/") + "/api/prefixes", headers=headers), timeout=TIMEOUT_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except HTTPError as error:
        error.close()
        click.echo(f"phasegate: {address}: {error.code} {error.reason}", err=True)
        sys.exit(UNREACHABLE)
    except URLError as error:
        click.echo(f"phasegate: {address}: {error.reason}", err=True)
        sys.exit(UNREACHABLE)
    except ValueError:
        click.echo(f"phasegate: {address}: no audit there", err=True)
        sys.exit(USAGE)
