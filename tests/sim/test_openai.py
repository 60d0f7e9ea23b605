import asyncio
from typing import Any

from proxy.sim.jobs import Truth
from proxy.sim.openai import Habits
from tests.sim.asgi import CHAT, Exchange, ask, play, vllm


def test_headers_of_a_stream_leave_before_the_queue_and_the_role_with_the_first_token() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        first, second = (Exchange(server, "POST", "/v1/chat/completions", {**CHAT, "stream": True}) for _ in "ab")
        await asyncio.gather(first.run(), second.run())
        assert second.headers[b"content-type"].startswith(b"text/event-stream")
        assert [message["type"] for message in second.sent[:2]] == ["http.response.start", "http.response.body"]
        role, token = [event["choices"][0]["delta"] for event in second.events[:2]]
        assert (role, set(token)) == ({"role": "assistant", "content": ""}, {"content"})
        assert second.writes[0].count(b"data: ") == 2

    play(vllm(sequences=1), scene)


def test_a_stream_ends_with_its_finish_reason_its_usage_and_done() -> None:
    got = ask(vllm(), "/v1/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}})
    *_, last, usage = got.events
    assert last["choices"][0]["finish_reason"] == "length"
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 4)
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert usage["metrics"]["queue_time_ms"] == 0
    assert got.writes[-1].endswith(b"data: [DONE]\n\n")
    assert got.headers[b"x-request-id"] == b"rid"
    assert usage["id"] == "chatcmpl-rid"


def test_usage_comes_only_when_asked_for() -> None:
    got = ask(vllm(), "/v1/chat/completions", {**CHAT, "stream": True})
    assert all("usage" not in event for event in got.events)


def test_running_usage_counts_up_and_has_no_details() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    got = ask(vllm(), "/v1/chat/completions", {**CHAT, "stream": True, "stream_options": options})
    usages = [event["usage"] for event in got.events if event["choices"]]
    assert [usage["completion_tokens"] for usage in usages] == [0, 1, 2, 3, 4]
    assert all("prompt_tokens_details" not in usage for usage in usages)


def test_an_answer_that_ends_by_itself_has_a_finish_chunk_of_its_own() -> None:
    body = {"model": "m", "messages": CHAT["messages"], "stream": True}
    got = ask(vllm(speed=20), "/v1/chat/completions", body)
    assert got.events[-1]["choices"][0]["delta"] == {}
    assert got.events[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_whole_body_has_message_usage_and_metrics_that_sum() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        got = await Exchange(server, "POST", "/v1/chat/completions", CHAT).run()
        metrics, truth = got.body["metrics"], truths[0]
        assert got.body["choices"][0]["message"]["role"] == "assistant"
        assert metrics["time_to_first_token_ms"] * 1e6 == truth.prefill_ns
        assert metrics["generation_time_ms"] * 1e6 == truth.decode_ns
        assert int(got.headers[b"content-length"]) == len(got.writes[0])

    play(vllm(), scene)


def test_without_flags_there_are_no_metrics_no_cached_tokens_and_no_request_id() -> None:
    plain = Habits(request_metrics=False, prompt_details=False, request_id_headers=False)
    got = ask(vllm(habits=plain), "/v1/chat/completions", CHAT)
    assert "metrics" not in got.body
    assert got.body["usage"]["prompt_tokens_details"] is None
    assert b"x-request-id" not in got.headers


def test_several_choices_share_the_prompt_and_suppress_metrics() -> None:
    got = ask(vllm(), "/v1/chat/completions", {**CHAT, "n": 2})
    assert [choice["index"] for choice in got.body["choices"]] == [0, 1]
    assert got.body["usage"]["completion_tokens"] == 8
    assert "metrics" not in got.body


def test_completions_take_texts_and_token_ids() -> None:
    got = ask(vllm(), "/v1/completions", {"model": "m", "prompt": ["one", "two"], "max_tokens": 2})
    assert [choice["index"] for choice in got.body["choices"]] == [0, 1]
    assert got.body["choices"][0]["text"]
    ids = ask(vllm(), "/v1/completions", {"model": "m", "prompt": [5, 6, 7], "max_tokens": 2, "stream": True})
    assert [event["choices"][0]["finish_reason"] for event in ids.events] == [None, "length"]


def test_the_next_turn_finds_its_history_in_the_cache() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        history = [{"role": "user", "content": "word " * 100}]
        first = await Exchange(server, "POST", "/v1/chat/completions", {**CHAT, "messages": history}).run()
        history += [first.body["choices"][0]["message"], {"role": "user", "content": "more"}]
        await Exchange(server, "POST", "/v1/chat/completions", {**CHAT, "messages": history}).run()
        assert truths[1].cached_tokens >= 96

    play(vllm(), scene)


def test_content_may_be_text_or_parts() -> None:
    def tokens(content: Any) -> Any:
        body = {"messages": [{"role": "user", "content": content}, {"role": "user", "content": None}]}
        return ask(vllm(), "/tokenize", body).body["tokens"]

    parts = [{"type": "text", "text": "hello "}, {"type": "image_url"}, "odd", {"type": "text", "text": "there"}]
    assert tokens(parts) == tokens("hello there")


def test_tools_are_part_of_the_prompt() -> None:
    tool = {"type": "function", "function": {"name": "look"}}
    plain = ask(vllm(), "/v1/chat/completions", CHAT).body["usage"]["prompt_tokens"]
    assert ask(vllm(), "/v1/chat/completions", {**CHAT, "tools": [tool]}).body["usage"]["prompt_tokens"] > plain + 5


def test_an_answer_without_a_limit_ends_at_the_window() -> None:
    body = {"model": "m", "prompt": [5] * 40, "stream": False}
    got = ask(vllm(window=50), "/v1/completions", body).body
    assert (got["usage"]["completion_tokens"], got["choices"][0]["finish_reason"]) == (10, "length")


def test_chunks_may_hold_several_tokens_but_the_first_and_the_last_go_at_once() -> None:
    body = {**CHAT, "max_tokens": 10, "stream": True, "stream_options": {"continuous_usage_stats": True}}
    got = ask(vllm(habits=Habits(stream_interval=4)), "/v1/chat/completions", body)
    assert [event["usage"]["completion_tokens"] for event in got.events] == [0, 1, 5, 9, 10]
    text = "".join(event["choices"][0]["delta"]["content"] for event in got.events)
    assert (
        text == ask(vllm(), "/v1/chat/completions", {**CHAT, "max_tokens": 10}).body["choices"][0]["message"]["content"]
    )
