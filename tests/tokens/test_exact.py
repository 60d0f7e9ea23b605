import json

import pytest

from proxy.records import Message, Part, Prompt, RequestFacts
from proxy.tokens.exact import Told, question, read

CHAT = {
    "model": "m1",
    "messages": [{"role": "tool", "tool_call_id": "c1", "content": "Say hi"}],
    "tools": [{"type": "function"}],
    "chat_template_kwargs": {"enable_thinking": False},
    "temperature": 0,
    "stream": True,
}
BODY = json.dumps(CHAT).encode()


def facts(kind: str, prompt: Prompt | None, dialect: str = "openai", model: str | None = "m1") -> RequestFacts:
    return RequestFacts(dialect, kind, "inference", model=model, prompt=prompt)


DEEP = b"[" * 200_000 + b"]" * 200_000
"""Deeper than any Python's parser goes."""
MESSAGES = Prompt(messages=(Message("user", (Part("text", "Say hi"),)),))
TEXT = Prompt(texts=("Say hi \ud800",))


def test_vllm_is_asked_with_the_fields_that_its_template_reads() -> None:
    asked = question("vllm", facts("chat", MESSAGES), BODY)
    assert asked is not None
    assert asked.target == "/tokenize"
    kept = ("model", "messages", "tools", "chat_template_kwargs")
    assert json.loads(asked.body) == {name: CHAT[name] for name in kept}


def test_vllm_is_asked_in_the_clients_own_spelling() -> None:
    body = b'{"messages":[{"role":"user","content":"\\u0041 caf\\u00e9"}], "seed":1, "chat_template_kwargs":{"x":1e2}}'
    asked = question("vllm", facts("chat", MESSAGES), body)
    assert asked is not None
    assert asked.body == (
        b'{"messages":[{"role":"user","content":"\\u0041 caf\\u00e9"}],"chat_template_kwargs":{"x":1e2}}'
    )


def test_llamacpp_is_asked_with_the_request_itself() -> None:
    assert question("llamacpp", facts("chat", MESSAGES), BODY) == ("/v1/chat/completions/input_tokens", BODY)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("vllm", {"model": "m1", "prompt": "Say hi \ud800"}),
        ("sglang", {"model": "m1", "prompt": "Say hi \ud800"}),
        ("llamacpp", {"model": "m1", "content": "Say hi \ud800", "add_special": True, "parse_special": True}),
    ],
)
def test_a_raw_prompt_is_asked_in_the_engines_words(kind: str, body: dict[str, object]) -> None:
    asked = question(kind, facts("completion", TEXT), b"{}")
    assert asked is not None
    assert (asked.target, json.loads(asked.body)) == ("/tokenize", body)


def test_no_model_is_named_where_the_client_named_none() -> None:
    asked = question("vllm", facts("completion", TEXT, model=None), b"{}")
    assert asked is not None
    assert json.loads(asked.body) == {"prompt": "Say hi \ud800"}


@pytest.mark.parametrize(
    ("kind", "asked", "body"),
    [
        pytest.param("ollama", facts("chat", MESSAGES), BODY, id="an engine that cannot tell"),
        pytest.param("sglang", facts("chat", MESSAGES), BODY, id="a chat at SGLang"),
        pytest.param("vllm", facts("chat", MESSAGES, "ollama"), BODY, id="a chat in another dialect"),
        pytest.param("vllm", facts("chat", MESSAGES), b"{", id="a body that is no JSON"),
        pytest.param("vllm", facts("chat", MESSAGES), b'{"tools":' + DEEP + b"}", id="nested beyond reading"),
        pytest.param("vllm", facts("completion", Prompt(texts=("a", "b"))), b"{}", id="several prompts"),
        pytest.param("vllm", facts("completion", Prompt(ids=((1,),))), b"{}", id="token ids"),
        pytest.param("vllm", facts("embed", TEXT), b"{}", id="an embedding"),
        pytest.param("vllm", facts("other", None), b"{}", id="no prompt"),
    ],
)
def test_what_an_engine_cannot_tell_is_not_asked(kind: str, asked: RequestFacts, body: bytes) -> None:
    assert question(kind, asked, body) is None


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (b'{"count": 31, "max_model_len": 4096, "tokens": [1, 2]}', Told(31, b"[1, 2]")),
        (b'{"object": "response.input_tokens", "input_tokens": 12}', Told(12)),
        (b'{"tokens": [5, {"id": 6, "piece": "a"}, 7]}', Told(3, b'[5, {"id": 6, "piece": "a"}, 7]')),
        (b'{"count": 7, "tokens": null}', Told(7)),
        (b'{"count": 0}', Told(0)),
        (b"{}", Told()),
        (b'{"count": "many"}', Told()),
        (b"404 page not found", Told()),
        (b'{"count": 3, "odd": ' + DEEP + b"}", Told()),
        (b'{"tokens": [' + b"9" * 10_000 + b"]}", Told()),
    ],
)
def test_an_answer_is_read_whatever_it_calls_the_number(answer: bytes, tokens: Told) -> None:
    assert read(answer) == tokens


@pytest.mark.parametrize(
    ("body", "more"),
    [
        pytest.param(b'{"add_special_tokens": false, "prompt": "x"}', {"add_special_tokens": False}, id="said"),
        pytest.param(b'{"prompt": "x"}', {}, id="not said"),
        pytest.param(b'{"add_special_tokens": "odd"}', {}, id="said oddly"),
        pytest.param(b'{"add_special_tokens": false, "a": ' + DEEP + b"}", {}, id="nested beyond reading"),
    ],
)
def test_vllm_is_told_what_the_client_says_of_special_tokens(body: bytes, more: dict[str, object]) -> None:
    asked = question("vllm", facts("completion", Prompt(texts=("x",))), body)
    assert asked is not None
    assert json.loads(asked.body) == {"prompt": "x", "model": "m1", **more}
