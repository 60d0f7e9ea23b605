import json
import re
from array import array

import pytest

from proxy.wire.edits import Events, Whole
from proxy.wire.framing import streams
from proxy.wire.ids import PIECE, IdsEdit, asks, spelt
from tests.wire.test_dialects import LONG, Exchange, recorded
from tests.wire.test_usage import DONE, TEXT, facts

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
PICTURE = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]}
PATHS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}


@pytest.mark.parametrize(
    ("kind", "path", "body", "expected"),
    [
        pytest.param("vllm", "/v1/chat/completions", CHAT, True, id="a chat"),
        pytest.param("vllm", "/v1/chat/completions", CHAT | {"stream": True, "n": 2}, True, id="a stream"),
        pytest.param("vllm", "/v1/completions", {"prompt": "Hi"}, True, id="a completion"),
        pytest.param("vllm", "/v1/completions", {"prompt": [1, 2]}, True, id="of token ids"),
        pytest.param("vllm", "/v1/completions", {"prompt": ["a", "b"]}, False, id="several prompts"),
        pytest.param("vllm", "/v1/chat/completions", PICTURE, False, id="an image"),
        pytest.param("vllm", "/v1/chat/completions", [], False, id="no prompt"),
        pytest.param("vllm", "/v1/responses", {"input": "Hi"}, False, id="another dialect"),
        pytest.param("vllm", "/v1/embeddings", {"input": "Hi"}, False, id="no answer of tokens"),
        pytest.param("sglang", "/v1/chat/completions", CHAT, False, id="SGLang"),
        pytest.param("openai", "/v1/chat/completions", CHAT, False, id="an engine that is not known"),
    ],
)
def test_vllm_is_asked_for_the_ids_of_one_prompt_of_text(kind, path, body, expected):
    assert asks(kind, facts(json.dumps(body).encode(), path)) is expected


def event(*choices: dict[str, object], **more: object) -> bytes:
    return b"data: " + json.dumps({"id": "c", "choices": choices, **more}, separators=(",", ":")).encode() + b"\n\n"


def choice(text: str | None, finish: str | None = None, index: int = 0, **more: object) -> dict[str, object]:
    delta = {} if text is None else {"content": text}
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish, **more}


def terse(text: str | None, finish: str | None = None, **more: object) -> dict[str, object]:
    """As vLLM's server in Rust writes it: what is null is left out."""
    return {name: value for name, value in choice(text, finish, **more).items() if value is not None}


ASKED = [
    event({"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}, prompt_token_ids=[1, 2]),
    event(choice("a", token_ids=[3])),
    event(choice(None, token_ids=[4])),
    event(choice('"token_ids":[5]', token_ids=[5, 5])),
    event(choice(None, "stop", token_ids=[2])),
    DONE,
]
UNASKED = [
    event({"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}, prompt_token_ids=None),
    event(choice("a", token_ids=None)),
    event(choice('"token_ids":[5]', token_ids=None)),
    event(choice(None, "stop", token_ids=None)),
    DONE,
]
TERSE_ASKED = [
    event({"index": 0, "delta": {"role": "assistant", "content": ""}}, prompt_token_ids=[1, 2]),
    event(terse("a", token_ids=[3])),
    event(terse("b", "stop", token_ids=[4])),
]
TERSE_UNASKED = [
    event({"index": 0, "delta": {"role": "assistant", "content": ""}}),
    event(terse("a")),
    event(terse("b", "stop")),
]


@pytest.mark.parametrize(
    ("asked", "unasked"), [(ASKED, UNASKED), (TERSE_ASKED, TERSE_UNASKED)], ids=["nulls", "no nulls"]
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_the_client_gets_what_it_would_have_got_at_every_cut(asked, unasked, end):
    body, due = (b"".join(events).replace(b"\n", end) for events in (asked, unasked))
    for at in range(len(body)):
        events = Events([IdsEdit()])
        assert events.feed(body[:at]) + events.feed(body[at:]) + events.close() == due
    events = Events([IdsEdit()])
    assert b"".join([events.feed(body[at : at + 1]) for at in range(len(body))]) + events.close() == due


def test_an_event_of_ids_alone_goes_and_one_that_ends_a_choice_stays():
    edit = IdsEdit()
    assert edit.event(ASKED[2]) is None
    assert edit.event(event(choice(None, "tool_calls", token_ids=[1]))) is not None
    assert edit.event(event(choice(None, token_ids=[1]), choice("a", index=1, token_ids=[2]))) is not None
    assert edit.event(event(choice(None, token_ids=None))) == event(choice(None, token_ids=None))


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b'data: {"token_ids":[1]}\n\n', id="no choices"),
        pytest.param(b'data: {"choices":[{"token_ids":[1]}]\n\n', id="broken"),
        pytest.param(b'data: {"choices":\ndata: [{"token_ids":[1]}]}\n\n', id="two lines"),
        pytest.param(b': "token_ids"\n\n', id="a comment"),
        pytest.param(b'data: ["token_ids"]\n\n', id="no object"),
    ],
)
def test_what_is_not_plain_stays(block):
    assert Events([IdsEdit()]).feed(TEXT + block) == TEXT + block


def test_a_whole_answer_has_nulls_whatever_its_choices_say():
    asked = b'{"choices":[{"message":{"content":"a"},"token_ids":[3,4]}],"prompt_token_ids":[1,2],"prompt_text":null}'
    unasked = b'{"choices":[{"message":{"content":"a"},"token_ids":null}],"prompt_token_ids":null,"prompt_text":null}'
    whole = Whole([IdsEdit()])
    assert whole.feed(asked) + whole.close() == unasked
    assert IdsEdit().body(asked[:-9]) == asked[:-9]


# --- what vLLM 0.32.0 really said, asked and not asked ---

PAIRS = [name for name in recorded() if f"{name}_asked" in recorded()]
OWN = re.compile(rb'"created":\d+|chatcmpl-tool-[0-9a-f]+')
"""What differs from one answer to the next."""


def cut(exchange: Exchange, pieces: list[bytes]) -> bytes:
    edit = Events([IdsEdit()]) if streams(exchange.content_type) else Whole([IdsEdit()])
    return b"".join([*map(edit.feed, pieces), edit.close()])


@pytest.mark.parametrize("name", PAIRS)
def test_the_client_of_a_real_engine_gets_what_it_would_have_got_at_every_cut(name):
    asked, body = recorded()[f"{name}_asked"], recorded()[f"{name}_asked"].body.encode()
    whole = cut(asked, [body])
    assert OWN.sub(b"", whole) == OWN.sub(b"", recorded()[name].body.encode())
    assert cut(asked, [body[at : at + 1] for at in range(len(body))]) == whole
    for at in range(0, len(body), 1 if len(body) < LONG else len(body) // 100):
        assert cut(asked, [body[:at], body[at:]]) == whole


@pytest.mark.parametrize("name", [name for name in recorded() if "token_ids" not in recorded()[name].request])
def test_what_engines_say_that_were_not_asked_stays(name):
    exchange = recorded()[name]
    assert cut(exchange, [exchange.body.encode()]) == exchange.body.encode()


def test_the_recordings_hold_events_of_ids_alone():
    counts = [recorded()[f"vllm_ids/tools_stream{asked}"].body.count("data: ") for asked in ("_asked", "")]
    assert counts == [57, 14]


# --- reading ids ---


def test_ids_are_read_a_piece_at_a_time():
    ids = [7919 * at % 150_000 for at in range(20_000)]
    pieces = list(spelt(json.dumps(ids).encode()))
    assert [id for piece in pieces for id in piece] == ids
    assert max(len(piece) for piece in pieces) <= PIECE
    assert len(pieces) > 3


@pytest.mark.parametrize(
    ("text", "ids"),
    [(b"[]", []), (b" [1]\n", [1]), (b"[1 , 2]", [1, 2]), (b"[-1,4294967296,4294967295]", [2**32 - 1, 0, 2**32 - 1])],
)
def test_ids_are_read_as_they_stand(text, ids):
    assert sum(spelt(text), array("I")).tolist() == ids


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[", b"[1,", b'["1"]', b"[1.5]", b"[[1]]", b"[1,,2]", b"{}", b"[null]"]
)
def test_what_is_no_list_of_ids_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        list(spelt(text))
