"""`phasegate probe --quick URL`: what a prompt's length costs on one engine.

Short and long prompts take turns, one request at a time, through the same relay, tap and attribution that `serve` uses,
in this process. Every prompt is new, so that no prefix cache helps.
"""

import asyncio
import json
import random
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import click

from proxy.app import DataApp
from proxy.attribution.ladder import attribute
from proxy.cli import UNREACHABLE, USAGE
from proxy.cli.saying import stop, tell
from proxy.cli.strangers import modelless, silence
from proxy.clock import Clock, SystemClock
from proxy.config import Settings
from proxy.flaws import ConfigError
from proxy.fleet import Engine
from proxy.loading import load
from proxy.messages import Message
from proxy.plain import json_text, printable
from proxy.records import Finished, Outcome
from proxy.transport import Wire

SHORT, LONG = 200, 2_000
"""Prompt tokens; a tenth apart, and within the windows that engines have by default (4,096)."""

OUTPUT = 24
"""Tokens of each answer: enough for a decode rate, a second on a slow machine."""

FEW, MANY = 50, 200
"""Words of the first two requests: they load the model, and tell what a word and a chat template cost in tokens."""

BUDGET_S = 20.0
ROUNDS = 5
"""A round is one short and one long prompt; another one begins only if it will fit in the budget."""

SAME = 0.1
"""Speeds that differ by less are called the same."""

WORDS = ("the", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "are", "with", "they", "be", "at")
"""A token each, in every vocabulary seen."""

SAID = 200
"""Bytes shown of what an engine says when it refuses."""

HEAD_CHARS = 200
"""Shown of a model's name and an engine's version."""

WAITS = ("queue", "step_wait", "load")

Body = dict[str, Any]


def _ollama(model: str, prompt: str, tokens: int) -> tuple[str, Body]:
    options = {"num_predict": tokens, "temperature": 0}
    return "/api/generate", {"model": model, "prompt": prompt, "raw": True, "stream": True, "options": options}


def _llamacpp(model: str, prompt: str, tokens: int) -> tuple[str, Body]:
    return "/completion", {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "stream": True}


def _completion(model: str, prompt: str, tokens: int) -> tuple[str, Body]:
    said = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return "/v1/completions", {**said, "stream": True}


def _chat(model: str, prompt: str, tokens: int) -> tuple[str, Body]:
    messages = [{"role": "user", "content": prompt}]
    return "/v1/chat/completions", {"model": model, "messages": messages, "max_tokens": tokens, "stream": True}


ASKS: dict[str, Callable[[str, str, int], tuple[str, Body]]] = {
    "ollama": _ollama,
    "llamacpp": _llamacpp,
    "vllm": _completion,
    "sglang": _completion,
    "openai": _chat,
}
"""How each kind of engine is asked for a continuation of exactly this text; other engines may only know chat."""


class ProbeError(Exception):
    """The engine did not give what was asked for; `code` is the command's exit code."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class Seen:
    """Medians over the rounds; seconds, and tokens per second. None: the engine does not say."""

    prompt_tokens: int
    output_tokens: int | None
    ttft_s: float
    waiting_s: float | None
    prefill_rate: float | None
    decode_rate: float | None
    decode_span: tuple[float, float] | None = None
    """Slowest and fastest round: a difference that lies within is noise."""


@dataclass(frozen=True, slots=True)
class Result:
    """What `--json` prints."""

    engine: str
    version: str | None
    model: str
    rounds: int
    short: Seen
    long: Seen


class Probe:
    """One engine, asked through a data process of our own; `say` is told of progress.

    State: the app, and what has ended in it.
    """

    def __init__(self, app: DataApp, clock: Clock, told: list[Message], say: Callable[[str], None]) -> None:
        self._app = app
        self._clock = clock
        self._told = told
        self._say = say
        self._engine: Engine = app.fleet.engines[0]

    async def run(self, model: str | None) -> Result:
        """Warm up, then as many rounds as the budget has. Raises ProbeError."""
        await self._app.lookout.look_at_all()
        engine = self._engine
        if not engine.answers:
            raise ProbeError(await silence(engine), UNREACHABLE)
        chosen = model or next(iter(engine.models), None)
        if chosen is None:
            raise ProbeError(await modelless(engine), USAGE)
        begun = self._clock.now_ns()
        self._say(f"warming up {chosen} on {engine.kind}")
        few, many = [_prompt_tokens(await self._ask(chosen, words, 1)) for words in (FEW, MANY)]
        per_word = max(many - few, 1) / (MANY - FEW)
        await self._app.lookout.look_at_all()  # Ollama tells a model's window once it is loaded
        sizes = [MANY + round((tokens - many) / per_word) for tokens in (SHORT, self._long(chosen))]
        rounds: list[list[Finished]] = []
        while len(rounds) < ROUNDS and self._fits(begun, len(rounds)):
            self._say(f"round {len(rounds) + 1} of {ROUNDS} at most: a short prompt, a long one")
            rounds.append([await self._ask(chosen, words, OUTPUT) for words in sizes])
        short, long = (_seen([pair[place] for pair in rounds]) for place in (0, 1))
        return Result(engine.kind, engine.fingerprint.version, chosen, len(rounds), short, long)

    def _fits(self, begun: int, rounds: int) -> bool:
        spent_s = (self._clock.now_ns() - begun) / 1e9
        return rounds == 0 or spent_s * (rounds + 1) / rounds <= BUDGET_S

    def _long(self, model: str) -> int:
        window = self._engine.fingerprint.window(model)
        return LONG if window is None else max(SHORT, min(LONG, window - 2 * OUTPUT))

    async def _ask(self, model: str, words: int, tokens: int) -> Finished:
        path, body = ASKS[self._engine.kind](model, _prompt(words), tokens)
        self._told.clear()
        said = await _post(self._app, path, json.dumps(body).encode())
        await self._app.idle()
        (finished,) = (message for message in self._told if isinstance(message, Finished))
        if finished.outcome is Outcome.ENGINE_REJECTED:
            why = said.decode("utf-8", "replace").strip()  # of a prompt of ours: no record may hold them
            raise ProbeError(f"the engine refuses this request: {why or finished.error}", USAGE)
        if finished.outcome is not Outcome.COMPLETED or finished.timeline.first_token_ns is None:
            why = finished.error or f"{finished.outcome}, status {finished.status}, no token"
            raise ProbeError(f"the engine gave no answer: {why}", UNREACHABLE)
        return finished


def _prompt(words: int) -> str:
    """New within a token or two, and a token a word."""
    return " ".join(random.choices(WORDS, k=words))


def _prompt_tokens(finished: Finished) -> int:
    if finished.usage is not None and finished.usage.prompt_tokens:
        return finished.usage.prompt_tokens
    return finished.counted.n if finished.counted is not None and finished.counted.n else 0


async def _post(app: DataApp, path: str, body: bytes) -> bytes:
    """One request of a client that reads at once and stays; the first bytes of the answer's body."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": headers}
    parts: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body}]

    async def receive() -> MutableMapping[str, Any]:
        if not parts:
            await asyncio.Event().wait()
        return parts.pop()

    said = bytearray()

    async def send(message: MutableMapping[str, Any]) -> None:
        said.extend(message.get("body", b"")[: SAID - len(said)])

    await app(scope, receive, send)
    return bytes(said)


def _seen(answers: Sequence[Finished]) -> Seen:
    bills = [attribute(finished) for finished in answers]
    waits = [{phase.name: phase.ns for phase in bill.phases} for bill in bills]
    told = all("prefill" in phases for phases in waits)
    outputs = [finished.usage.output_tokens for finished in answers if finished.usage is not None]
    return Seen(
        prompt_tokens=round(median(map(_prompt_tokens, answers))),
        output_tokens=None if None in outputs or not outputs else round(median(filter(None, outputs))),
        ttft_s=median((finished.timeline.first_token_ns or 0) / 1e9 for finished in answers),
        waiting_s=median(sum(phases.get(name, 0) for name in WAITS) / 1e9 for phases in waits) if told else None,
        prefill_rate=_median(
            [
                bill.prefill_rate or _fresh_rate(finished, phases)
                for bill, finished, phases in zip(bills, answers, waits, strict=True)
            ]
        ),
        decode_rate=_median([bill.decode_rate for bill in bills]),
        decode_span=_span([bill.decode_rate for bill in bills]),
    )


def _fresh_rate(finished: Finished, phases: dict[str, int]) -> float | None:
    """Prefill's speed where the engine does not say what was cached (Ollama): nothing was, every prompt is new."""
    tokens, prefill = _prompt_tokens(finished), phases.get("prefill")
    return tokens * 1e9 / prefill if prefill and tokens else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _span(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None


def render(result: Result, url: str) -> str:
    """For people: two columns, and what they mean."""
    rounds = "1 round" if result.rounds == 1 else f"{result.rounds} rounds, medians"
    head = printable(f"{result.model} on {result.engine} {result.version or ''}".rstrip(), HEAD_CHARS)
    rows = [("", "short", "long"), *(_row(result, *row) for row in ROWS)]
    table = "\n".join(f"{name:<15}{short:>14}{long:>14}".rstrip() for name, short, long in rows)
    return f"{head} at {url}, {rounds}, one request at a time\n\n{table}\n\n{_sentence(result)}"


Show = Callable[[Any], str]

ROWS: tuple[tuple[str, str, Show], ...] = (
    ("prompt tokens", "prompt_tokens", lambda tokens: f"{tokens:,}"),
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
