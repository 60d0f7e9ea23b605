"""Streams to order: events of OpenAI's chat as engines send them, and scripts made of them. Times in ms."""

import json
from typing import Any

from tests.support.script import Read, Script

MS = 1_000_000
SSE = (("content-type", "text/event-stream"),)
JSON = (("content-type", "application/json"),)
NDJSON = (("content-type", "application/x-ndjson"),)

DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}\n\n'


def chunk(text: str = "", finish: str | None = None) -> bytes:
    """One chat event: text, or the finish reason."""
    delta = {"content": text} if text else {}
    event = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def stream(*reads: tuple[int, bytes], **more: Any) -> Script:
    """An event stream."""
    return Script(headers=SSE, reads=tuple(Read(at * MS, data) for at, data in reads), **more)


def plain(status: int, body: object, at_ms: int = 5) -> Script:
    """A JSON answer."""
    return Script(status, JSON, (Read(at_ms * MS, json.dumps(body).encode()),))


def ollama(at_ms: int = 1000, **durations_ms: int) -> Script:
    """Ollama's answer in one line, with these durations (`load`, `prompt_eval`, `eval`); the rest of `total` waits."""
    counters = {f"{name}_duration": ms * MS for name, ms in durations_ms.items()}
    line = {"model": "m", "message": {"role": "assistant", "content": "ok"}, "done": True, "done_reason": "stop"}
    counts = {"total_duration": at_ms * MS, "prompt_eval_count": 9, "eval_count": 2}
    return Script(200, JSON, (Read(at_ms * MS, json.dumps({**line, **counts, **counters}).encode()),))


WHOLE = stream((100, chunk("Hi")), (200, chunk(finish="stop")), (210, DONE))


def chat(**more: Any) -> bytes:
    """A chat request's body."""
    return json.dumps({"model": "m1", "messages": [{"role": "user", "content": "Say hi"}], **more}).encode()
