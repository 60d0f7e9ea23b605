"""What the engine will read: a request body's messages, tools and raw prompts, without their dialect.

Text, the order of parts, tool arguments and the keys of tools stay as the client sent them, for prefix work hashes
them. What an engine does not render (ids, names, sampling options, earlier reasoning) is left out.
"""

import json
from collections.abc import Iterator
from typing import Any

from proxy.records import Call, Message, Part, Prompt
from proxy.wire.fields import first_given, items, mapping, objects, string, text

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_PLAIN = frozenset({"role", "content", "name"})
"""What the usual message has: one text."""
EMBEDDED = ("input", "prompt", "content", "texts", "inputs")
"""Where bodies have what is to be embedded: OpenAI's name and Ollama's, llama.cpp's own, Cohere's two."""
ONE, MANY = ("query", "queries", "text_1", "data_1"), ("documents", "items", "texts", "text_2", "data_2")
"""Where they have the text that others are held against, and those (Jina, TEI, vLLM)."""
KEPT = ("previous_response_id", "conversation")
"""Members by which a Responses body names earlier turns that the engine keeps."""
_ID_LIMIT = 2**63
"""Token ids are below it: integers of messages to the office have 64 bits, vocabularies 18."""
_AUDIO_PARTS = frozenset({"input_audio", "audio_url", "audio"})


def dumped(value: object) -> str:
    """JSON text of a value, keys in the client's order, as Python's json writes it."""
    return json.dumps(value, ensure_ascii=False)


# --- messages ---------------------------------------------------------------------------------------------------------


def chat_prompt(body: dict[str, Any], system: object = None) -> Prompt:
    """Messages of OpenAI, Ollama and Anthropic; a `system` field of its own goes first."""
    spoken = [Message("system", tuple(_parts(system)))] if system else []
    for each in objects(body.get("messages")):
        spoken.extend(_messages(each))
    tools = items(body.get("tools")) or items(body.get("functions"))
    unseen = int(bool(body.get("documents")))
    return Prompt(
        tuple(spoken), tuple(dumped(tool) for tool in tools), salt=text(body.get("cache_salt")), unseen=unseen
    )


def responses_prompt(body: dict[str, Any]) -> Prompt:
    """`instructions` and `input` of OpenAI's Responses: a text, or a list of messages, calls and their outputs."""
    instructions, asked = body.get("instructions"), body.get("input")
    spoken = [Message("system", tuple(_parts(instructions)))] if instructions else []
    if isinstance(asked, str):
        spoken.append(Message("user", (Part("text", asked),)))
    for each in objects(asked):
        spoken.extend(_response_items(each))
    tools = tuple(dumped(tool) for tool in items(body.get("tools")))
    unseen = sum(bool(body.get(name)) for name in KEPT) + isinstance(body.get("prompt"), dict)
    return Prompt(tuple(spoken), tools, salt=text(body.get("cache_salt")), unseen=unseen)


def generate_prompt(body: dict[str, Any]) -> Prompt:
    """Ollama's generate: a system and a user message, or the raw text. Earlier `context` counts as token ids, and what
    is to stand behind the answer as the end of the text."""
    asked = text(body.get("prompt"))
    context = _ids(body.get("context"))
    ids = (context,) if context else ()
    if body.get("raw") is True:
        return Prompt(texts=(asked,) if asked else (), ids=ids)
    spoken = []
    if text(body.get("system")):
        spoken.append(Message("system", (Part("text", text(body["system"])),)))
    if asked or items(body.get("images")):
        spoken.append(Message("user", (*_images(body), Part("text", asked + text(body.get("suffix"))))))
    return Prompt(tuple(spoken), ids=ids)


def _messages(each: dict[str, Any]) -> Iterator[Message]:
    """One message, and before it the tool results that Anthropic puts inside it."""
    content = each.get("content")
    if isinstance(content, str) and each.keys() <= _PLAIN:
        yield Message(text(each.get("role")), (Part("text", content),))
        return
    results = [part for part in objects(content) if part.get("type") == "tool_result"]
    for result in results:
        yield Message("tool", tuple(_parts(result.get("content"))))
    parts = (*_images(each), *_parts(content))
    calls = tuple(_calls(each))
    if parts or calls or not results:
        yield Message(text(each.get("role")), parts, calls)


def _response_items(each: dict[str, Any]) -> Iterator[Message]:
    kind = each.get("type", "message")
    if kind == "function_call":
        yield Message("assistant", (), (_call(each, "arguments"),))
    elif kind == "function_call_output":
        yield Message("tool", tuple(_parts(each.get("output"))))
    elif kind == "message":
        yield Message(text(each.get("role")), tuple(_parts(each.get("content"))))


def _images(each: dict[str, Any]) -> Iterator[Part]:
    """Ollama's images of a message; they come before its text."""
    for image in items(each.get("images")):
        yield Part("image", text(image))


def _parts(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield Part("text", content)
    for part in items(content):
        if isinstance(part, str):
            yield Part("text", part)
        elif not isinstance(part, dict) or part.get("type") not in ("tool_use", "tool_result", "thinking"):
            yield _part(mapping(part))


def _part(part: dict[str, Any]) -> Part:
    kind = part.get("type")
    if not isinstance(kind, str | None):  # an object has no hash
        return Part("unknown", "")
    if isinstance(part.get("text"), str) and (kind is None or kind in _TEXT_PARTS):
        return Part("text", part["text"])
    if kind == "refusal":
        return Part("text", text(part.get("refusal")))
    if kind in ("image_url", "input_image"):
        image = part.get("image_url")
        return Part("image", text(mapping(image).get("url") if isinstance(image, dict) else image))
    if kind == "image":
        source = mapping(part.get("source"))
        return Part("image", text(source.get("data")) or text(source.get("url")))
    return Part("audio" if kind in _AUDIO_PARTS else "unknown", "")


def _calls(each: dict[str, Any]) -> Iterator[Call]:
    for call in objects(each.get("tool_calls")):
        yield _call(mapping(call.get("function")), "arguments")
    if isinstance(each.get("function_call"), dict):
        yield _call(each["function_call"], "arguments")
    for part in objects(each.get("content")):
        if part.get("type") == "tool_use":
            yield _call(part, "input")


def _call(function: dict[str, Any], member: str) -> Call:
    arguments = function.get(member, {})
    return Call(text(function.get("name")), arguments if isinstance(arguments, str) else dumped(arguments))


# --- raw prompts ------------------------------------------------------------------------------------------------------


def raw_prompt(asked: object, salt: object = None) -> tuple[Prompt, int]:
    """A raw prompt and how many prompts it is: a text, token ids, both mixed (one prompt each), or a list of those.

    `[9906, 11, 1917]` is one prompt of three tokens. Ids are taken as they are: negative ones are the engine's affair.
    """
    several = isinstance(asked, list) and not any(type(each) is int for each in asked)
    each_prompt = items(asked) if several else [asked]
    texts: list[str] = []
    ids: list[tuple[int, ...]] = []
    for each in each_prompt:
        texts.extend(_raw_texts(each))
        tokens = _ids(each)
        if tokens:
            ids.append(tokens)
    return Prompt(texts=tuple(texts), ids=tuple(ids), salt=text(salt)), max(len(each_prompt), 1)


def _ids(asked: object) -> tuple[int, ...]:
    """The integers of an array; one that no engine has is cut to what a record can hold."""
    ids = tuple([each for each in items(asked) if type(each) is int])
    if ids and (min(ids) < -_ID_LIMIT or max(ids) >= _ID_LIMIT):
        return tuple([max(-_ID_LIMIT, min(each, _ID_LIMIT - 1)) for each in ids])
    return ids


def _raw_texts(asked: object) -> Iterator[str]:
    if isinstance(asked, str):
        yield asked
    elif isinstance(asked, dict):
        yield text(asked.get("prompt_string")) or _document(asked)
    elif isinstance(asked, list):
        yield from (each for each in asked if isinstance(each, str))


def pair_prompt(body: dict[str, Any]) -> tuple[Prompt, int]:
    """Rerank and score: one text against several, or each against its own; every pair is a prompt."""
    one, many = first_given(body, *ONE), first_given(body, *MANY)
    heads = [_document(each) for each in (one if isinstance(one, list) else [one]) if isinstance(each, str | dict)]
    tails = [_document(each) for each in (many if isinstance(many, list) else [many] if many else [])]
    again = len(tails) - 1 if len(heads) == 1 and tails else 0
    return Prompt(texts=(*heads, *tails), again=again), max(len(heads), len(tails), 1)


def _document(each: object) -> str:
    """A text, an object with one, or parts as a message has them (vLLM, Cohere)."""
    if not isinstance(each, dict):
        return text(each)
    return text(each.get("text")) or "".join(part.text for part in _parts(each.get("content")) if part.kind == "text")


def infill_prompt(body: dict[str, Any]) -> Prompt:
    """llama.cpp's infill: extra files, what stands before and after the gap, and the prompt, as one prompt."""
    extra = [text(each.get("text")) for each in objects(body.get("input_extra"))]
    around = (string(body.get(name)) for name in ("input_suffix", "input_prefix", "prompt"))
    return Prompt(texts=tuple(each for each in (*extra, *around) if each))
