"""What a prompt's length costs on one engine: short and long prompts take turns, one request at a time.

They go through the same relay, tap and attribution that `serve` uses, in this process. Every prompt is new, so that no
prefix cache helps.
"""

import asyncio
import json
import random
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from proxy.app import DataApp
from proxy.attribution.ladder import attribute
from proxy.cli import UNREACHABLE, USAGE
from proxy.cli.strangers import modelless, silence
from proxy.clock import Clock
from proxy.engine import Engine
from proxy.engines.fingerprint import owner
from proxy.lookout import PROBE_S
from proxy.messages import Message
from proxy.records import Finished, Outcome

SHORT, LONG = 200, 2_000
"""Prompt tokens; a tenth apart, and within the windows that engines have by default (4,096)."""

OUTPUT = 24
"""Tokens of each answer: enough for a decode rate, a second on a slow machine."""

FEW, MANY = 50, 200
"""Words of the first two requests: they load the model, and tell what a word and a chat template cost in tokens."""

BUDGET_S = 20.0
ROUNDS = 5
"""A round is one short and one long prompt; another one begins only if it will fit in the budget."""

WORDS = ("the", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "are", "with", "they", "be", "at")
"""A token each, in every vocabulary seen."""

SAID = 200
"""Bytes shown of what an engine says when it refuses."""

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
    cached_tokens: int | None
    """Of these, out of the engine's cache: a chat template, as every request begins with it."""
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
    gateway: bool
    """It is asked through one, which names it in its list of models."""
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
        behind = await self._behind(chosen) if engine.kind == "openai" else None
        self._say(f"warming up {chosen} on {behind or engine.kind}")
        few, many = [_prompt_tokens(await self._ask(chosen, words, 1)) for words in (FEW, MANY)]
        per_word = max(many - few, 1) / (MANY - FEW)
        await self._app.lookout.look_at_all()  # Ollama tells a model's window once it is loaded
        sizes = [MANY + round((tokens - many) / per_word) for tokens in (SHORT, self._long(chosen))]
        rounds: list[list[Finished]] = []
        while len(rounds) < ROUNDS and self._fits(begun, len(rounds)):
            self._say(f"round {len(rounds) + 1} of {ROUNDS} at most: a short prompt, a long one")
            rounds.append([await self._ask(chosen, words, OUTPUT) for words in sizes])
        short, long = (_seen([pair[place] for pair in rounds]) for place in (0, 1))
        version = engine.fingerprint.version
        return Result(behind or engine.kind, behind is not None, version, chosen, len(rounds), short, long)

    async def _behind(self, model: str) -> str | None:
        """What a gateway says that has the model."""
        page = await self._engine.fetch("/v1/models", PROBE_S)
        return None if page is None else owner(page[2], model)

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
    cached = [finished.usage.cached_tokens for finished in answers if finished.usage is not None]
    outputs = [finished.usage.output_tokens for finished in answers if finished.usage is not None]
    return Seen(
        prompt_tokens=round(median(map(_prompt_tokens, answers))),
        cached_tokens=_count(cached),
        output_tokens=_count(outputs),
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
    """Prefill's speed where the engine does not say what was cached (Ollama): nothing was, every prompt is new. Not of
    a chat, whose template is not."""
    said = finished.usage is not None and finished.usage.cached_tokens is not None
    if said or finished.facts.kind == "chat":
        return None
    tokens, prefill = _prompt_tokens(finished), phases.get("prefill")
    return tokens * 1e9 / prefill if prefill and tokens else None


def _count(tokens: Sequence[int | None]) -> int | None:
    known = [number for number in tokens if number is not None]
    return round(median(known)) if known and len(known) == len(tokens) else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _span(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
