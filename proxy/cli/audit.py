"""`phasegate audit`: where prompt tokens come from, and which few characters break the prefix cache."""

import json
import secrets
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import click
import msgspec

from proxy.cli import UNREACHABLE, USAGE, sources
from proxy.cli.apart import apart, idle
from proxy.cli.finite import Finite
from proxy.cli.saying import stop, tell
from proxy.cli.sieve import Sieve
from proxy.exporters.reader import Unreadable, Wanted, lines
from proxy.plain import fault, json_text, paragraph, printable, without_user
from proxy.prefixes.alike import Alike
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

LINE_BYTES = 256 * 1024 * 1024
"""Longest line: the largest body that a proxy buffers by default, each of its bytes escaped."""
ANSWER_BYTES = 64 * 1024 * 1024
"""Largest answer of a live proxy; a busy one's has a hundredth of it."""
LARGEST_BLOCK, LARGEST_POOL, FASTEST = 10**6, 10**12, 10**9
"""Of the options, all in tokens: beyond what machines have."""

WHERE = "http://HOST:PORT of a proxy's admin listener (`serve` says it at its start; http://127.0.0.1:8801 by default)"
WANTS = f"give a file of requests (JSON lines with `body`), a records file or a store of `phasegate serve`, or {WHERE}"
WANTS_TRACE = "a trace has JSON lines with `input_length` and `hash_ids`"

GUARDED = (401, 403, 421)
"""How an admin listener answers whom it does not let in."""
FAILED = 500
"""From here on it is the listener's trouble, not the caller's."""
SAID = 200
"""Characters shown of what a listener says that does not answer."""

TIMEOUT_S = 10
"""For a live proxy to answer."""

T = TypeVar("T")


@click.command()
@click.argument("source", required=False)
@click.option("--trace", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A trace of block ids.")
@click.option("--block", type=click.IntRange(1, LARGEST_BLOCK), help="Tokens a block. [16; 512 for traces]")
@click.option(
    "--capacity",
    "capacities",
    type=click.IntRange(1, LARGEST_POOL),
    multiple=True,
    help="KV pool, in tokens; repeatable.",
)
@click.option(
    "--prefill-rate", type=Finite(0, FASTEST, min_open=True), help="Prompt tokens a second, to speak of time."
)
@click.option("--token", envvar="PHASEGATE_ADMIN_TOKEN", default="", help="Of a running proxy's admin listener.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.pass_context
def audit(
    context: click.Context,
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
    gzipped too, a store, or the address of a running proxy's admin listener.
    """
    if bool(source) is (trace is not None):
        raise click.UsageError(f"{WANTS}, or --trace FILE" if trace is None else "give a source or --trace, not both")
    apart(context, "as_json", "prefill_rate")
    if _is_address(source or ""):
        idle(context, ("block", "capacities"), "a running proxy has blocks and a pool of its own")
    try:
        report = _report(source or "", trace, block, capacities, token)
    except Unreadable as error:
        stop(f"{error}; {WANTS if trace is None else WANTS_TRACE}")
    if trace is None and "breakers" not in report:
        idle(context, ("block", "capacities"), "records were made by a proxy, with blocks and a pool of its own")
    if as_json:
        click.echo(json_text(json.dumps(report, ensure_ascii=False)))
    else:
        click.echo(printable(headline(report, prefill_rate)))
        if trace is None and "breakers" not in report:
            tell("records hold no text: what breaks prefixes is found of a running proxy, or of a file of requests")
        click.echo(paragraph(table(report, prefill_rate)))


def _report(
    source: str, trace: Path | None, block: int | None, capacities: tuple[int, ...], token: str
) -> dict[str, Any]:
    """Raises Unreadable."""
    if trace is not None:
        return _trace(trace, block or TRACE_BLOCK, capacities or DEFAULT_CAPACITIES)
    if _is_address(source):
        return _live(source, token)
    return _file(Path(source), block or 16, capacities)


def _is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _rows(sieve: Sieve, path: Path, decode: Callable[[bytes], T]) -> Iterator[T]:
    return (row for _, row in sieve.rows(lines(path, Wanted(), LINE_BYTES), decode))


def _trace(path: Path, block: int, capacities: tuple[int, ...]) -> dict[str, Any]:
    trace = Trace(block, capacities)
    for one in _rows(Sieve(path, "requests", PROGRESS), path, sources.blocks):
        trace.add(one.input_length, one.hash_ids)
    if not trace.tokens:
        raise Unreadable(f"{path}: holds no prompt")
    return trace.report()


def _file(path: Path, block: int, capacities: tuple[int, ...]) -> dict[str, Any]:
    audit = Offline(_encoder(), block, capacities, secrets.token_bytes(16))
    books, families = Books(), Alike()
    audited = records = skipped = 0
    sieve = Sieve(path, "requests", PROGRESS)
    for line in _rows(sieve, path, sources.line):
        if line.v is None:
            skipped += not _take(audit, line)
            continue
        records += 1
        if (verdict := _settled(line)) is not None:
            audited += 1
            books.add(line.engine, verdict)
            families.add(line.engine, line.model, verdict)
    _account(path, sieve, skipped)
    if records and not audited:
        tell(f"phasegate: {path}: no prompt of these {records:,} records was audited (prefixes.audit)")
    if audited:
        return {**books.report(), "families": families.rows()}
    tell("searching for what breaks prefixes")
    return audit.report(list(audit.breakers()))


def _account(path: Path, sieve: Sieve, skipped: int) -> None:
    """Tells what could not be audited. Raises Unreadable where a file holds nothing that ever could be."""
    if not sieve.good:
        tell(f"phasegate: {path}: holds nothing yet")
    elif skipped == sieve.good:
        raise Unreadable(f"{path}: holds no requests (none of {skipped:,} lines has a prompt)")
    elif skipped:
        tell(f"{skipped:,} of {sieve.read:,} lines hold no prompt")


def _encoder() -> Encode:
    """Text to tokens, in pieces of bounded work: a file may hold anything."""
    encode = load(ENCODING).encode_ordinary
    return lambda text: [token for piece in pieces(text) for token in encode(piece)]


def _settled(line: sources.Line) -> PrefixVerdict | None:
    """What became of a record's prompt, as a running proxy enters it; None: it was not audited."""
    prefix = line.prefix
    if prefix is None or not prefix.bins or line.tokens.prompt is None:
        return None
    return PrefixVerdict(
        block=1,
        tokens=sum(prefix.bins.values()),
        expected=prefix.expected,
        attainable=prefix.attainable,
        infinite=prefix.infinite,
        bins=tuple(prefix.bins.items()),
        family=prefix.family,
        reported=prefix.reported,
    )


def _take(audit: Offline, line: sources.Line) -> bool:
    """One request into the audit; whether it holds a prompt."""
    facts = read_facts(classify("POST", line.path), "application/json", bytes(line.body))
    if facts.prompt is None:
        return False
    audit.add(str(line.id), line.t_s or 0.0, facts.model or "", facts.prompt, line.output_text)
    return True


def _live(address: str, token: str) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    shown = without_user(address)
    try:
        with urlopen(Request(address.rstrip("/") + "/api/prefixes", headers=headers), timeout=TIMEOUT_S) as answer:
            return sources.answer(answer.read(ANSWER_BYTES))
    except HTTPError as error:
        with error:
            stop(f"{shown}: {_refusal(error)}", UNREACHABLE if error.code >= FAILED else USAGE)
    except (msgspec.DecodeError, RecursionError) as error:
        stop(f"{shown}: no audit there ({error}); give {WHERE}")
    except (ValueError, InvalidURL):
        stop(f"{shown}: cannot be asked; is it http://HOST:PORT, and the token one?")
    except (OSError, HTTPException) as error:
        stop(f"{shown}: {_unreached(error)}; give {WHERE}", UNREACHABLE)


def _refusal(error: HTTPError) -> str:
    """Why there is no audit, in the words of an admin listener if it is one."""
    if error.code in GUARDED:
        said = b""
        with suppress(OSError, HTTPException):
            said = error.read(SAID)
        where = "; give it as --token or PHASEGATE_ADMIN_TOKEN" if error.code == GUARDED[0] else ""
        return f"{error.code}, {said.decode('utf-8', 'replace').partition(chr(10))[0]}{where}"
    return f"no admin listener of phasegate is there ({error.code} {error.reason}); give {WHERE}"


def _unreached(error: Exception) -> str:
    """Why nothing can be asked there."""
    why = error.reason if isinstance(error, URLError) else error
    if isinstance(why, ssl.SSLError):
        return "no TLS that can be trusted is spoken there"
    if isinstance(why, HTTPException) and not isinstance(why, OSError):
        return "what listens there speaks no HTTP"
    return fault(why) if isinstance(why, Exception) else str(why)
