import json

import pytest

from proxy.records import Call, Message, Part, Prompt
from proxy.wire.prompts import chat_prompt, generate_prompt, infill_prompt, pair_prompt, raw_prompt, responses_prompt


def said(role: str, *texts: str) -> Message:
    return Message(role, tuple(Part("text", text) for text in texts))


def test_messages_keep_their_order_and_their_text():
    body = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": " u\n"}], "cache_salt": "t1"}
    assert chat_prompt(body) == Prompt((said("system", "s"), said("user", " u\n")), salt="t1")


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param("", [("text", "")], id="empty"),
        pytest.param(None, [], id="null"),
        pytest.param(["a"], [("text", "a")], id="a string among parts"),
        pytest.param([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], [("text", "a"), ("text", "b")]),
        pytest.param([{"text": "a"}], [("text", "a")], id="a part without a type"),
        pytest.param(
            [{"type": "image_url", "image_url": {"url": "data:1"}}, {"type": "text", "text": "a"}],
            [("image", "data:1"), ("text", "a")],
            id="image before text",
        ),
        pytest.param([{"type": "image_url", "image_url": "u"}], [("image", "u")], id="image as a string"),
        pytest.param([{"type": "input_image", "image_url": "u"}], [("image", "u")], id="image of responses"),
        pytest.param([{"type": "image", "source": {"data": "b64"}}], [("image", "b64")], id="image of anthropic"),
        pytest.param([{"type": "image", "source": {"url": "u"}}], [("image", "u")], id="image by address"),
        pytest.param([{"type": "input_audio", "input_audio": {}}], [("audio", "")], id="audio"),
        pytest.param([{"type": "video_url", "video_url": {"url": "v"}}], [("unknown", "")], id="unknown type"),
        pytest.param([7, None, [], {"type": "text", "text": 5}], [("unknown", "")] * 4, id="no parts at all"),
        pytest.param(
            [{"type": {}, "text": "a"}, {"type": [], "text": "a"}, {"type": 5}, {"type": False}],
            [("unknown", "")] * 4,
            id="a type that is no word",
        ),
        pytest.param([{"type": "thinking", "thinking": "hm"}], [], id="earlier reasoning"),
        pytest.param([{"type": "refusal", "refusal": "no"}], [("text", "no")], id="a refusal, which vLLM renders"),
        pytest.param(5, [], id="a number"),
    ],
)
def test_content_is_read_into_parts(content, parts):
    [message] = chat_prompt({"messages": [{"role": "user", "content": content}]}).messages
    assert message.parts == tuple(Part(*part) for part in parts)


def test_images_of_a_message_come_before_its_text():
    [message] = chat_prompt({"messages": [{"role": "user", "content": "a", "images": ["i", 5]}]}).messages
    assert message.parts == (Part("image", "i"), Part("image", ""), Part("text", "a"))


def test_arguments_stay_as_sent_or_keep_their_order_of_keys():
    calls = [
        {"function": {"name": "f", "arguments": '{"b": 1,"a":2}'}},
        {"function": {"name": "g", "arguments": {"ä": 1, "a": 2}}},
    ]
    body = {"messages": [{"role": "assistant", "content": None, "tool_calls": calls}]}
    [message] = chat_prompt(body).messages
    assert message == Message("assistant", (), (Call("f", '{"b": 1,"a":2}'), Call("g", '{"ä": 1, "a": 2}')))


def test_calls_of_other_forms_are_calls():
    old = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    block = {"role": "assistant", "content": [{"type": "tool_use", "name": "g", "input": {"x": 1}}]}
    odd = {"role": "assistant", "tool_calls": [{}, 5, {"function": 7}]}
    messages = chat_prompt({"messages": [old, block, odd]}).messages
    assert [message.calls for message in messages] == [
        (Call("f", "{}"),),
        (Call("g", '{"x": 1}'),),
        (Call("", "{}"), Call("", "{}")),
    ]


def test_tools_are_json_text_with_the_clients_order_of_keys():
    tool = {"type": "function", "function": {"name": "ü", "b": 1, "a": [1.5]}}
    text = '{"type": "function", "function": {"name": "ü", "b": 1, "a": [1.5]}}'
    assert chat_prompt({"messages": [], "tools": [tool]}).tools == (text,)
    assert chat_prompt({"functions": [tool], "tools": None}).tools == (text,)
    assert chat_prompt({"tools": {"a": 1}}).tools == ()


@pytest.mark.parametrize("messages", [[], None, "x", 5, {}, [None, 5, "x", []]])
def test_messages_that_are_none_are_none(messages):
    assert chat_prompt({"messages": messages}).messages == ()


def test_anthropics_system_goes_first_and_tool_results_before_their_message():
    result = {"type": "tool_result", "content": [{"type": "text", "text": "42"}]}
    body = {
        "messages": [
            {"role": "user", "content": [result, {"type": "text", "text": "so?"}]},
            {"role": "user", "content": [result]},
        ]
    }
    prompt = chat_prompt(body, [{"type": "text", "text": "be brief"}])
    assert prompt.messages == (said("system", "be brief"), said("tool", "42"), said("user", "so?"), said("tool", "42"))


def test_responses_has_instructions_and_items():
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "output": "42"},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    ]
    prompt = responses_prompt({"instructions": "i", "input": items, "tools": [{"name": "f"}]})
    assert prompt.messages == (
        said("system", "i"),
        said("user", "q"),
        Message("assistant", (), (Call("f", "{}"),)),
        said("tool", "42"),
        said("assistant", "a"),
    )
    assert prompt.tools == ('{"name": "f"}',)
    assert responses_prompt({"input": "q"}) == Prompt((said("user", "q"),))


def test_generate_is_a_system_and_a_user_message_or_the_raw_text():
    body = {"system": "s", "prompt": "p", "images": ["i"]}
    user = Message("user", (Part("image", "i"), Part("text", "p")))
    assert generate_prompt(body) == Prompt((said("system", "s"), user))
    assert generate_prompt(body | {"raw": True}) == Prompt(texts=("p",))
    assert generate_prompt({"prompt": "p", "context": [1, 2, "x"]}) == Prompt((said("user", "p"),), ids=((1, 2),))
    assert generate_prompt({"prompt": "p", "suffix": "s"}) == Prompt((said("user", "ps"),))
    assert generate_prompt({"prompt": "p", "suffix": "s", "raw": True}) == Prompt(texts=("p",))
    assert generate_prompt({"prompt": 5, "system": 7}) == generate_prompt({"raw": True}) == Prompt()


@pytest.mark.parametrize(
    ("asked", "texts", "ids", "prompts"),
    [
        pytest.param("a", ["a"], [], 1, id="a text"),
        pytest.param(["a", "b"], ["a", "b"], [], 2, id="texts"),
        pytest.param([9906, 11, 1917], [], [[9906, 11, 1917]], 1, id="ids are one prompt"),
        pytest.param([[1, 2], [3]], [], [[1, 2], [3]], 2, id="lists of ids"),
        pytest.param([[-1]], [], [[-1]], 1, id="an id below zero"),
        pytest.param([[10**30]], [], [[2**63 - 1]], 1, id="a huge id"),
        pytest.param([1, "a", 2], ["a"], [[1, 2]], 1, id="ids and text mixed"),
        pytest.param([["a", 1], "b"], ["a", "b"], [[1]], 2, id="mixed among several"),
        pytest.param([{"prompt_string": "a"}], ["a"], [], 1, id="llama.cpp's object"),
        pytest.param([{"content": [{"type": "text", "text": "a"}]}], ["a"], [], 1, id="Cohere's object"),
        pytest.param([], [], [], 1, id="an empty list"),
        pytest.param([True, 1.5, None], [], [], 3, id="neither text nor ids"),
        pytest.param(None, [], [], 1, id="nothing"),
    ],
)
def test_raw_prompts(asked, texts, ids, prompts):
    expected = Prompt(texts=tuple(texts), ids=tuple(map(tuple, ids)), salt="s")
    assert raw_prompt(asked, "s") == (expected, prompts)


def test_ids_that_no_record_can_hold_are_cut():
    assert raw_prompt([1, 2**70, -(2**70)])[0].ids == ((1, 2**63 - 1, -(2**63)),)
    assert generate_prompt({"context": [2**64]}).ids == ((2**63 - 1,),)


def test_what_the_engine_reads_besides_and_is_not_here_is_known_to_be_missing():
    hello = {"messages": [{"role": "user", "content": "hi"}]}
    assert chat_prompt({**hello, "documents": [{"text": "long"}]}).unseen == 1
    assert chat_prompt({**hello, "documents": []}).unseen == chat_prompt(hello).unseen == 0
    assert responses_prompt({"input": "hi", "previous_response_id": "resp_1"}).unseen == 1
    assert responses_prompt({"input": "hi", "conversation": {"id": "c"}, "prompt": {"id": "p"}}).unseen == 2
    assert responses_prompt({"input": "hi", "previous_response_id": None}).unseen == 0


def test_pairs_are_one_text_against_several():
    assert pair_prompt({"query": "q", "documents": ["a", {"text": "b"}, 5]}) == (
        Prompt(texts=("q", "a", "b", ""), again=2),
        3,
    )
    assert pair_prompt({"text_1": ["q"], "text_2": "a"}) == (Prompt(texts=("q", "a")), 1)
    assert pair_prompt({"query": "q", "texts": ["a", "b"]}) == (Prompt(texts=("q", "a", "b"), again=1), 2)
    assert pair_prompt({"data_1": "q", "data_2": ["a"]}) == (Prompt(texts=("q", "a")), 1)
    assert pair_prompt({"text_1": ["q", "r"], "text_2": ["a", "b"]}) == (Prompt(texts=("q", "r", "a", "b")), 2)
    part, image = {"type": "text", "text": "c"}, {"type": "image_url", "image_url": "data:1"}
    seen = {"query": {"content": [part]}, "documents": {"content": [part, image, part]}}
    assert pair_prompt(seen) == (Prompt(texts=("c", "cc")), 1)
    assert pair_prompt({}) == (Prompt(), 1)


def test_infill_is_one_prompt_of_what_stands_around_the_gap():
    body = {"input_prefix": "pre", "input_suffix": "suf", "input_extra": [{"text": "extra"}], "prompt": ""}
    assert infill_prompt(body) == Prompt(texts=("extra", "suf", "pre"))


def test_the_order_of_keys_survives_parsing():
    text = '{"messages": [], "tools": [{"z": 1, "a": {"y": 2, "b": 3}}]}'
    assert chat_prompt(json.loads(text)).tools == ('{"z": 1, "a": {"y": 2, "b": 3}}',)
