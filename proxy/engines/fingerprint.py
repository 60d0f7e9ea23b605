"""Which engine answers at an address. Sans-IO: a shell asks `PROBES`, and hands all answers to `identify`.

Nothing that an engine says here is trusted to be well formed. What a flag switches is not asked: whether an answer
holds `metrics` or cached tokens is seen in the answers themselves.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from proxy.engines.values import entries, members, parsed, positive, word
from proxy.records import RELOADING

Reply = tuple[int, Sequence[tuple[bytes, bytes]], bytes]
"""Status, headers and body of an answer to a probe."""

Answers = Mapping[str, Reply]
"""Answers by target; a probe that got none is absent."""


class Said(NamedTuple):
    """What an engine answered, each body read once: a gateway lists thousands of models."""

    answers: Answers
    objects: Mapping[str, dict[str, Any]]
    """JSON objects by target."""


PROBES = ("/", "/api/version", "/version", "/v1/models", "/props", "/get_server_info", "/api/tags", "/api/ps")
"""Targets to GET, all cheap. Not `/server_info`: in vLLM's developer mode it takes more than a second. Not
`/health_generate`: SGLang makes a token for it."""


LOADS = 503
"""What llama.cpp answers while it loads its model, and to a request that costs a model at no other time."""

BARRED = (401, 403)
"""How an engine that wants a key answers."""

TOO_MANY = 429
"""What a gateway may answer to some of so many look-ups at once."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What an engine is, as far as it says."""

    kind: str = "openai"
    """`ollama`, `llamacpp`, `vllm`, `sglang`, or `openai` where nothing more is known."""
    version: str | None = None
    slots: int | None = None
    """Requests that it works on at once, by its own word."""
    models: tuple[str, ...] = ()
    windows: tuple[tuple[str, int], ...] = ()
    """Longest prompt and answer together, in tokens, by model; an empty name is any model."""
    trained: tuple[tuple[str, int], ...] = ()
    """Tokens that a model was trained for, by model, where the engine cuts every window to these (Ollama)."""
    digests: tuple[tuple[str, str], ...] = ()
    """Manifest digests by model. One digest is one model; one model's weights may still stand under two."""
    answers: bool = False
    """It does, by `answering`."""
    barred: bool = False
    """It refuses look-ups without a key, or with the one it got: what it is stays unknown in part."""
    lists: bool = False
    """It has a list of models, if it were an empty one, or has none for who has no key."""

    @property
    def identity(self) -> tuple[str, str | None, int | None]:
        """Changes when another engine answers, or the same one was started anew with other slots."""
        return self.kind, self.version, self.slots

    @property
    def is_engine(self) -> bool:
        """Something in it is an engine's; any web server answers."""
        return self.kind != "openai" or self.lists

    def window(self, model: str | None) -> int | None:
        """Tokens that prompt and answer of this model have together; None: not known."""
        windows = dict(self.windows)
        return windows.get(model or "", windows.get(""))

    def longest(self, model: str | None) -> int | None:
        """The window that this model has at most, whatever is asked for; None: not known."""
        return dict(self.trained).get(model or "")


def told(answers: Answers) -> Answers:
    """Those in which the engine says something of itself, if it were only that nothing is there: a busy engine, or the
    gateway before it, leaves some out."""
    return {target: it for target, it in answers.items() if it[0] < 500 and it[0] != TOO_MANY}


def answering(answers: Answers) -> bool:
    """Something that is no failing gateway answered at all, and has its model in memory."""
    return any(status < 500 for status, _, _ in answers.values()) and not any(map(_loads, answers.values()))


def silence(answers: Answers) -> str:
    """Why that is no engine that answers, though something came; empty where nothing did, or where it answers."""
    if any(map(_loads, answers.values())):
        return "loads its model"
    if not answers or answering(answers):
        return ""
    return f"answers look-ups with {', '.join(map(str, sorted({status for status, _, _ in answers.values()})))}"


def identify(answers: Answers) -> Fingerprint:
    """The engine behind these answers. Never raises: garbage is `openai`, and says nothing; so is a gateway to engines
    of several kinds, which speak no other language together."""
    said = Said(answers, {target: members(parsed(_body(answers, target))) for target in answers})
    signs = SIGNS if len(_owners(said) & OWNERS.keys()) < 2 else {}
    kind = next((kind for kind, sign in signs.items() if sign(said)), "openai")
    listed = _objects(said, "/v1/models", "data")
    tagged = _objects(said, "/api/tags", "models") if kind == "ollama" else []
    names = [word(entry.get("id")) for entry in listed] + [word(entry.get("name")) for entry in tagged]
    return Fingerprint(
        kind=kind,
        version=_version(kind, said),
        slots=_slots(kind, said),
        models=tuple(dict.fromkeys(name for name in names if name)),
        windows=tuple(dict(_windows(kind, said, listed)).items()),
        trained=tuple(_known((one.get("name"), members(one.get("details")).get("context_length")) for one in tagged)),
        digests=tuple(
            (name, digest) for entry in tagged if (name := word(entry.get("name"))) and (digest := _digest(entry))
        ),
        answers=answering(answers),
        barred=any(status in BARRED for status, _, _ in answers.values()),
        lists=_lists(said, listed),
    )


def owner(models: bytes, model: str) -> str | None:
    """Kind of the engine that `/v1/models` says this model is of: a gateway to several lists each with its own."""
    listed = entries(members(parsed(models)).get("data"))
    return next((OWNERS.get(word(entry.get("owned_by"), "")) for entry in listed if entry.get("id") == model), None)


def resident(ps: bytes) -> frozenset[str]:
    """Names of the models that `/api/ps` says are in memory."""
    names = (word(entry.get("name")) for entry in entries(members(parsed(ps)).get("models")))
    return frozenset(name for name in names if name)


def weights(show: bytes) -> str | None:
    """The digest of a model's weights, from the FROM line of `/api/show`'s modelfile: it tells runners apart."""
    modelfile = members(parsed(show)).get("modelfile")
    found = _FROM.search(modelfile) if isinstance(modelfile, str) else None
    return found.group(1) if found else None


def own_options(show: bytes) -> tuple[tuple[str, str], ...]:
    """The options of a model's Modelfile that tell runners apart, from `/api/show`: a line each, name and value."""
    parameters = members(parsed(show)).get("parameters")
    lines = parameters.splitlines() if isinstance(parameters, str) else ()
    pairs = (line.split(None, 1) for line in lines)
    return tuple((pair[0], pair[1].strip()) for pair in pairs if len(pair) == 2 and pair[0] in RELOADING)


_FROM = re.compile(r"^FROM \S*?sha256[-:]([0-9a-f]{64})\b", re.MULTILINE)


def _is_sglang(said: Said) -> bool:
    info = _object(said, "/get_server_info")
    return b"SGLang is running" in _body(said.answers, "/") or "model_path" in info or "sglang" in _owners(said)


def _is_llamacpp(said: Said) -> bool:
    served = any(
        name.lower() == b"server" and value == b"llama.cpp"
        for _, headers, _ in said.answers.values()
        for name, value in headers
    )
    return served or "build_info" in _object(said, "/props") or "llamacpp" in _owners(said)


def _is_ollama(said: Said) -> bool:
    says = b"Ollama is running" in _body(said.answers, "/") or "library" in _owners(said)
    return says and "version" in _object(said, "/api/version")


def _is_vllm(said: Said) -> bool:
    return "vllm" in _owners(said)


SIGNS: dict[str, Callable[[Said], bool]] = {
    # SGLang emulates Ollama, and old llama.cpp had its routes: both are asked first.
    "sglang": _is_sglang,
    "llamacpp": _is_llamacpp,
    "ollama": _is_ollama,
    "vllm": _is_vllm,
}
"""Every kind that is told apart; the first that fits is it."""

OWNERS: dict[str | None, str] = {"sglang": "sglang", "llamacpp": "llamacpp", "library": "ollama", "vllm": "vllm"}
"""Who owns an engine's models, as it lists them: one name for each kind."""

_VERSIONS = {
    "ollama": ("/api/version", "version"),
    "vllm": ("/version", "version"),
    "llamacpp": ("/props", "build_info"),
    "sglang": ("/get_server_info", "version"),
}


def _version(kind: str, said: Said) -> str | None:
    if kind not in _VERSIONS:
        return None
    target, key = _VERSIONS[kind]
    return word(_object(said, target).get(key))


def _slots(kind: str, said: Said) -> int | None:
    return positive(_object(said, "/props").get("total_slots")) if kind == "llamacpp" else None


def _windows(kind: str, said: Said, listed: list[dict[str, Any]]) -> list[tuple[str, int]]:
    if kind == "llamacpp":
        settings = members(_object(said, "/props").get("default_generation_settings"))
        found: list[tuple[Any, Any]] = [("", settings.get("n_ctx"))]
    elif kind == "ollama":
        loaded = _objects(said, "/api/ps", "models")
        found = [(entry.get("name"), entry.get("context_length")) for entry in loaded]
    else:
        found = [(entry.get("id"), entry.get("max_model_len")) for entry in listed]
    return _known(found)


def _known(found: Iterable[tuple[Any, Any]]) -> list[tuple[str, int]]:
    known = ((word(name, ""), positive(tokens)) for name, tokens in found)
    return [(name, tokens) for name, tokens in known if name is not None and tokens is not None]


def _lists(said: Said, listed: list[dict[str, Any]]) -> bool:
    """Whether `/v1/models` is what engines have there. To who has no key vLLM and SGLang say `error`, in JSON."""
    status, _, body = said.answers.get("/v1/models", (0, (), b""))
    if status in BARRED:
        return "error" in members(parsed(body))
    page = _object(said, "/v1/models")
    empty = page.get("object") == "list" and page.get("data") == []
    return empty or any(word(entry.get("id")) for entry in listed)


def _owners(said: Said) -> set[str | None]:
    return {word(entry.get("owned_by")) for entry in _objects(said, "/v1/models", "data")}


def _digest(entry: dict[str, Any]) -> str | None:
    return word(entry.get("digest"))


def _loads(reply: Reply) -> bool:
    """llama.cpp's until its model is in memory. Some pages are there before, by build: its own, the list of models."""
    status, _, body = reply
    return status == LOADS and members(members(parsed(body)).get("error")).get("type") == "unavailable_error"


def _body(answers: Answers, target: str) -> bytes:
    status, _, body = answers.get(target, (0, (), b""))
    return body if status == 200 else b""


def _object(said: Said, target: str) -> dict[str, Any]:
    return said.objects.get(target, {})


def _objects(said: Said, target: str, key: str) -> list[dict[str, Any]]:
    return entries(_object(said, target).get(key))
