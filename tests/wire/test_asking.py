import json

import pytest

from proxy.wire.asking import ASKINGS, ask, wanted
from tests.wire.test_usage import facts

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("kind", "more", "expected"),
    [
        ("vllm", {"stream": True}, ("usage", "token_ids")),
        ("vllm", {}, ("token_ids",)),
        ("sglang", {"stream": True}, ("usage",)),
        ("sglang", {}, ("meta_info",)),
        ("openai", {"stream": True}, ("usage",)),
        ("llamacpp", {"stream": True}, ()),
    ],
)
def test_an_engine_is_asked_for_what_it_tells_on_demand(kind, more, expected):
    assert wanted(ASKINGS, kind, facts(json.dumps(CHAT | more).encode())) == expected
    assert wanted((), kind, facts(json.dumps(CHAT | more).encode())) == ()


@pytest.mark.parametrize(
    ("names", "body", "spliced"),
    [
        (
            ("usage",),
            b'{"model": "m", "stream": true}',
            b'{"stream_options":{"include_usage":true},"model": "m", "stream": true}',
        ),
        (("token_ids",), b'{ "model":"m" }', b'{"return_token_ids":true, "model":"m" }'),
        (("meta_info",), b"{}", b'{"return_meta_info":true}'),
        (
            ("usage", "token_ids"),
            b'{"stream":true}',
            b'{"return_token_ids":true,"stream_options":{"include_usage":true},"stream":true}',
        ),
        (
            ("token_ids",),
            b'{"echo": false, "logprobs":null}',
            b'{"return_token_ids":true,"echo": false, "logprobs":null}',
        ),
    ],
)
def test_the_asking_is_a_splice(names, body, spliced):
    assert ask(body, names) == (spliced, names)


@pytest.mark.parametrize(
    "body",
    [
        b'{"stream_options":{"include_usage":true},"return_token_ids":true}',
        b'{"stream_options":{"include_usage":false},"return_token_ids":false}',
        b'{"stream_options":{"include_usage":null},"return_token_ids":null}',
        b'{"stream_options":5,"return_token_ids":5}',
        b'{"stream_options":5,"echo":true}',
        b'{"stream_options":5,"logprobs":true}',
        b'{"stream_options":5,"logprobs":0}',
        b"\x1f\x8b gzip",
    ],
)
def test_where_the_client_has_spoken_or_more_would_change_nothing_is_asked(body):
    assert ask(body, ("usage", "token_ids")) == (body, ())


def test_one_may_be_asked_for_where_the_client_has_spoken_of_another():
    body = b'{"stream":true,"stream_options":{"include_usage":true}}'
    assert ask(body, ("usage", "token_ids")) == (b'{"return_token_ids":true,' + body[1:], ("token_ids",))
