"""The OpenAI dialect as vLLM speaks it, with its traps.

* Headers of a stream leave before the queue; the role chunk leaves with the first token.
* `metrics.time_to_first_token_ms` is prefill. The object is missing for n > 1 and for several prompts, and in streams
  rides on the usage chunk only.
* `prompt_tokens_details` is there only where the flag is on; running usage never has it.
* A token at the limit shares its chunk with the finish reason; an end mark makes a finish chunk of its own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proxy.sim.asks import OWN_LENGTH, Ask, Rejected, count_of
from proxy.sim.jobs import Token, Truth
from proxy.sim.words import encode, render

MILLISECOND = 1_000_000
"""Nanoseconds."""

FINGERPRINT = "vllm-0.33.0-phasegate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Which of vLLM's flags are set."""

    request_metrics: bool = True
    """`--enable-per-request-metrics`."""
    prompt_details: bool = True
    """`--enable-prompt-tokens-details`."""
    request_id_headers: bool = True
    """`--enable-request-id-headers`."""
    stream_interval: int = 1
    """`--stream-interval`: tokens a chunk; the first token and the last go at once."""
    max_queued: int | None = None
    """`--max-num-queued-reqs`: requests waiting and running, before new ones get 503."""


def load(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; raises `Rejected`."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Rejected(400, f"1 validation error: JSON decode error: {error}", "Bad Request", "body") from error
    if not isinstance(said, dict):
        raise Rejected(400, "1 validation error: Input should be a valid dictionary", "Bad Request", "body")
    return said


def messages_of(said: dict[str, Any]) -> list[tuple[str, str]]:
    """Role and text of each message; raises `Rejected` where there is no list of messages."""
    messages = said.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise Rejected(400, "1 validation error: messages: Field required", "Bad Request", "body.messages")
    return [(str(message.get("role", "user")), _text(message.get("content"))) for message in messages]


def prompt_of(said: dict[str, Any]) -> tuple[int, ...]:
    """Token ids of a chat: the rendered template, tools behind a system message, else first, as most templates do."""
    tools, messages = [("tools", json.dumps(tool)) for tool in _listed(said.get("tools"))], messages_of(said)
    lead = [message for message in messages[:1] if message[0] == "system"]
    return encode(render([*lead, *tools, *messages[len(lead) :]]))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def prompts_of(said: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Token ids of a completion's prompts: a text, ids, or a list of either; raises `Rejected`."""
    prompt = said.get("prompt")
    many = prompt if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else [prompt]
    read = tuple(encode(one) if isinstance(one, str) else tuple(_listed(one)) for one in many)
    if not all(read) or not all(isinstance(id, int) for ids in read for id in ids):
        raise Rejected(400, "1 validation error: prompt: Field required", "Bad Request", "body.prompt")
    return read


def read(kind: str, said: dict[str, Any], id: str, window: int) -> Ask:
    """What a chat or completion request asks for; raises `Rejected`."""
    prompts = (prompt_of(said),) if kind == "chat" else prompts_of(said)
    options = said.get("stream_options")
    options = options if isinstance(options, dict) else {}
    limit = count_of(said.get("max_completion_tokens")) or count_of(said.get("max_tokens"))
    longest = max(map(len, prompts))
    if longest + (limit or 1) > window:
        raise Rejected(
            400,
            f"This model's maximum context length is {window} tokens. However, you requested {limit or 0} output "
            f"tokens and your prompt contains at least {longest} input tokens. Please reduce the length of the input "
            "prompt.",
            param="input_tokens",
        )
    return Ask(
        id=f"{'chatcmpl' if kind == 'chat' else 'cmpl'}-{id}",
        kind=kind,
        model=str(said.get("model", "")),
        prompts=prompts,
        limit=limit or (window - longest if window - longest < OWN_LENGTH else None),
        n=count_of(said.get("n")) or 1,
        stream=said.get("stream") is True,
        usage=options.get("include_usage") is True,
        continuous=options.get("continuous_usage_stats") is True,
        salt=str(said.get("cache_salt") or ""),
    )


class VllmVoice:
    """vLLM's chunks and bodies. State: tokens made per choice, and text not said yet."""

    content_type = "text/event-stream; charset=utf-8"
    early = True

    def __init__(self, ask: Ask, habits: Habits, created: int) -> None:
        self._ask, self._habits = ask, habits
        self._made = [0] * len(ask.answers)
        self._unsaid = [""] * len(ask.answers)
        shape = ("chat.completion", "chat.completion.chunk") if ask.kind == "chat" else ("text_completion",) * 2
        self._object, self._chunk_object = shape
        self._head = {"id": ask.id, "created": created, "model": ask.model}

    def token(self, token: Token) -> bytes:
        """The token's chunk, with a role chunk before the first; nothing where a later chunk will hold it."""
        choice = self._ask.choice(token.id)
        self._made[choice] += 1
        self._unsaid[choice] += self._ask.text(token)
        if token.index % self._habits.stream_interval and not token.last:
            return b""
        role = b""
        if self._ask.kind == "chat" and token.index == 0:
            role = self._chunk(choice, {"delta": {"role": "assistant", "content": ""}}, None, 0)
        text, self._unsaid[choice] = self._unsaid[choice], ""
        finish = self._ask.finish if token.last else None
        return role + self._chunk(choice, self._delta(text), finish, self._made[choice])

    def end(self, truths: Mapping[str, Truth]) -> bytes:
        """The usage chunk where it was asked for, and the terminator."""
        if not self._ask.usage:
            return b"data: [DONE]\n\n"
        last = {**self._head, "object": self._chunk_object, "choices": [], "usage": self._usage(truths)}
        return event({**last, "system_fingerprint": FINGERPRINT, **self._metrics(truths)}) + b"data: [DONE]\n\n"

    def body(self, truths: Mapping[str, Truth]) -> bytes:
        """The whole answer."""
        choices = [self._whole(choice) for choice in range(len(self._ask.answers))]
        said = {**self._head, "object": self._object, "choices": choices, "system_fingerprint": FINGERPRINT}
        return json.dumps({**said, "usage": self._usage(truths), **self._metrics(truths)}).encode()

    def _whole(self, choice: int) -> dict[str, Any]:
        text = self._ask.whole(choice)
        said = {"message": {"role": "assistant", "content": text}} if self._ask.kind == "chat" else {"text": text}
        return {"index": choice, **said, "logprobs": None, "finish_reason": self._ask.finish, "stop_reason": None}

    def _delta(self, text: str) -> dict[str, Any]:
        if self._ask.kind == "completion":
            return {"text": text}
        return {"delta": {"content": text} if text else {}}

    def _chunk(self, choice: int, said: dict[str, Any], finish: str | None, tokens: int) -> bytes:
        one = {"index": choice, **said, "logprobs": None, "finish_reason": finish}
        chunk = {**self._head, "object": self._chunk_object, "choices": [one]}
        if self._ask.continuous:
            prompt = len(self._ask.prompts[choice // self._ask.n])
            chunk["usage"] = {"prompt_tokens": prompt, "total_tokens": prompt + tokens, "completion_tokens": tokens}
        return event(chunk)

    def _usage(self, truths: Mapping[str, Truth]) -> dict[str, Any]:
        prompt = sum(map(len, self._ask.prompts))
        output = sum(truth.output_tokens for truth in truths.values())
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + output,
            "completion_tokens": output,
            "prompt_tokens_details": None,
        }
        if self._habits.prompt_details:
            first = next(iter(truths.values()))
            usage["prompt_tokens_details"] = {"cached_tokens": first.cached_tokens}
        return usage

    def _metrics(self, truths: Mapping[str, Truth]) -> dict[str, Any]:
        if not self._habits.request_metrics or len(truths) > 1:
            return {}
        truth = next(iter(truths.values()))
        queue, prefill, decode = truth.queue_ns or 0, truth.prefill_ns or 0, truth.decode_ns or 0
        tokens = truth.output_tokens
        return {
            "metrics": {
                "time_to_first_token_ms": prefill / MILLISECOND,
                "generation_time_ms": decode / MILLISECOND,
                "queue_time_ms": queue / MILLISECOND,
                "mean_itl_ms": decode / MILLISECOND / (tokens - 1) if tokens > 1 else None,
                "tokens_per_second": tokens * 1e9 / (prefill + decode) if prefill + decode else None,
            }
        }


def event(said: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(said, separators=(",", ":")).encode() + b"\n\n"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
