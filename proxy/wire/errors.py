"""How each dialect spells an error: read from an engine's body, and rendered for ours.

Shapes: OpenAI and vLLM `{"error": {...}}`, vLLM's 401 and Ollama and TGI `{"error": "..."}`, SGLang flat
`{"object": "error", "message": ...}`, FastAPI `{"detail": ...}`, Anthropic `{"type": "error", "error": {...}}`,
llama.cpp an object with a whole number for its code.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from proxy.errors import ProxyError, Shed
from proxy.wire.fields import mapping

MESSAGE_LIMIT = 200
"""Characters kept of an engine's message."""

Body = dict[str, Any]


# --- read -------------------------------------------------------------------------------------------------------------


def complaint(stated: object, otherwise: str = "error") -> str:
    """The message of an engine's error, cut to 200 characters; `otherwise` where it has none.

    For matching only. It may repeat the prompt, so it is never logged.
    """
    if isinstance(stated, str):
        return stated[:MESSAGE_LIMIT] or otherwise
    error = mapping(stated)
    for name in ("message", "error", "detail", "type"):
        if error.get(name):
            return complaint(error[name], otherwise)
    return otherwise


# --- rendered ---------------------------------------------------------------------------------------------------------


def render(dialect: str, error: ProxyError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of an error of ours, in the caller's own shape."""
    status = status_of(error)
    shape = SHAPES.get(dialect, _openai)
    body = json.dumps(shape(error, status), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return status, headers + _retry(error), body


def status_of(error: ProxyError) -> int:
    """The HTTP status of an error of ours."""
    return error.http_status if isinstance(error, Shed) else error.status


def _retry(error: ProxyError) -> list[tuple[bytes, bytes]]:
    """When to come back. Whole seconds are rounded up, for a client that comes a moment early is refused again;
    clients that know `retry-after-ms` (openai-python reads it first) get the exact time."""
    if not isinstance(error, Shed) or error.retry_after_s is None or not math.isfinite(error.retry_after_s):
        return []
    wait = max(error.retry_after_s, 0.001)
    return [(b"retry-after", b"%d" % math.ceil(wait)), (b"retry-after-ms", b"%d" % math.ceil(wait * 1000))]


def _openai(error: ProxyError, status: int) -> Body:
    """OpenAI's object; what every client of `/v1` reads."""
    return {"error": {"message": str(error), "type": error.type, "param": error.param, "code": error.code}}


def _ollama(error: ProxyError, status: int) -> Body:
    """Ollama's string."""
    return {"error": str(error)}


def _anthropic(error: ProxyError, status: int) -> Body:
    """Anthropic's typed pair."""
    kind = ANTHROPIC_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": str(error)}}


def _llamacpp(error: ProxyError, status: int) -> Body:
    """llama.cpp's object: the code is the status."""
    kind = LLAMACPP_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    if error.code == "context_length_exceeded":
        kind = "exceed_context_size_error"
    return {"error": {"code": status, "message": str(error), "type": kind}}


def _sglang(error: ProxyError, status: int) -> Body:
    """SGLang's flat object."""
    return {"object": "error", "message": str(error), "type": error.type, "param": error.param, "code": status}


SHAPES: dict[str, Callable[[ProxyError, int], Body]] = {
    "openai": _openai,
    "responses": _openai,
    "passthrough": _openai,
    "ollama": _ollama,
    "anthropic": _anthropic,
    "llamacpp": _llamacpp,
    "sglang": _sglang,
}
"""Dialect -> how it spells an error; OpenAI's shape for all others."""

ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}

LLAMACPP_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    501: "not_supported_error",
    503: "unavailable_error",
}
