from typing import Any

import pytest

from proxy.sim.jobs import Truth
from proxy.sim.openai import Habits
from tests.sim.asgi import CHAT, Exchange, ask, ollama, play, vllm


@pytest.mark.parametrize(
    ("path", "body", "status", "type"),
    [
        ("/v1/chat/completions", b"{", 400, "Bad Request"),
        ("/v1/chat/completions", b"[]", 400, "Bad Request"),
        ("/v1/chat/completions", {"model": "m"}, 400, "Bad Request"),
        ("/v1/completions", {"model": "m"}, 400, "Bad Request"),
        ("/v1/completions", {"model": "m", "prompt": 5}, 400, "Bad Request"),
        ("/v1/completions", {"model": "m", "prompt": [[["a"]]]}, 400, "Bad Request"),
        ("/v1/completions", b'{"prompt":' + b"[" * 200_000 + b"]" * 200_000 + b"}", 400, "Bad Request"),
        ("/v1/chat/completions", {**CHAT, "model": "nope"}, 404, "NotFoundError"),
        ("/v1/chat/completions", {**CHAT, "max_tokens": 9_000_000}, 400, "BadRequestError"),
    ],
    ids=[
        *("broken", "no object", "no messages", "no prompt", "a number", "lists in lists", "nested beyond reading"),
        *("unknown model", "too long"),
    ],
)
def test_errors_are_vllms(path: str, body: Any, status: int, type: str) -> None:
    got = ask(vllm(), path, body)
    assert (got.status, got.body["error"]["type"], got.body["error"]["code"]) == (status, type, status)


@pytest.mark.parametrize("path", ["/v1/models", "/version", "/health", "/ping", "/load", "/metrics"])
def test_pages_are_there(path: str) -> None:
    assert ask(vllm(), path, b"", "GET").status == 200
    assert ask(vllm(), path, b"", "HEAD").status == (200 if path == "/metrics" else 405)


def test_models_are_owned_by_vllm() -> None:
    model = ask(vllm(window=4096), "/v1/models", b"", "GET").body["data"][0]
    assert (model["id"], model["owned_by"], model["max_model_len"]) == ("m", "vllm", 4096)


def test_tokenize_counts_what_the_usage_says() -> None:
    count = ask(vllm(), "/tokenize", {"model": "m", "messages": CHAT["messages"]}).body["count"]
    assert count == ask(vllm(), "/v1/chat/completions", CHAT).body["usage"]["prompt_tokens"]
    assert ask(vllm(), "/tokenize", {"prompt": "four short words"}).body["count"] == 5


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/nope", 404),
        ("POST", "/nope", 404),
        ("GET", "/v1/completions", 405),
        ("HEAD", "/v1/models", 405),
    ],
)
def test_anything_else_is_not_there_or_not_so(method: str, path: str, status: int) -> None:
    """As FastAPI has it."""
    got = ask(vllm(), path, b"{}", method)
    assert (got.status, got.body) == (status, {"detail": {404: "Not Found", 405: "Method Not Allowed"}[status]})


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("HEAD", "/", 200, b"Ollama is running"),
        ("GET", "/", 200, b"Ollama is running"),
        ("HEAD", "/api/version", 200, b'{"version": "0.33.0"}'),
        ("HEAD", "/api/ps", 405, b"405 method not allowed"),
        ("HEAD", "/v1/models", 405, b"405 method not allowed"),
        ("GET", "/api/chat", 405, b"405 method not allowed"),
        ("HEAD", "/nope", 404, b"404 page not found"),
    ],
)
def test_ollama_answers_its_commands_heartbeat(method: str, path: str, status: int, text: bytes) -> None:
    """As Ollama 0.33 answered; the server takes a body off a HEAD."""
    got = ask(ollama(), path, b"", method)
    assert (got.status, b"".join(got.writes)) == (status, text)


def test_a_full_pending_queue_is_503_in_the_callers_shape() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        native = await Exchange(server, "POST", "/api/generate", {"model": "m", "prompt": "hi"}).run()
        openai = await Exchange(server, "POST", "/v1/chat/completions", CHAT).run()
        assert (native.status, openai.status) == (503, 503)
        assert native.body["error"].startswith("server busy, please try again.  maximum")
        assert openai.body["error"]["type"] == "api_error"

    play(ollama(max_queue=0), scene)


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/api/chat", {"model": "nope"}, 404, "model 'nope' not found"),
        ("/api/show", {"model": "nope"}, 404, "model 'nope' not found"),
    ],
)
def test_ollamas_errors_are_strings(path: str, body: Any, status: int, error: str) -> None:
    got = ask(ollama(), path, body)
    assert (got.status, got.body) == (status, {"error": error})


def test_ollamas_errors_on_v1_are_objects() -> None:
    got = ask(ollama(), "/v1/chat/completions", {**CHAT, "model": "nope"})
    assert (got.status, got.body["error"]["type"]) == (404, "not_found_error")


def test_ollamas_pages_are_there() -> None:
    assert b"".join(ask(ollama(), "/", b"", "GET").writes) == b"Ollama is running"
    assert set(ask(ollama(), "/api/version", b"", "GET").body) == {"version"}
    assert [model["name"] for model in ask(ollama(), "/api/tags", b"", "GET").body["models"]] == ["m", "other"]
    assert ask(ollama(), "/v1/models", b"", "GET").body["data"][0]["owned_by"] == "library"
    assert "blobs/sha256-" in ask(ollama(), "/api/show", {"model": "m"}).body["modelfile"]
    assert ask(ollama(), "/api/nope", b"{}").status == 404


def test_a_full_queue_is_503_before_the_headers_of_a_stream() -> None:
    got = ask(vllm(habits=Habits(max_queued=0)), "/v1/chat/completions", {**CHAT, "stream": True})
    assert (got.status, got.body["error"]["type"]) == (503, "Service Unavailable")
