"""A request body, read into facts. Never raises, whatever the body is; it goes to the engine as it came."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proxy.records import Prompt, RequestFacts
from proxy.wire.decoding import Unreadable, loads
from proxy.wire.fields import count, flag, items, mapping, string
from proxy.wire.framing import media_type
from proxy.wire.prompts import (
    chat_prompt,
    dumped,
    generate_prompt,
    infill_prompt,
    pair_prompt,
    raw_prompt,
    responses_prompt,
)
from proxy.wire.routes import Route

INFLATED_LIMIT = 64 * 1024 * 1024
"""Bytes that a compressed body may inflate to for reading: the default body limit. Above it nothing is read."""

_COMPRESSED = (b"\x1f\x8b", b"\x78")
"""How gzip (RFC 1952) and zlib (RFC 1950) bodies begin; no JSON text does."""

RELOADING = ("draft_num_predict", "main_gpu", "num_batch", "num_ctx", "num_gpu", "num_thread", "use_mmap")
"""Options that make Ollama load a model anew when they change (its scheduler's own list)."""


def read_facts(route: Route, content_type: str, body: bytes) -> RequestFacts:
    """What the request asks for. A body that cannot be read leaves model and prompt unknown."""
    found = RequestFacts(route.dialect, route.kind, route.route)
    if media_type(content_type).startswith("multipart/"):
        return found
    try:
        asked = loads(_inflated(body))
        if not isinstance(asked, dict):
            return found
        found = replace(found, model=_model(asked), stream=flag(asked.get("stream")))
        read = READS.get(found.dialect) if found.route == "inference" else None
        return read(found, asked) if read else found
    except (Unreadable, RecursionError, zlib.error):
        return found


def expects_stream(facts: RequestFacts) -> bool:
    """An answer to this will most likely be a stream: Ollama's own routes stream unless told not to."""
    if facts.stream is None:
        return facts.dialect == "ollama" and facts.kind in ("chat", "generate")
    return facts.stream


def _inflated(body: bytes) -> bytes:
    if not body.startswith(_COMPRESSED):
        return body
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
    plain = inflater.decompress(body, INFLATED_LIMIT)
    if inflater.unconsumed_tail:
        raise Unreadable("inflates to more than is read")
    return plain


def _model(asked: dict[str, Any]) -> str | None:
    return string(asked.get("model")) or string(asked.get("name"))


def _options(asked: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    options = mapping(asked.get("options"))
    return tuple((name, dumped(options[name])) for name in RELOADING if options.get(name) is not None)


def _choices(asked: object) -> int:
    return count(asked) or 1


def _first_count(asked: dict[str, Any], *names: str) -> int | None:
    counts = (count(asked.get(name)) for name in names)
    return next((each for each in counts if each is not None), None)


# --- one function a dialect -------------------------------------------------------------------------------------------


def _openai(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    prompt, prompts = _openai_prompt(found.kind, asked)
    return replace(
        found,
        n=_choices(asked.get("n")),
        prompts=prompts,
        max_output=_first_count(asked, "max_completion_tokens", "max_tokens"),
        asks_usage=mapping(asked.get("stream_options")).get("include_usage") is True,
        options=_options(asked),
        prompt=prompt,
    )


def _openai_prompt(kind: str, asked: dict[str, Any]) -> tuple[Prompt, int]:
    if kind in ("rerank", "score"):
        return pair_prompt(asked)
    if kind == "chat" or "messages" in asked:
        return chat_prompt(asked), 1
    return raw_prompt(asked.get("prompt" if kind == "completion" else "input"), asked.get("cache_salt"))


def _ollama(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    prompts = 1
    if found.kind == "chat":
        prompt = chat_prompt(asked)
    elif found.kind == "generate":
        prompt = generate_prompt(asked)
    else:
        prompt, prompts = raw_prompt(asked.get("input", asked.get("prompt")))
    limit = count(mapping(asked.get("options")).get("num_predict"))
    return replace(found, prompts=prompts, max_output=limit, options=_options(asked), prompt=prompt)


def _llamacpp(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    prompt, prompts = infill_prompt(asked), 1
    if found.kind != "infill":
        prompt, prompts = raw_prompt(asked.get("prompt", asked.get("input", asked.get("content"))))
    return replace(
        found,
        n=_choices(asked.get("n_cmpl", asked.get("n"))),
        prompts=prompts,
        max_output=_first_count(asked, "n_predict", "max_tokens"),
        prompt=prompt,
    )


def _responses(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    return replace(found, max_output=count(asked.get("max_output_tokens")), prompt=responses_prompt(asked))


def _anthropic(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    prompt = chat_prompt(asked, asked.get("system"))
    return replace(found, max_output=count(asked.get("max_tokens")), prompt=prompt)


def _sglang(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    sampling = asked.get("sampling_params")
    sampling = mapping(items(sampling)[0] if items(sampling) else sampling)
    prompt, prompts = raw_prompt(asked.get("text") if asked.get("text") is not None else asked.get("input_ids"))
    return replace(
        found,
        n=_choices(sampling.get("n")),
        prompts=prompts,
        max_output=count(sampling.get("max_new_tokens")),
        prompt=prompt,
    )


READS: dict[str, Callable[[RequestFacts, dict[str, Any]], RequestFacts]] = {
    "openai": _openai,
    "ollama": _ollama,
    "llamacpp": _llamacpp,
    "responses": _responses,
    "anthropic": _anthropic,
    "sglang": _sglang,
}
"""Dialect -> how its body is read; others keep what every body has: model and stream."""
