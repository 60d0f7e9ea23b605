"""Prompts for tests: a second, small reader of OpenAI and Ollama bodies, and short ways to write a chat."""

import json
from typing import Any

from proxy.records import Call, Message, Part, Prompt


def chat(*pairs: tuple[str, str], tools: tuple[str, ...] = (), salt: str = "") -> Prompt:
    """A chat of (role, text) pairs."""
    return Prompt(messages=tuple(Message(role, (Part("text", text),)) for role, text in pairs), tools=tools, salt=salt)


def raw(text: str) -> Prompt:
    return Prompt(texts=(text,))


def prompt_of(path: str, body: dict[str, Any]) -> Prompt:
    """What a body of the benchmark's four paths says."""
    if path == "/v1/completions" or body.get("raw"):
        return raw(body["prompt"])
    if path == "/api/generate":
        system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
        messages = [*system, {"role": "user", "content": body.get("prompt", ""), "images": body.get("images")}]
    else:
        messages = body["messages"]
    tools = tuple(json.dumps(tool, ensure_ascii=False) for tool in body.get("tools") or [])
    return Prompt(messages=tuple(map(_message, messages)), tools=tools, salt=body.get("cache_salt") or "")


def _message(message: dict[str, Any]) -> Message:
    parts = [Part("image", image) for image in message.get("images") or []]
    content = message.get("content")
    for item in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
        if item["type"] == "text":
            parts.append(Part("text", item["text"]))
        else:
            parts.append(Part("image", item["image_url"]["url"]))
    return Message(message["role"], tuple(parts), tuple(map(_call, message.get("tool_calls") or [])))


def _call(call: dict[str, Any]) -> Call:
    arguments = call["function"].get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return Call(call["function"]["name"], arguments)
