import json

import pytest

from proxy.records import RequestFacts
from proxy.wire.caps import PATHS, cap_output, heeds


@pytest.mark.parametrize(
    ("dialect", "body", "capped"),
    [
        ("openai", b'{ "model":"m"}', {"model": "m", "max_tokens": 9}),
        ("openai", b'{"max_completion_tokens": 100, "n":1}', {"max_tokens": 9, "max_completion_tokens": 9, "n": 1}),
        ("openai", b'{"n_predict": 5}', {"max_tokens": 5, "n_predict": 5}),
        ("openai", b'{"max_tokens":0,"n_predict":"many"}', {"max_tokens": 1, "n_predict": 9}),
        ("openai", b'{"max_tokens":-2}', {"max_tokens": 9}),
        ("openai", b'{"max_tokens":70,"max_completion_tokens":80}', {"max_tokens": 9, "max_completion_tokens": 9}),
        ("openai", b'{"max_tokens":999,"max_completion_tokens":5}', {"max_tokens": 9, "max_completion_tokens": 5}),
        ("openai", b'{"max_tokens":"999","n_predict":-1}', {"max_tokens": 9, "n_predict": 9}),
        ("openai", b'{"max_tokens":999.0,"max_completion_tokens":null}', {"max_tokens": 9, "max_completion_tokens": 9}),
        ("openai", b'{"max_tokens":nil}', {"max_tokens": 9}),
        ("responses", b'{"max_output_tokens":null}', {"max_output_tokens": 9}),
        ("responses", b'{"max_output_tokens":5,"n_predict":99}', {"max_output_tokens": 5, "n_predict": 9}),
        ("responses", b'{"max_tokens":99}', {"max_output_tokens": 9, "max_tokens": 9}),
        ("anthropic", b'{"max_tokens":1024}', {"max_tokens": 9}),
        ("ollama", b'{"options":{"num_ctx":8}}', {"options": {"num_ctx": 8, "num_predict": 9}}),
        ("llamacpp", b'{"n_predict":-1}', {"n_predict": 9}),
        ("ollama", b'{"options":{"num_predict":0}}', {"options": {"num_predict": 1}}),
        ("sglang", b"{}", {"sampling_params": {"max_new_tokens": 9}}),
    ],
)
def test_the_limit_is_written_where_the_dialect_states_it(dialect: str, body: bytes, capped: dict[str, object]):
    written = cap_output(RequestFacts(dialect, "chat", "inference"), body, 9)
    assert written is not None
    assert json.loads(written) == capped


@pytest.mark.parametrize(
    ("kind", "dialect", "asked", "names", "heeded"),
    [
        ("ollama", "openai", "chat", ("max_tokens",), True),
        ("ollama", "openai", "chat", ("max_completion_tokens",), False),
        ("ollama", "openai", "chat", ("max_completion_tokens", "max_tokens"), True),
        ("openai", "openai", "chat", ("max_completion_tokens",), False),
        ("vllm", "openai", "chat", ("max_completion_tokens",), True),
        ("vllm", "openai", "completion", ("max_completion_tokens",), False),
        ("vllm", "openai", "chat", ("n_predict",), False),
        ("vllm", "responses", "chat", ("max_completion_tokens",), False),
        ("sglang", "openai", "chat", ("max_completion_tokens", "n_predict"), True),
        ("llamacpp", "openai", "completion", ("n_predict",), True),
        ("llamacpp", "responses", "chat", ("n_predict",), True),
        ("ollama", "ollama", "chat", (), True),
        ("openai", "passthrough", "other", (), True),
    ],
)
def test_a_limit_binds_the_engines_that_know_its_name(
    kind: str, dialect: str, asked: str, names: tuple[str, ...], heeded: bool
):
    assert heeds(kind, RequestFacts(dialect, asked, "inference", output_names=names)) is heeded


def test_a_limit_that_the_engine_heeds_is_enough():
    chat, body = RequestFacts("openai", "chat", "inference"), b'{"max_completion_tokens":5}'
    assert cap_output(chat, body, 9, "vllm") == body
    assert cap_output(chat, body, 9, "ollama") == b'{"max_tokens":5,"max_completion_tokens":5}'


def test_every_byte_around_the_number_stays():
    body = b'{ "max_tokens" : 100 ,\n "x":"\\u00e9"}'
    assert cap_output(RequestFacts("openai", "chat", "inference"), body, 9) == b'{ "max_tokens" : 9 ,\n "x":"\\u00e9"}'


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("passthrough", b"{}"),
        ("openai", b"[1]"),
        ("openai", b"null"),
        ("ollama", b'{"Options":{"num_predict":99}}'),
        ("openai", b'{"max_tokens":5,"MAX_TOKENS":99}'),
        ("openai", b'{"max_tokens":5,"n_predict":99,"n_predict":99}'),
        ("ollama", b'{"options":{"num_predict":5},"options":{"num_predict":99}}'),
        ("ollama", b'{"options":{"num_predict":5,"num_predict":99}}'),
        ("sglang", b'{"sampling_params":[{"max_new_tokens":99}]}'),
    ],
)
def test_what_cannot_be_written_safely_is_not(dialect: str, body: bytes):
    assert cap_output(RequestFacts(dialect, "chat", "inference"), body, 9) is None


def test_dialects_of_inference_have_a_place():
    assert {"openai", "responses", "anthropic", "ollama", "llamacpp", "sglang"} == set(PATHS)
