import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from proxy.sim.jobs import Truth
from proxy.sim.openai import Habits
from proxy.sim.plan import Plan
from proxy.sim.server import as_line, build
from tests.sim.asgi import Exchange, HurriedClock, Lifespan

CHAT = {"model": "m", "messages": [{"role": "user", "content": "tell me of the sea"}], "max_tokens": 4}


def vllm(**more: Any) -> Plan:
    return Plan(models=("m",), **more)


def ollama(**more: Any) -> Plan:
    return Plan(kind="ollama", models=("m", "other"), load_s=0.05, **more)


def play(plan: Plan, scene: Callable[[Any, list[Truth]], Awaitable[Any]]) -> Any:
    """Run `scene(server, truths)` inside the server's lifespan."""

    async def run() -> Any:
        truths: list[Truth] = []
        server = build(plan, HurriedClock(), truths.append)
        async with Lifespan(server):
            return await asyncio.wait_for(scene(server, truths), 10)

    return asyncio.run(run())


def ask(plan: Plan, path: str, body: Any, method: str = "POST") -> Exchange:
    async def scene(server: Any, truths: list[Truth]) -> Exchange:
        return await Exchange(server, method, path, body).run()

    result: Exchange = play(plan, scene)
    return result


# --- vLLM -----------------------------------------------------------------------------------------------------------


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


def test_two_requests_may_have_the_same_id() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        await asyncio.gather(*(Exchange(server, "POST", "/v1/chat/completions", CHAT, "same").run() for _ in "ab"))
        assert len({truth.id for truth in truths}) == 2
        assert {json.loads(as_line(truth))["request"] for truth in truths} == {"chatcmpl-same"}

    play(vllm(), scene)


def test_a_client_that_leaves_frees_the_engine() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        long = Exchange(server, "POST", "/v1/chat/completions", {**CHAT, "max_tokens": 900, "stream": True})
        running = asyncio.create_task(long.run())
        await long.begun.wait()
        long.left.set()
        await running
        await Exchange(server, "POST", "/v1/chat/completions", CHAT).run()
        assert [truth.aborted for truth in truths] == [True, False]
        page = b"".join((await Exchange(server, "GET", "/metrics").run()).writes).decode()
        assert 'num_requests_running{engine="0",model_name="m"} 0.0' in page
        assert 'request_queue_time_seconds_count{engine="0",model_name="m"} 1.0' in page

    play(vllm(), scene)


@pytest.mark.parametrize(
    ("path", "body", "status", "type"),
    [
        ("/v1/chat/completions", b"{", 400, "Bad Request"),
        ("/v1/chat/completions", b"[]", 400, "Bad Request"),
        ("/v1/chat/completions", {"model": "m"}, 400, "Bad Request"),
        ("/v1/completions", {"model": "m"}, 400, "Bad Request"),
        ("/v1/chat/completions", {**CHAT, "model": "nope"}, 404, "NotFoundError"),
        ("/v1/chat/completions", {**CHAT, "max_tokens": 9_000_000}, 400, "BadRequestError"),
    ],
    ids=["broken", "no object", "no messages", "no prompt", "unknown model", "too long"],
)
def test_errors_are_vllms(path: str, body: Any, status: int, type: str) -> None:
    got = ask(vllm(), path, body)
    assert (got.status, got.body["error"]["type"], got.body["error"]["code"]) == (status, type, status)


@pytest.mark.parametrize("path", ["/v1/models", "/version", "/health", "/ping", "/load", "/metrics"])
def test_pages_are_there(path: str) -> None:
    assert ask(vllm(), path, b"", "GET").status == 200


def test_models_are_owned_by_vllm() -> None:
    model = ask(vllm(window=4096), "/v1/models", b"", "GET").body["data"][0]
    assert (model["id"], model["owned_by"], model["max_model_len"]) == ("m", "vllm", 4096)


def test_tokenize_counts_what_the_usage_says() -> None:
    count = ask(vllm(), "/tokenize", {"model": "m", "messages": CHAT["messages"]}).body["count"]
    assert count == ask(vllm(), "/v1/chat/completions", CHAT).body["usage"]["prompt_tokens"]
    assert ask(vllm(), "/tokenize", {"prompt": "four short words"}).body["count"] == 5


@pytest.mark.parametrize(("method", "path"), [("GET", "/nope"), ("POST", "/nope"), ("GET", "/v1/completions")])
def test_anything_else_is_not_found(method: str, path: str) -> None:
    assert ask(vllm(), path, b"{}", method).status == 404


def test_metrics_agree_with_the_truth() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        runs = [Exchange(server, "POST", "/v1/chat/completions", CHAT, str(index)).run() for index in range(5)]
        await asyncio.gather(*runs)
        page = b"".join((await Exchange(server, "GET", "/metrics").run()).writes).decode()
        values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        labels = '{engine="0",model_name="m"}'
        for phase in ("queue", "prefill", "decode"):
            said = float(values[f"vllm:request_{phase}_time_seconds_sum{labels}"])
            assert said == pytest.approx(sum(getattr(truth, f"{phase}_ns") for truth in truths) / 1e9)
        assert float(values[f"vllm:generation_tokens_total{labels}"]) == 20
        assert float(values[f"vllm:prefix_cache_queries_total{labels}"]) == sum(t.prompt_tokens for t in truths)
        assert float(values[f'vllm:time_to_first_token_seconds_bucket{labels[:-1]},le="+Inf"}}']) == 5

    play(vllm(sequences=1), scene)


# --- Ollama ---------------------------------------------------------------------------------------------------------


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


def test_a_full_pending_queue_is_503_in_the_callers_shape() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        native = await Exchange(server, "POST", "/api/generate", {"model": "m", "prompt": "hi"}).run()
        openai = await Exchange(server, "POST", "/v1/chat/completions", CHAT).run()
        assert (native.status, openai.status) == (503, 503)
        assert native.body["error"].startswith("server busy, please try again.  maximum")
        assert openai.body["error"]["type"] == "api_error"

    play(ollama(max_queue=0), scene)


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/api/chat", {"model": "nope"}, 404, "model 'nope' not found"),
        ("/api/show", {"model": "nope"}, 404, "model 'nope' not found"),
    ],
)
def test_ollamas_errors_are_strings(path: str, body: Any, status: int, error: str) -> None:
    got = ask(ollama(), path, body)
    assert (got.status, got.body) == (status, {"error": error})


def test_ollamas_errors_on_v1_are_objects() -> None:
    got = ask(ollama(), "/v1/chat/completions", {**CHAT, "model": "nope"})
    assert (got.status, got.body["error"]["type"]) == (404, "not_found_error")


def test_ollamas_pages_are_there() -> None:
    assert b"".join(ask(ollama(), "/", b"", "GET").writes) == b"Ollama is running"
    assert set(ask(ollama(), "/api/version", b"", "GET").body) == {"version"}
    assert [model["name"] for model in ask(ollama(), "/api/tags", b"", "GET").body["models"]] == ["m", "other"]
    assert ask(ollama(), "/v1/models", b"", "GET").body["data"][0]["owned_by"] == "library"
    assert "blobs/sha256-" in ask(ollama(), "/api/show", {"model": "m"}).body["modelfile"]
    assert ask(ollama(), "/api/nope", b"{}").status == 404


# --- both -----------------------------------------------------------------------------------------------------------


def test_a_truth_line_has_moments_and_durations() -> None:
    truth = Truth(
        id="a", arrived_ns=1, queued_ns=3, scheduled_ns=6, first_token_ns=10, last_token_ns=20, prompt_tokens=5
    )
    line = json.loads(as_line(truth))
    assert [line[f"{phase}_ns"] for phase in ("step_wait", "queue", "prefill", "decode")] == [2, 3, 4, 10]


def test_other_scopes_are_ignored() -> None:
    server = build(vllm(), HurriedClock())
    asyncio.run(server({"type": "websocket"}, None, None))  # type: ignore[arg-type]
