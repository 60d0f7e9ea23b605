import gzip
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.records import Message, Part, Prompt, RequestFacts
from proxy.wire.request import NAME_LIMIT, OPTION_LIMIT, RELOADING, VALUES_LIMIT, read_facts
from proxy.wire.routes import INFERENCE, Route, classify
from tests.wire.test_fields import JSON

CHAT = "/v1/chat/completions"
HI = {"messages": [{"role": "user", "content": "hi"}]}
HELLO = Prompt((Message("user", (Part("text", "hi"),)),))


def facts(path: str, body: object, *, closely: bool = False) -> RequestFacts:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_facts(classify("POST", path), "application/json", raw, closely=closely)


def unread(dialect: str, kind: str, why: str, route: str = "inference") -> RequestFacts:
    return RequestFacts(dialect, kind, route, unread=why)


def test_a_chat_request_says_what_it_wants():
    body = {"model": "m", **HI, "stream": True, "n": 2, "max_tokens": 9, "stream_options": {"include_usage": True}}
    assert facts(CHAT, body) == RequestFacts(
        dialect="openai",
        kind="chat",
        route="inference",
        model="m",
        stream=True,
        n=2,
        max_output=9,
        asks_usage=True,
        prompt=HELLO,
        output_names=("max_tokens",),
    )


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        pytest.param(CHAT, {"max_tokens": 9, "max_completion_tokens": 5}, {"max_output": 9}, id="the larger counts"),
        pytest.param(CHAT, {"max_tokens": 9, "n_predict": 12}, {"max_output": 12}, id="llama.cpp's own"),
        pytest.param("/api/chat", {**HI, "name": "m"}, {"model": None}, id="name is no model here"),
        pytest.param(CHAT, {"max_tokens": -1, "n": 0, "stream": "yes"}, {"max_output": None, "n": 1, "stream": None}),
        pytest.param(CHAT, {"stream_options": {"include_usage": False}}, {"asks_usage": False}, id="usage declined"),
        pytest.param(CHAT, {"options": {"num_ctx": 32768}}, {"options": (("num_ctx", "32768"),)}, id="options on /v1"),
        pytest.param(CHAT, {"num_ctx": 32768}, {"options": (("num_ctx", "32768"),)}, id="a window beside the model"),
        pytest.param("/api/chat", {"num_ctx": 32768}, {"options": ()}, id="no option of Ollama's own routes"),
        pytest.param("/v1/completions", {"prompt": ["a", "b"]}, {"prompts": 2, "prompt": Prompt(texts=("a", "b"))}),
        pytest.param(
            "/v1/completions", {"prompt": "a", "messages": []}, {"prompt": Prompt(texts=("a",))}, id="messages beside"
        ),
        pytest.param("/v2/embed", {"texts": ["a", "b"]}, {"prompts": 2}, id="embeddings in Cohere's way"),
        pytest.param("/v1/chat/completions/batch", {"messages": [HI["messages"]] * 3}, {"prompts": 3}, id="a batch"),
        pytest.param("/cohere/v2/chat", HI, {"prompts": 1, "prompt": HELLO}, id="another chat"),
        pytest.param("/inference/v1/generate", {"token_ids": [1, 2]}, {"prompt": Prompt(ids=((1, 2),))}, id="bare ids"),
        pytest.param("/v1/embeddings", {"input": "a"}, {"prompt": Prompt(texts=("a",))}, id="embeddings"),
        pytest.param("/v1/embeddings", HI, {"prompt": HELLO}, id="embedded chat"),
        pytest.param("/v1/embeddings", {"messages": [], "input": "a"}, {"prompt": Prompt(texts=("a",))}, id="no chat"),
        pytest.param(
            "/v1/embeddings", {"content": "a"}, {"prompt": Prompt(texts=("a",))}, id="llama.cpp's name for it"
        ),
        pytest.param(
            "/v2/embed", {"inputs": [{"content": "a"}]}, {"prompt": Prompt(texts=("a",))}, id="Cohere's other"
        ),
        pytest.param(
            "/pooling", {"data": {"a": 1}}, {"prompt": None}, id="nothing that is known: it weighs by its bytes"
        ),
        pytest.param(
            "/v1/completions",
            {"prompt": "a", "suffix": "b"},
            {"prompt": Prompt(texts=("ab",))},
            id="what stands behind",
        ),
        pytest.param("/v1/completions", {"prompt_embeds": "AAAA"}, {"prompt": Prompt(unseen=1)}, id="embeddings"),
        pytest.param("/v1/rerank", {"query": "q", "documents": ["a"]}, {"prompt": Prompt(texts=("q", "a"))}),
        pytest.param(
            "/api/chat",
            {**HI, "options": {"num_ctx": 2048, "temperature": 0, "num_predict": 7, "num_gpu": None}},
            {"options": (("num_ctx", "2048"),), "max_output": 7, "stream": None},
            id="ollama chat",
        ),
        pytest.param("/api/chat", {"options": {"num_predict": -1}}, {"max_output": None}, id="without a limit"),
        pytest.param("/api/generate", {"prompt": "a", "raw": True}, {"prompt": Prompt(texts=("a",))}, id="raw"),
        pytest.param("/api/embed", {"input": ["a", "b"]}, {"prompts": 2}, id="ollama embed"),
        pytest.param("/api/embeddings", {"prompt": "a"}, {"prompt": Prompt(texts=("a",))}, id="the older embed"),
        pytest.param("/completion", {"prompt": "a", "n_predict": 4}, {"max_output": 4, "prompt": Prompt(texts=("a",))}),
        pytest.param("/completion", {"prompt": "a", "n_predict": -1, "n": 3}, {"max_output": None, "n": 3}),
        pytest.param("/infill", {"input_prefix": "a"}, {"prompt": Prompt(texts=("a",)), "prompts": 1}, id="infill"),
        pytest.param("/v1/responses", {"input": "a", "max_output_tokens": 4}, {"max_output": 4}, id="responses"),
        pytest.param(
            "/v1/responses",
            {"input": "a", "max_output_tokens": 4, "n_predict": 9},
            {"max_output": 9, "output_names": ("max_output_tokens", "n_predict")},
            id="llama.cpp's own in responses",
        ),
        pytest.param("/completion", {"max_completion_tokens": 9, "n_predict": 4}, {"max_output": 9}, id="an alias"),
        pytest.param("/v1/messages", {**HI, "max_tokens": 4, "stream": False}, {"max_output": 4, "stream": False}),
        pytest.param(
            "/generate",
            {"input_ids": [1, 2], "sampling_params": {"max_new_tokens": 3, "n": 2}},
            {"max_output": 3, "n": 2, "prompt": Prompt(ids=((1, 2),))},
            id="sglang",
        ),
        pytest.param(
            "/generate",
            {"text": ["a", "b"], "sampling_params": [{"max_new_tokens": 3}, {"max_new_tokens": 9}]},
            {"max_output": 9},
            id="limits of several prompts",
        ),
        pytest.param("/generate", {"text": ["a", "b"], "sampling_params": [{"n": 4}]}, {"prompts": 2, "n": 4}),
    ],
)
def test_each_dialect_is_read(path, body, expected):
    found = facts(path, body)
    assert {name: getattr(found, name) for name in expected} == expected


def test_options_that_reload_a_model_have_a_fixed_order():
    one = facts("/api/chat", {"options": {"num_ctx": 1, "main_gpu": 0}})
    other = facts("/api/chat", {"options": {"main_gpu": 0, "num_ctx": 1}})
    assert one.options == other.options == (("main_gpu", "0"), ("num_ctx", "1"))
    assert sorted(RELOADING) == list(RELOADING)


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "Messages": HI["messages"]},
        {**HI, "model": "m", "MESSAGES": []},
        {**HI, "model": "m", "Model": "other"},
        {"model": "m", "messages": [{"role": "user", "content": "", "Content": "hi"}]},
        {**HI, "model": "m", "me\u017f\u017fages": []},
        {**HI, "model": "m", "Options": {"num_predict": 9}},
    ],
)
def test_names_that_one_engine_reads_and_another_does_not_leave_model_and_prompt_unknown(body):
    found = facts("/api/chat", body)
    assert found == unread("ollama", "chat", found.unread)
    assert found.unread.endswith("in other letters")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"model":"m","messages":[],"options":{"num_predict":9},"options":{}}', "it has `options` twice"),
        (b'{"model":"m","messages":[],"x":{"y":1,"y":2}}', "it has a member twice"),
        (b'{"model":"m","messages":[{"content":[{"Text":"hi"}]}]}', "it spells `text` in other letters"),
        (b'{"model":"m","messages":[],"zzz":' + b"1" * 5_000 + b"}", ""),
    ],
    ids=["options", "elsewhere", "inside", "huge number"],
)
def test_what_engines_may_read_differently_is_said_where_somebody_looks_closely(body, why):
    usual, close = facts("/api/chat", body), facts("/api/chat", body, closely=True)
    assert (usual.unread, close.unread) == ("", why)
    assert (close.model, close.prompt) == (usual.model, usual.prompt) == ("m", usual.prompt)


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/v1/embeddings", {"input": "a", "content": "long"}, "it has both `input` and `content`"),
        ("/api/embeddings", {"input": "a", "prompt": "long"}, "it has both `input` and `prompt`"),
        ("/v1/embeddings", {**HI, "input": "a"}, "it has both `input` and `messages`"),
        ("/rerank", {"query": "q", "documents": ["a"], "texts": ["long"]}, "it has both `documents` and `texts`"),
        ("/rerank", {"query": "q", "documents": ["a"], "texts": []}, ""),
        (CHAT, {**HI, "input": "a", "prompt": "b"}, ""),
    ],
)
def test_a_prompt_that_engines_may_look_for_elsewhere_is_said_where_somebody_looks_closely(path, body, why):
    assert (facts(path, body).unread, facts(path, body, closely=True).unread) == ("", why)


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/api/generate", {"prompt": "a", "template": "words {{ .Prompt }}"}, "it brings a template of its own"),
        (CHAT, {**HI, "chat_template": "words"}, "it brings a template of its own"),
        (CHAT, {**HI, "chat_template": None, "template": ""}, ""),
        ("/api/create", {"model": "m", "template": "words"}, ""),
    ],
)
@pytest.mark.parametrize("closely", [False, True])
def test_a_template_leaves_the_prompt_alone_in_doubt(path, body, why, closely):
    found = facts(path, body, closely=closely)
    assert (found.unread, found.unread_prompt) == ("", why)


def test_other_names_may_be_spelt_as_they_like():
    assert facts(CHAT, {**HI, "Metadata": {"Model": 1}}).prompt == HELLO


def test_a_compressed_body_with_something_behind_it_is_not_read():
    first, second = gzip.compress(json.dumps(HI).encode()), gzip.compress(b" " * 9)
    assert facts(CHAT, first).prompt == HELLO
    assert facts(CHAT, first + second).prompt is None


def test_json_is_read_whatever_the_type_says():
    for type in ("image/png", "multipart/form-data", "application/octet-stream"):
        assert read_facts(classify("POST", CHAT), type, json.dumps(HI).encode()).prompt == HELLO


@pytest.mark.parametrize("model", [5, None, ["m"], {"m": 1}, True, ""])
def test_a_model_name_is_a_string_or_unknown(model):
    assert facts(CHAT, {"model": model}).model is None


def test_names_and_options_are_of_bounded_length():
    asked = facts("/api/chat", {"model": "m" * 9_000_000, "options": {"num_ctx": "9" * 9_000_000}})
    assert asked.model == "m" * NAME_LIMIT
    assert [len(value) for _, value in asked.options] == [OPTION_LIMIT]


def test_a_model_name_is_kept_as_sent():
    assert facts(CHAT, {"model": " M:ä/1\n"}).model == " M:ä/1\n"
    assert facts("/api/show", {"name": "m"}) == RequestFacts("ollama", "other", "read", model="m")
    assert facts("/tokenize", {"model": "m"}).model == "m"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"7",
        b"[" * 100_000,
        b'{"messages":' + b"[" * 100_000,
        b"\x1f\x8b broken",
        b"\x78\x9c broken",
        gzip.compress(b"nope"),
    ],
    ids=range(11),
)
@pytest.mark.parametrize("path", [CHAT, "/api/generate", "/v1/messages", "/nobody/knows"])
def test_a_body_that_is_no_object_leaves_all_unknown(path, body):
    route = classify("POST", path)
    found = facts(path, body)
    assert found == unread(route.dialect, route.kind, found.unread, route.route)
    assert found.unread in ("it is no JSON object", "it cannot be inflated")


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_compressed_body_is_read_from_a_copy(pack):
    assert facts(CHAT, pack(json.dumps({"model": "m", **HI}).encode())).model == "m"


def test_a_body_that_inflates_without_end_is_not_read():
    bomb = gzip.compress(b'{"model":"m","x":"' + b" " * (65 << 20) + b'"}', compresslevel=1)
    assert facts(CHAT, bomb) == unread("openai", "chat", "it inflates to more than is read")


def test_numbers_and_strings_that_are_not_quite_json_are_read():
    found = facts(CHAT, rb'{"model":"m\ud800","n":1e999,"max_tokens":NaN,"messages":[{"content":"\udfff"}]}')
    assert (found.model, found.n, found.max_output) == ("m?", 1, None)
    assert found.prompt == Prompt((Message("", (Part("text", "?"),)),))


def test_tools_too_deep_to_write_leave_the_prompt_unknown():
    # Deep enough to be read and too deep to be written, if any depth is; nothing is raised at any.
    for depth in (300, 900, 990, 2_000, 100_000):
        body = b'{"model":"m","tools":[' + b"[" * depth + b"]" * depth + b"]}"
        found = facts(CHAT, body)
        assert found.dialect == "openai"
        assert (found.prompt is None) == bool(found.unread)


def test_a_form_is_not_read_and_a_body_without_a_prompt_has_none():
    route = classify("POST", "/v1/audio/transcriptions")
    assert read_facts(route, "multipart/form-data; boundary=x", b'{"model":"m"}') == unread(
        "passthrough", "audio", "it is a form"
    )
    assert read_facts(route, "application/json", b'{"model":"m"}') == RequestFacts(
        "passthrough", "audio", "inference", model="m"
    )


@given(st.sampled_from(sorted(INFERENCE)), st.data(), st.booleans())
def test_no_body_raises(path, data, closely):
    names = ["model", "messages", "prompt", "input", "tools", "n", "stream", "options", "system", "images", "text"]
    names += ["stream_options", "sampling_params", "context", "raw", "input_ids", "query", "documents", "content"]
    body = data.draw(st.dictionaries(st.sampled_from(names), JSON))
    found = facts(path, json.dumps(body).encode(), closely=closely)
    assert found.n >= 1
    assert found.prompts >= 1


@given(st.binary(max_size=40))
def test_no_bytes_raise(body):
    assert read_facts(Route("openai", "chat", "inference"), "", body, closely=True).dialect == "openai"


@pytest.mark.parametrize("value", [b"0", b"[" * 100 + b"]" * 100, b'{"a":' * 100 + b"0" + b"}" * 100])
def test_a_body_of_more_values_than_any_prompt_is_not_read(value):
    each = value.count(b"[") + value.count(b"{") + 1
    body = b'{"model":"m","x":[' + (value + b",") * (VALUES_LIMIT // each + 1) + b"0]}"
    assert facts(CHAT, body) == unread("openai", "chat", "it has more than 1,000,000 values")
