"""`phasegate probe --quick URL`: what a prompt's length costs on one engine, measured (`probing`) and told."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from proxy.app import DataApp
from proxy.cli.probing import Probe, ProbeError, Result, Seen
from proxy.cli.saying import stop, tell
from proxy.clock import SystemClock
from proxy.config import Settings
from proxy.flaws import ConfigError
from proxy.loading import load
from proxy.messages import Message
from proxy.plain import json_text, printable
from proxy.transport import Wire

SAME = 0.1
"""Speeds that differ by less are called the same."""

HEAD_CHARS = 200
"""Shown of a model's name and an engine's version."""


def render(result: Result, url: str) -> str:
    """For people: two columns, and what they mean."""
    rounds = "1 round" if result.rounds == 1 else f"{result.rounds} rounds, medians"
    engine = f"{result.engine} behind a gateway" if result.gateway else f"{result.engine} {result.version or ''}"
    head = printable(f"{result.model} on {engine}".rstrip(), HEAD_CHARS)
    cached = result.short.cached_tokens or result.long.cached_tokens
    rows = [("", "short", "long"), *(_row(result, *row) for row in ROWS if cached or row != CACHED)]
    table = "\n".join(f"{name:<15}{short:>14}{long:>14}".rstrip() for name, short, long in rows)
    return f"{head} at {url}, {rounds}, one request at a time\n\n{table}\n\n{_sentence(result)}"


Show = Callable[[Any], str]

CACHED: tuple[str, str, Show] = ("of them cached", "cached_tokens", lambda tokens: f"{tokens:,}")
"""Shown where some are: then the first token came sooner, and prefill's speed is that of the rest."""

ROWS: tuple[tuple[str, str, Show], ...] = (
    ("prompt tokens", "prompt_tokens", lambda tokens: f"{tokens:,}"),
    CACHED,
    ("output tokens", "output_tokens", lambda tokens: f"{tokens:,}"),
    ("first token", "ttft_s", lambda seconds: f"{seconds:.3f} s"),
    ("waiting", "waiting_s", lambda seconds: f"{seconds:.3f} s"),
    ("prefill", "prefill_rate", lambda rate: f"{rate:,.0f} tok/s"),
    ("decode", "decode_rate", lambda rate: f"{rate:,.1f} tok/s"),
)


def _row(result: Result, name: str, key: str, show: Show) -> tuple[str, str, str]:
    values = (getattr(result.short, key), getattr(result.long, key))
    short, long = ("unknown" if value is None else show(value) for value in values)
    return name, short, long


def _sentence(result: Result) -> str:
    short, long = result.short, result.long
    longer = long.prompt_tokens / short.prompt_tokens
    later = long.ttft_s / short.ttft_s
    said = [f"A prompt {longer:.1f} times as long takes {later:.1f} times as long to its first token"]
    if result.rounds > 1 and short.decode_rate and long.decode_rate:
        said.append(_decode(long.decode_rate / short.decode_rate - 1, _apart(short, long)))
    if long.prefill_rate is None:
        said.append("how much of that is prefill, this engine does not say")
    return "; ".join(said) + "."


def _apart(short: Seen, long: Seen) -> bool:
    """Whether no round of one was as fast as any round of the other."""
    if short.decode_span is None or long.decode_span is None:
        return False
    return short.decode_span[0] > long.decode_span[1] or long.decode_span[0] > short.decode_span[1]


def _decode(change: float, apart: bool) -> str:
    if abs(change) < SAME:
        return "the answer is written at the same speed"
    if not apart:
        return "the speed of the answer differs by no more than from round to round"
    return f"the answer is written {abs(change):.0%} {'faster' if change > 0 else 'slower'}"


async def _probe(settings: Settings, model: str | None) -> Result:
    told: list[Message] = []
    clock = SystemClock()
    app = DataApp(settings, clock=clock, transport=Wire(), send=told.append)
    try:
        return await Probe(app, clock, told, tell).run(model)
    finally:
        await app.aclose()


@click.command()
@click.argument("url")
@click.option("--quick", is_flag=True, help="One request at a time, for about 20 s.  [the default]")
@click.option("--model", help="Which model to ask.  [the first that the engine lists]")
@click.option("--api-key", help="The engine's key, where it wants one.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def probe(url: str, quick: bool, model: str | None, api_key: str | None, as_json: bool) -> None:
    """Show what a prompt's length costs on the engine at URL: 200 against 2,000 prompt tokens, side by side."""
    try:
        settings = load(None, {}, {"upstream": [{"url": url, "api_key": api_key or ""}]}).settings
    except ConfigError as error:
        keys = {"upstream.url": "URL", "upstream.api_key": "--api-key"}  # the command line knows no settings
        said = "; ".join(f"{keys.get(flaw.key, flaw.key)}: {flaw.what}" for flaw in error.flaws)
        raise click.UsageError(printable(said)) from None
    try:
        result = asyncio.run(_probe(settings, model))
    except ProbeError as error:
        stop(str(error), error.code)
    click.echo(json_text(json.dumps(asdict(result))) if as_json else render(result, url))
