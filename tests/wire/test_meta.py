import json

import pytest

from proxy.wire.edits import Events, Whole
from proxy.wire.meta import MetaEdit, asks
from tests.wire.test_usage import facts

INFO = {"id": "a", "finish_reason": {"type": "stop", "matched": 2}, "queue_time": 0.01, "e2e_latency": 0.2}


def choice(index: int, **more: object) -> dict[str, object]:
    message = {"role": "assistant", "content": "Paris {}", "tool_calls": None}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": "stop", "matched_stop": 2, **more}


def test_a_body_that_cannot_be_read_does_not_ask():
    assert not asks("sglang", facts(b'{"messages":'))


def answer(*choices: dict[str, object], separators: tuple[str, str] = (",", ":")) -> bytes:
    """SGLang 0.5.23's, whose choices leave `meta_info` out where it is not asked for."""
    body = {"id": "c", "object": "chat.completion", "choices": choices, "usage": {"prompt_tokens": 7}, "metadata": {}}
    return json.dumps(body, separators=separators).encode()


@pytest.mark.parametrize(
    ("kind", "path", "body", "expected"),
    [
        ("sglang", "/v1/chat/completions", {}, True),
        ("sglang", "/v1/chat/completions", {"stream": False}, True),
        ("sglang", "/v1/chat/completions", {"stream": True}, False),
        ("sglang", "/v1/completions", {}, False),
        ("sglang", "/generate", {}, False),
        ("vllm", "/v1/chat/completions", {}, False),
        ("openai", "/v1/chat/completions", {}, False),
    ],
)
def test_it_is_asked_for_where_it_comes_on_demand(kind, path, body, expected):
    assert asks(kind, facts(json.dumps(body).encode(), path)) is expected


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("count", [1, 2])
def test_the_client_gets_what_it_would_have_got(count, separators):
    asked = answer(*(choice(index, meta_info=INFO | {"id": index}) for index in range(count)), separators=separators)
    unasked = answer(*map(choice, range(count)), separators=separators)
    for at in range(len(asked)):
        whole = Whole([MetaEdit()])
        assert whole.feed(asked[:at]) + whole.feed(asked[at:]) + whole.close() == unasked


@pytest.mark.parametrize("text", [b"", b"{", answer(choice(0)), b'{"object":"error","message":"no"}'])
def test_what_holds_no_block_stays(text):
    assert MetaEdit().body(text) == text


def test_a_stream_holds_none():
    event = b'data: {"choices":[{"index":0,"delta":{},"meta_info":{}}]}\n\n'
    assert Events([MetaEdit()]).feed(event) == event
