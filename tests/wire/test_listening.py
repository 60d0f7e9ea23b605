import json

import pytest

from proxy.events import Event, Frame
from proxy.records import RequestFacts
from proxy.wire.listening import PromptIds
from proxy.wire.openai import OpenAi


def heard(*bodies: object) -> tuple[list[bytes], list[Event], bool]:
    told: list[bytes] = []
    reader = PromptIds(OpenAi(RequestFacts("openai", "chat", "inference"), True), told.append)
    events = [reader.read(Frame(body if isinstance(body, bytes) else json.dumps(body).encode())) for body in bodies]
    return told, events, reader.complete()


def chunk(text: str, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None, **more}]}


@pytest.mark.parametrize(
    ("bodies", "told"),
    [
        pytest.param([chunk("a") | {"prompt_token_ids": [1, 2]}], [b"[1, 2]"], id="at the top"),
        pytest.param([chunk("a", prompt_token_ids=[3])], [b"[3]"], id="in a choice"),
        pytest.param([chunk("a", prompt_token_ids=None), chunk("b", prompt_token_ids=[4])], [b"[4]"], id="later"),
        pytest.param([chunk("a", prompt_token_ids=[5])] * 2, [b"[5]"], id="once"),
        pytest.param([chunk("a", token_ids=[6])], [], id="others are none"),
        pytest.param([chunk("a") | {"prompt_token_ids": None}], [], id="null"),
        pytest.param([chunk("a", prompt_token_ids="odd")], [], id="no list"),
    ],
)
def test_the_prompts_ids_are_told_once_and_events_are_the_readers(bodies, told):
    ids, events, complete = heard(*bodies)
    assert ids == told
    assert [event.text for event in events] == [body["choices"][0]["delta"]["content"] for body in bodies]
    assert not complete


def test_what_it_cannot_read_is_the_readers_business():
    told, (event,), _ = heard(b'{"prompt_token_ids":[1],"choices":[{"index":"x","delta":{"content":"a"}}]}')
    assert (told, event.text) == ([b"[1]"], "a")
    told, (event,), complete = heard(b'{"choices":"prompt","prompt_token_ids":[1]}')
    assert (told, event.text, complete) == ([], "", False)


def test_the_end_is_as_the_reader_says():
    assert heard(b"[DONE]")[2]
