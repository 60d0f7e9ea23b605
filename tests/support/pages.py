"""Engines that answer look-ups: by host:port and target, the JSON that each has; what has none is 404."""

import json
from collections.abc import Callable, Mapping

from proxy.engines.fingerprint import PROBES
from tests.support.script import NOT_FOUND, Call, Read, Script

Pages = dict[str, dict[str, object] | None]
"""host:port -> target -> what is there, or how it is answered; None: the engine refuses connections."""

JSON = (("content-type", "application/json"),)
DIGEST = "765525e6017ab6ad369d812befc610782d2c43da14435f795b5922a44187b6aa"


def serving(pages: Mapping[str, Mapping[str, object] | None]) -> Callable[[Call], Script]:
    """Scripts for these pages as they stand when they are asked for."""

    def choose(call: Call) -> Script:
        site = pages.get(call.engine, {})
        if site is None:
            return Script(ending="refuse")
        if call.target not in site:
            return NOT_FOUND
        page = site[call.target]
        if isinstance(page, Script):
            return page
        body = page.encode() if isinstance(page, str) else json.dumps(page).encode()
        return Script(200, JSON, (Read(0, body),))

    return choose


def application() -> dict[str, object]:
    """A web server that is no engine: pages for people, and something of its own behind them."""
    return {"/": "<html>an application</html>", "/version": {"version": "1.2"}, "/api/tags": {"tags": ["red"]}}


def llamacpp(*models: str, slots: int = 2, version: str = "b1") -> dict[str, object]:
    """What llama.cpp says of itself."""
    listed = [{"id": model, "owned_by": "llamacpp"} for model in models]
    return {"/props": {"build_info": version, "total_slots": slots}, "/v1/models": {"object": "list", "data": listed}}


def loading() -> dict[str, object]:
    """What llama.cpp says until its model is in memory: its own page alone is there, or is missing, as ever."""
    error = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    busy = Script(503, (*JSON, ("server", "llama.cpp")), (Read(0, json.dumps(error).encode()),))
    return dict.fromkeys(PROBES, busy) | {"/": Script(404, (("server", "llama.cpp"),))}


def vllm(*models: str, version: str = "0.32.0") -> dict[str, object]:
    """What vLLM says of itself."""
    listed = [{"id": model, "owned_by": "vllm", "max_model_len": 4096} for model in models]
    return {"/version": {"version": version}, "/v1/models": {"object": "list", "data": listed}}


def ollama(**weights: str) -> dict[str, object]:
    """What Ollama says of itself: each model by name, with the digest of its weights as `/api/show` has it."""
    tags = [{"name": name, "digest": f"manifest of {name}"} for name in weights]
    listed = [{"id": name, "owned_by": "library"} for name in weights]
    return {
        "/": "Ollama is running",
        "/api/version": {"version": "0.33.0"},
        "/v1/models": {"object": "list", "data": listed},
        "/api/tags": {"models": tags},
        "/api/ps": {"models": []},
    }
