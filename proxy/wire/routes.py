"""Which path is what: whose language it speaks, what it asks for, and who may ask it.

A route is `inference` (costs a model), `read` (lists, health, metrics, tokenisers) or `manage` (changes the engine, or
gives away more than one request's worth). What is not listed is `read` for GET and HEAD and `manage` for the rest: a
route that nobody knows is never open by mistake.

Routes as of vLLM 0.33, Ollama 0.33, llama.cpp b10434 and SGLang 0.5.23.
"""

from typing import NamedTuple

INFERENCE: dict[str, tuple[str, str]] = {
    "/v1/chat/completions": ("openai", "chat"),
    "/chat/completions": ("openai", "chat"),
    "/v1/completions": ("openai", "completion"),
    "/v1/embeddings": ("openai", "embed"),
    "/v2/embed": ("openai", "embed"),
    "/pooling": ("openai", "embed"),
    "/classify": ("openai", "classify"),
    "/v1/classify": ("openai", "classify"),
    "/score": ("openai", "score"),
    "/v1/score": ("openai", "score"),
    "/rerank": ("openai", "rerank"),
    "/reranking": ("openai", "rerank"),
    "/v1/rerank": ("openai", "rerank"),
    "/v1/reranking": ("openai", "rerank"),
    "/v2/rerank": ("openai", "rerank"),
    "/v1/responses": ("responses", "chat"),
    "/responses": ("responses", "chat"),
    "/v1/messages": ("anthropic", "chat"),
    "/api/chat": ("ollama", "chat"),
    "/api/generate": ("ollama", "generate"),
    "/api/embed": ("ollama", "embed"),
    "/api/embeddings": ("ollama", "embed"),
    "/completion": ("llamacpp", "completion"),
    "/completions": ("llamacpp", "completion"),
    "/infill": ("llamacpp", "infill"),
    "/embedding": ("llamacpp", "embed"),
    "/embeddings": ("llamacpp", "embed"),
    "/generate": ("sglang", "generate"),
    "/v1/audio/transcriptions": ("passthrough", "audio"),
    "/v1/audio/translations": ("passthrough", "audio"),
    "/v1/audio/speech": ("passthrough", "audio"),
    "/v1/images/generations": ("passthrough", "image"),
    "/v1/chat/completions/batch": ("passthrough", "chat"),
    "/v1/realtime": ("passthrough", "realtime"),
    "/cohere/v2/chat": ("passthrough", "chat"),
    "/generative_scoring": ("passthrough", "score"),
    "/inference/v1/generate": ("passthrough", "generate"),
    "/generate_stream": ("passthrough", "generate"),
    "/invocations": ("passthrough", "other"),
}
"""POST only: path -> dialect and kind."""

KINDS = tuple(dict.fromkeys(kind for _, kind in INFERENCE.values()))
"""What a request that costs a model may be."""

READS = frozenset(
    {
        "/api/show",
        "/tokenize",
        "/v1/tokenize",
        "/detokenize",
        "/v1/detokenize",
        "/apply-template",
        "/chat_tokenize",
        "/v1/messages/count_tokens",
        "/v1/chat/completions/input_tokens",
        "/v1/responses/input_tokens",
        "/v1/streams/lookup",
        "/is_scaling_elastic_ep",
    }
)
"""POSTs that only look something up. Those under `render` and `derender` too."""

NAMING = frozenset({"/api/show", "/api/copy", "/api/create", "/api/delete", "/api/pull", "/api/push"})
"""Ollama's paths that are no inference, whose body names a model."""

MANAGED_GETS = frozenset(
    {
        "/flush_cache",
        "/start_profile",
        "/stop_profile",
        "/release_memory_occupation",
        "/resume_memory_occupation",
        "/perf_metrics",
        "/api/signout",
        "/fault_tolerance/status",
    }
)
"""GETs that change something, or take away what they show."""

OWN = {
    "/props": "llamacpp",
    "/slots": "llamacpp",
    "/lora-adapters": "llamacpp",
    "/apply-template": "llamacpp",
    "/get_server_info": "sglang",
    "/server_info": "sglang",
    "/get_model_info": "sglang",
    "/model_info": "sglang",
    "/get_load": "sglang",
    "/v1/loads": "sglang",
    "/flush_cache": "sglang",
    "/version": "vllm",
    "/load": "vllm",
    "/sleep": "vllm",
    "/wake_up": "vllm",
    "/reset_prefix_cache": "vllm",
}
"""Paths that no other kind of engine has, of those that are no inference; what lies below them is its own too."""

MODEL_LISTS = frozenset({"/v1/models", "/models", "/api/tags"})
_OF_ONE = "/v1/models/"
_NOT_OLLAMA = ("/api/v0/", "/api/v1/", "/api/extra/")
"""Paths of LM Studio and KoboldCpp."""

_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})


class Route(NamedTuple):
    """What a path asks for."""

    dialect: str
    kind: str
    route: str
    """`inference`, `read` or `manage`."""
    model: str | None = None
    """The model that the path itself names."""


def classify(method: str, path: str) -> Route:
    """The route of a request; `path` is without its query, and its escapes are undone, once, as engines do it. A slash
    at the end does not matter to them."""
    name = path.rstrip("/")
    method = method.upper()
    if method == "POST" and name in INFERENCE:
        return Route(*INFERENCE[name], "inference")
    if method in _LOOKS and name not in MANAGED_GETS:
        return _look(method, name)
    if method == "POST" and (name in READS or name.endswith(("/render", "/derender"))):
        return Route(_speaks(name), "other", "read")
    return Route(_speaks(name), "other", "manage")


def _look(method: str, name: str) -> Route:
    if name.startswith(_OF_ONE):
        return Route("passthrough", "other", "read", name.removeprefix(_OF_ONE))
    if (method, name) == ("HEAD", ""):
        return Route("ollama", "other", "read")  # Ollama's command asks so whether there is an Ollama, before all else
    return Route(_speaks(name), "models" if name in MODEL_LISTS else "other", "read")


def _speaks(name: str) -> str:
    """Whose language an answer and an error have on a path that is no inference."""
    if name.startswith("/api/") and not name.startswith(_NOT_OLLAMA):
        return "ollama"
    if own := OWN.get(name) or OWN.get(name.rpartition("/")[0]):
        return own
    return "anthropic" if name.startswith("/v1/messages/") else "passthrough"
