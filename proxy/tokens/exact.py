"""The engine's own tokenizer, asked in its own words.

    vLLM        POST /tokenize                              {prompt} or {messages, tools, ...} -> {count, tokens}
    SGLang      POST /tokenize                              {prompt} -> {count}; chats are not asked
    llama.cpp   POST /tokenize                              {content} -> {tokens: [...]}
                POST /v1/chat/completions/input_tokens      the chat request itself -> {input_tokens}
    Ollama      nothing: it shows a vocabulary, but its Go templates cannot be written out here

A chat is asked with the client's own body, for templates read fields that no record keeps (names, tool call ids,
`chat_template_kwargs`). Its fields are copied as they are written: to decode and write a long body anew would hold up
every stream.
"""

import json
from typing import Any, NamedTuple

import msgspec

from proxy.records import RequestFacts

CHAT_FIELDS = (
    "model",
    "messages",
    "tools",
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
)
"""Fields of a chat request that decide what vLLM's template writes."""


ODD = (msgspec.DecodeError, RecursionError)
"""What decoding raises over JSON that is none, or nested beyond the interpreter's limit."""


class Question(NamedTuple):
    """What to POST to the engine."""

    target: str
    body: bytes


def question(kind: str, facts: RequestFacts, body: bytes) -> Question | None:
    """How to ask this engine for the length of this prompt; None where its tokenizer cannot tell.

    `kind` is the engine's (`Evidence.kind`), `body` the request's own JSON.
    """
    prompt = facts.prompt
    if prompt is None or prompt.ids or kind not in _TEXT:
        return None
    if prompt.messages and facts.kind == "chat" and facts.dialect == "openai":
        return _chat(kind, body)
    if len(prompt.texts) == 1 and not prompt.messages and facts.kind == "completion":
        more = _special(body) if kind == "vllm" else _TEXT[kind]
        return Question("/tokenize", _dump(more | {_FIELD[kind]: prompt.texts[0]} | _model(facts)))
    return None


_FIELD = {"vllm": "prompt", "sglang": "prompt", "llamacpp": "content"}
_TEXT: dict[str, dict[str, Any]] = {
    "vllm": {},  # but for what the client says itself
    "sglang": {},
    "llamacpp": {"add_special": True, "parse_special": True},
}


class _Asked(msgspec.Struct):
    add_special_tokens: bool | msgspec.UnsetType = msgspec.UNSET


def _special(body: bytes) -> dict[str, Any]:
    """Whether the client wants special tokens in a raw prompt, where it says so."""
    try:
        stated = msgspec.json.decode(body, type=_Asked).add_special_tokens
    except ODD:
        return {}
    return {} if stated is msgspec.UNSET else {"add_special_tokens": stated}


def _model(facts: RequestFacts) -> dict[str, str]:
    return {} if facts.model is None else {"model": facts.model}


def _chat(kind: str, body: bytes) -> Question | None:
    if kind == "llamacpp":
        return Question("/v1/chat/completions/input_tokens", body)
    if kind != "vllm":
        return None
    try:
        asked = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except ODD:
        return None
    fields = [b'"%b":%b' % (name.encode(), asked[name]) for name in CHAT_FIELDS if name in asked]
    return Question("/tokenize", b"{%b}" % b",".join(fields))


def _dump(value: dict[str, Any]) -> bytes:
    """As JSON. A lone surrogate, which msgspec refuses, stays what the client sent."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


class Told(NamedTuple):
    """What the engine says of a prompt."""

    tokens: int | None = None
    """How many tokens it has, whatever the engine calls that; None: not said."""
    ids: bytes = b""
    """The tokens themselves, as JSON; empty: not said."""


class _Answer(msgspec.Struct):
    count: int | None = None
    input_tokens: int | None = None
    tokens: msgspec.Raw = msgspec.Raw()


def read(answer: bytes) -> Told:
    """What is said in the engine's answer."""
    try:
        said = msgspec.json.decode(answer, type=_Answer)
        ids = bytes(said.tokens)
        if not ids.startswith(b"["):
            return Told(said.input_tokens if said.count is None else said.count)
        return Told(len(msgspec.json.decode(ids)) if said.count is None else said.count, ids)
    except ODD:
        return Told()
