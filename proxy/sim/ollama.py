"""Ollama's own dialect and its OpenAI shape, with their traps.

* Nothing is written before the first token, headers included.
* All six counters are integers, durations in nanoseconds; a zero is absent. `load_duration` holds the wait for the
  model's runner; the wait for a slot is what the others leave of `total_duration`.
* Cached tokens are never reported. The OpenAI shape has no durations; its finish chunk, usage chunk and `[DONE]` are
  one write, and its first chunk carries role and text together.
* A chat over the window is cut in half, silently.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from proxy.sim.asks import Ask, Rejected, count_of
from proxy.sim.jobs import Token, Truth
from proxy.sim.openai import event, load, messages_of, read
from proxy.sim.words import encode, render

DEFAULT_WINDOW = 4096
"""Tokens: Ollama's default `num_ctx` with little VRAM."""


def ask_of(path: str, body: bytes, id: str) -> Ask:
    """What a request on one of Ollama's routes asks for; raises `Rejected`."""
    said = load(body)
    if path.startswith("/v1/"):
        kind = "chat" if path == "/v1/chat/completions" else "completion"
        return replace(read(kind, said, id, 1 << 30), runner=_runner(str(said.get("model")), {}), n=1)
    options = said.get("options") or {}
    chat = path == "/api/chat"
    window = count_of(options.get("num_ctx")) or DEFAULT_WINDOW
    return Ask(
        id=id,
        kind="chat" if chat else "generate",
        model=str(said.get("model", "")),
        prompts=(_cut(_chat(said) if chat else _generate(said), window),),
        limit=1 if loads_only(path, said) else count_of(options.get("num_predict")),
        stream=said.get("stream") is not False,
        runner=_runner(str(said.get("model", "")), options),
    )


def loads_only(path: str, said: dict[str, Any]) -> bool:
    """An empty prompt only brings the model into memory."""
    return not (said.get("messages") if path == "/api/chat" else said.get("prompt"))


class OllamaVoice:
    """Ollama's lines and bodies."""

    content_type = "application/x-ndjson"
    early = False

    def __init__(self, ask: Ask, at_s: float, load_only: bool) -> None:
        self._ask, self._load_only = ask, load_only
        self._at = datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")

    def token(self, token: Token) -> bytes:
        """The token's line; the last token shares the final line."""
        text = self._ask.text(token)
        if self._load_only or (token.last and not text):
            return b""
        return self._line({**self._said(text), "done": False})

    def end(self, truths: Mapping[str, Truth]) -> bytes:
        """The final line."""
        return self._line({**self._said(""), **self._final(truths)})

    def body(self, truths: Mapping[str, Truth]) -> bytes:
        """The whole answer."""
        text = "" if self._load_only else self._ask.whole(0)
        return json.dumps({**self._header(), **self._said(text), **self._final(truths)}).encode()

    def _header(self) -> dict[str, Any]:
        return {"model": self._ask.model, "created_at": self._at}

    def _line(self, said: dict[str, Any]) -> bytes:
        return json.dumps({**self._header(), **said}, separators=(",", ":")).encode() + b"\n"

    def _said(self, text: str) -> dict[str, Any]:
        if self._ask.kind == "generate":
            return {"response": text}
        return {"message": {"role": "assistant", "content": text}}

    def _final(self, truths: Mapping[str, Truth]) -> dict[str, Any]:
        if self._load_only:
            return {"done": True, "done_reason": "load"}
        truth = next(iter(truths.values()))
        counters = {
            "total_duration": (truth.last_token_ns or 0) - truth.arrived_ns,
            "load_duration": truth.step_wait_ns,
            "prompt_eval_count": truth.prompt_tokens,
            "prompt_eval_duration": truth.prefill_ns,
            "eval_count": truth.output_tokens,
            "eval_duration": truth.decode_ns,
        }
        said = {name: value for name, value in counters.items() if value}
        return {"done": True, "done_reason": self._ask.finish, **said}


class OllamaOpenAIVoice:
    """Ollama's OpenAI shape."""

    content_type = "text/event-stream"
    early = False

    def __init__(self, ask: Ask, at_s: float) -> None:
        self._ask = ask
        self._head = {"id": ask.id, "created": int(at_s), "model": ask.model, "system_fingerprint": "fp_ollama"}

    def token(self, token: Token) -> bytes:
        """The token's chunk; the first says the role too."""
        text = self._ask.text(token)
        if not text:
            return b""
        said: dict[str, Any] = {"text": text}
        if self._ask.kind == "chat":
            said = {"delta": {**({} if token.index else {"role": "assistant"}), "content": text}}
        return self._chunk([{"index": 0, **said, "finish_reason": None}], None)

    def end(self, truths: Mapping[str, Truth]) -> bytes:
        """Finish, usage where it was asked for, and the terminator, in one write."""
        said: dict[str, Any] = {"delta": {}} if self._ask.kind == "chat" else {"text": ""}
        finish = self._chunk([{"index": 0, **said, "finish_reason": self._ask.finish}], None)
        usage = self._chunk([], self._usage(truths)) if self._ask.usage else b""
        return finish + usage + b"data: [DONE]\n\n"

    def body(self, truths: Mapping[str, Truth]) -> bytes:
        """The whole answer."""
        text = self._ask.whole(0)
        chat = self._ask.kind == "chat"
        said: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        choice = {"index": 0, **said, "finish_reason": self._ask.finish}
        kind = "chat.completion" if chat else "text_completion"
        return json.dumps({**self._head, "object": kind, "choices": [choice], "usage": self._usage(truths)}).encode()

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> bytes:
        kind = "chat.completion.chunk" if self._ask.kind == "chat" else "text_completion"
        return event({**self._head, "object": kind, "choices": choices, **({"usage": usage} if usage else {})})

    def _usage(self, truths: Mapping[str, Truth]) -> dict[str, Any]:
        truth = next(iter(truths.values()))
        total = truth.prompt_tokens + truth.output_tokens
        return {
            "prompt_tokens": truth.prompt_tokens,
            "completion_tokens": truth.output_tokens,
            "total_tokens": total,
        }


def _runner(model: str, options: dict[str, Any]) -> str:
    """A change of the window loads the model anew."""
    return f"{model} num_ctx={count_of(options.get('num_ctx')) or DEFAULT_WINDOW}"


def _chat(said: dict[str, Any]) -> tuple[int, ...]:
    return encode(render(messages_of({"messages": said.get("messages") or []})))


def _generate(said: dict[str, Any]) -> tuple[int, ...]:
    system = [("system", str(said["system"]))] if said.get("system") else []
    prompt = str(said.get("prompt", ""))
    return encode(prompt if said.get("raw") and prompt else render([*system, ("user", prompt)]))


def _cut(prompt: tuple[int, ...], window: int) -> tuple[int, ...]:
    if len(prompt) <= window:
        return prompt
    return prompt[-(window // 2) :]


def unknown(model: str) -> Rejected:
    """No such model."""
    return Rejected(404, f"model '{model}' not found", "not_found_error")
