from typing import Any

from proxy.sim.jobs import Truth
from tests.sim.asgi import CHAT, Exchange, ask, ollama, play


def test_ollama_streams_lines_and_ends_with_integer_nanoseconds() -> None:
    body = {"model": "m", "messages": CHAT["messages"], "options": {"num_predict": 3}}

    async def scene(server: Any, truths: list[Truth]) -> None:
        got = await Exchange(server, "POST", "/api/chat", body).run()
        *said, last = got.lines
        assert got.headers[b"content-type"] == b"application/x-ndjson"
        assert [line["done"] for line in said] == [False] * 3
        assert (last["done"], last["done_reason"], last["eval_count"]) == (True, "length", 3)
        assert last["load_duration"] == truths[0].load_ns == 50_000_000
        parts = last["load_duration"] + last["prompt_eval_duration"] + last["eval_duration"]
        assert 0 <= last["total_duration"] - parts == truths[0].queue_ns

    play(ollama(), scene)


def test_a_zero_counter_is_absent() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        body = {"model": "m", "prompt": "hi", "stream": False, "options": {"num_predict": 1}}
        await Exchange(server, "POST", "/api/generate", body).run()
        warm = (await Exchange(server, "POST", "/api/generate", body).run()).body
        assert "load_duration" not in warm
        assert "eval_duration" not in warm
        assert warm["response"]
        assert warm["prompt_eval_count"] == truths[1].prompt_tokens

    play(ollama(), scene)


def test_an_empty_prompt_only_loads() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        for path, stream in (("/api/chat", True), ("/api/generate", False)):
            got = await Exchange(server, "POST", path, {"model": "m", "stream": stream}).run()
            assert got.lines[0]["done_reason"] == "load"
            assert "total_duration" not in got.lines[0]
        ps = (await Exchange(server, "GET", "/api/ps").run()).body["models"]
        assert [(model["name"], model["context_length"]) for model in ps] == [("m", 4096)]

    play(ollama(), scene)


def test_another_window_loads_the_model_again() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        for window in (4096, 8192):
            body = {"model": "m", "prompt": "hi", "options": {"num_ctx": window, "num_predict": 2}}
            await Exchange(server, "POST", "/api/generate", body).run()
        assert [truth.load_ns for truth in truths] == [50_000_000] * 2

    play(ollama(), scene)


def test_a_chat_over_the_window_is_cut_in_half_silently() -> None:
    options = {"num_ctx": 100, "num_predict": 2}
    messages = [{"role": "user", "content": "word " * 500}]
    got = ask(ollama(), "/api/chat", {"model": "m", "stream": False, "messages": messages, "options": options})
    assert (got.status, got.body["prompt_eval_count"]) == (200, 50)


def test_generate_takes_a_system_prompt_and_raw_text() -> None:
    options = {"num_predict": 1}
    base = {"model": "m", "prompt": "tell me", "stream": False, "options": options}
    plain = ask(ollama(), "/api/generate", base).body["prompt_eval_count"]
    longer = ask(ollama(), "/api/generate", {**base, "system": "be brief"}).body["prompt_eval_count"]
    raw = ask(ollama(), "/api/generate", {**base, "raw": True}).body["prompt_eval_count"]
    assert raw < plain < longer


def test_ollamas_openai_shape_says_role_and_text_together_and_ends_in_one_write() -> None:
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    got = ask(ollama(), "/v1/chat/completions", body)
    assert set(got.events[0]["choices"][0]["delta"]) == {"role", "content"}
    assert got.writes[-1].count(b"data: ") == 3
    assert got.events[-1]["usage"]["completion_tokens"] == 4
    assert "metrics" not in got.events[-1]


def test_ollamas_openai_bodies_have_counts_and_no_durations() -> None:
    whole = ask(ollama(), "/v1/chat/completions", CHAT).body
    assert (whole["choices"][0]["finish_reason"], whole["usage"]["completion_tokens"]) == ("length", 4)
    text = ask(ollama(), "/v1/completions", {"model": "m", "prompt": "hi"}).body
    assert (text["object"], text["choices"][0]["finish_reason"]) == ("text_completion", "stop")
    stream = ask(ollama(), "/v1/completions", {"model": "m", "prompt": "hi", "stream": True})
    assert stream.events[-1]["choices"][0] == {"index": 0, "text": "", "finish_reason": "stop"}
