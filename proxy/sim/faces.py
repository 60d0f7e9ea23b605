"""What the embedded engines show: pages, requests read and voiced, errors in their own shapes."""

import json
from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Any

from proxy.sim.asks import Ask, Rejected, Reply, Voice
from proxy.sim.gauges import Gauges
from proxy.sim.machine import Machine
from proxy.sim.ollama import OllamaOpenAIVoice, OllamaVoice, ask_of, loads_only, unknown
from proxy.sim.openai import VllmVoice, load, prompt_of, prompts_of, read
from proxy.sim.plan import Plan
from proxy.sim.shelf import Shelf

VLLM_VERSION = "0.33.0"
OLLAMA_VERSION = "0.33.0"

VLLM_ASKED = {"/v1/chat/completions": "chat", "/v1/completions": "completion"}
OLLAMA_ASKED = ("/api/chat", "/api/generate", "/v1/chat/completions", "/v1/completions")
"""Paths of inference, by POST."""

Pages = dict[tuple[str, str], Callable[[bytes], Reply]]


class VllmFace:
    """vLLM's API server."""

    def __init__(self, plan: Plan, machine: Machine, wall: Callable[[], float]) -> None:
        self._plan, self._machine, self._wall = plan, machine, wall
        self._model = plan.models[0]
        config = {
            "block_size": plan.block,
            "num_gpu_blocks": machine.limits.blocks,
            "enable_prefix_caching": plan.caching,
        }
        self.gauges = Gauges(self._model, {name: str(value) for name, value in config.items()})
        self._started = int(wall())
        self._pages: Pages = {
            ("GET", "/v1/models"): lambda body: _json(self._models()),
            ("GET", "/version"): lambda body: _json({"version": VLLM_VERSION}),
            ("GET", "/health"): lambda body: Reply(b""),
            ("GET", "/ping"): lambda body: Reply(b""),
            ("GET", "/load"): lambda body: _json({"server_load": machine.running + machine.waiting}),
            ("GET", "/metrics"): lambda body: self._metrics(),
            ("HEAD", "/metrics"): lambda body: self._metrics(),
            ("POST", "/tokenize"): self._tokenize,
        }

    def page(self, method: str, path: str, body: bytes) -> Reply | None:
        """One of the pages; None: there is none such."""
        found = self._pages.get((method, path))
        return None if found is None else found(body)

    def ask(self, path: str, body: bytes, id: str) -> tuple[Ask, Voice] | None:
        """A chat or a completion; raises `Rejected`."""
        kind = VLLM_ASKED.get(path)
        if kind is None:
            return None
        said = load(body)
        if said.get("model") not in (None, self._model):
            message = f"The model `{said['model']}` does not exist. Valid aliases: {self._model}."
            raise Rejected(404, message, "NotFoundError", "model")
        ask = read(kind, {"model": self._model, **said}, id, self._machine.limits.reach)
        most = self._plan.habits.max_queued
        if most is not None and self._machine.running + self._machine.waiting >= most:
            raise Rejected(503, f"{most} requests are queued already.", "Service Unavailable")
        return ask, VllmVoice(ask, self._plan.habits, int(self._wall()))

    def error(self, path: str, error: Rejected) -> Reply:
        """vLLM's error object; `code` is a number."""
        said = {"message": error.message, "type": error.type, "param": error.param, "code": error.status}
        return _json({"error": said}, error.status)

    def absent(self, path: str) -> Reply:
        """FastAPI's own words: it answers HEAD nowhere, save where another application does."""
        there = _there(path, self._pages, VLLM_ASKED)
        return _json({"detail": "Method Not Allowed" if there else "Not Found"}, 405 if there else 404)

    def headers(self, id: str) -> list[tuple[bytes, bytes]]:
        """The request id, where the flag is on."""
        return [(b"x-request-id", id.encode("latin-1"))] if self._plan.habits.request_id_headers else []

    def _models(self) -> dict[str, Any]:
        model = {
            "id": self._model,
            "object": "model",
            "created": self._started,
            "owned_by": "vllm",
            "root": self._model,
        }
        return {"object": "list", "data": [{**model, "parent": None, "max_model_len": self._machine.limits.reach}]}

    def _metrics(self) -> Reply:
        blocks = self._machine.blocks
        usage = 1 - blocks.free / blocks.usable
        page = self.gauges.page(self._machine.running, self._machine.waiting, usage)
        return Reply(page, content_type="text/plain; version=0.0.4; charset=utf-8")

    def _tokenize(self, body: bytes) -> Reply:
        said = load(body)
        tokens = prompt_of(said) if "messages" in said else prompts_of(said)[0]
        reach = self._machine.limits.reach
        return _json({"count": len(tokens), "max_model_len": reach, "tokens": tokens, "token_strs": None})


class OllamaFace:
    """Ollama's server."""

    def __init__(self, plan: Plan, shelf: Shelf, wall: Callable[[], float]) -> None:
        self._plan, self._shelf, self._wall = plan, shelf, wall
        self._pages: Pages = {
            ("GET", "/"): lambda body: Reply(b"Ollama is running", content_type="text/plain; charset=utf-8"),
            ("GET", "/api/version"): lambda body: _json({"version": OLLAMA_VERSION}),
            ("GET", "/api/tags"): lambda body: _json({"models": [self._model(name) for name in plan.models]}),
            ("GET", "/api/ps"): lambda body: _json({"models": self._loaded()}),
            ("POST", "/api/show"): self._show,
            ("GET", "/v1/models"): lambda body: _json(self._listed()),
        }
        self._pages |= {("HEAD", path): self._pages["GET", path] for path in ("/", "/api/version", "/api/tags")}

    def page(self, method: str, path: str, body: bytes) -> Reply | None:
        """One of the pages; None: there is none such."""
        found = self._pages.get((method, path))
        return None if found is None else found(body)

    def ask(self, path: str, body: bytes, id: str) -> tuple[Ask, Voice] | None:
        """A request on one of the four inference routes; raises `Rejected`."""
        if path not in OLLAMA_ASKED:
            return None
        ask = ask_of(path, body, id)
        if ask.model not in self._plan.models:
            raise unknown(ask.model)
        if path.startswith("/v1/"):
            return ask, OllamaOpenAIVoice(ask, self._wall())
        return ask, OllamaVoice(ask, self._wall(), loads_only(path, load(body)))

    def error(self, path: str, error: Rejected) -> Reply:
        """A string under `error`; on `/v1` OpenAI's object."""
        if not path.startswith("/v1/"):
            return _json({"error": error.message}, error.status)
        kind = {404: "not_found_error", 400: "invalid_request_error"}.get(error.status, "api_error")
        return _json({"error": {"message": error.message, "type": kind, "param": None, "code": None}}, error.status)

    def absent(self, path: str) -> Reply:
        """Gin's own words."""
        if _there(path, self._pages, OLLAMA_ASKED):
            return Reply(b"405 method not allowed", 405, "text/plain")
        return Reply(b"404 page not found", 404, "text/plain")

    def headers(self, id: str) -> list[tuple[bytes, bytes]]:
        """None: Ollama knows no request ids."""
        return []

    def _model(self, name: str) -> dict[str, Any]:
        digest = sha256(name.encode()).hexdigest()
        details = {"format": "gguf", "family": "llama", "parameter_size": f"{self._plan.parameters / 1e9:.2f}B"}
        size = int(self._plan.shape.weight_bytes)
        return {"name": name, "model": name, "size": size, "digest": digest, "details": details}

    def _loaded(self) -> list[dict[str, Any]]:
        entries = []
        for runner in self._shelf.loaded:
            name, window = runner.split(" num_ctx=")
            model = self._model(name)
            entries.append({**model, "size_vram": model["size"], "context_length": int(window)})
        return entries

    def _show(self, body: bytes) -> Reply:
        name = str(load(body).get("model"))
        if name not in self._plan.models:
            return self.error("/api/show", unknown(name))
        model = self._model(name)
        modelfile = f"FROM /models/blobs/sha256-{model['digest']}\n"
        info = {"general.architecture": "llama", "llama.context_length": self._plan.window}
        return _json(
            {"modelfile": modelfile, "details": model["details"], "model_info": info, "capabilities": ["completion"]}
        )

    def _listed(self) -> dict[str, Any]:
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "library"} for name in self._plan.models]
        return {"object": "list", "data": data}


def _there(path: str, pages: Pages, asked: Collection[str]) -> bool:
    return path in asked or any(path == page for _, page in pages)


def _json(said: Any, status: int = 200) -> Reply:
    return Reply(json.dumps(said).encode(), status)
