"""The rooms as exchanges use them: what is changed on the way, what is refused, who may ask."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.records import NAME_CHARS, Outcome
from tests.support.client import Answer, Request, simple_request
from tests.support.clock import VirtualLoop, run
from tests.support.house import URL, House, keys
from tests.support.script import OK, Call, Read, Script
from tests.support.streams import DONE, MS, NDJSON, WHOLE, chat, chunk, plain, stream

CHAT = simple_request(chat())


def asked(
    request: Request = CHAT, script: Script | Callable[[Call], Script] = OK, times: int = 1, **settings: Any
) -> tuple[House, list[Answer]]:
    """The same request, one after the other, in a fresh house."""

    async def main(loop: VirtualLoop) -> tuple[House, list[Answer]]:
        house = House(loop, script, **settings)
        return house, [await house.ask(request) for _ in range(times)]

    return run(main)


def header(answer: Answer, name: str) -> str | None:
    return next((value for key, value in answer.headers if key == name), None)


def with_headers(request: Request, *pairs: tuple[str, str]) -> Request:
    return replace(request, headers=(*request.headers, *pairs))


# --- refusals ---

SHORT = {"limit": [{"name": "r", "max_output_tokens": 1}]}


def test_a_refusal_is_in_the_callers_dialect_and_says_what_it_is() -> None:
    request = with_headers(simple_request(chat(max_tokens=9)), ("x-request-id", "theirs"))
    _, (answer,) = asked(request, **SHORT)
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["code"] == "max_tokens_exceeded"
    assert header(answer, "x-request-id") == "theirs"
    assert header(answer, "x-phasegate-outcome") == "refused"
    assert header(answer, "access-control-allow-origin") is None
    native = simple_request(json.dumps({"model": "m", "options": {"num_predict": 9}}).encode(), "/api/generate")
    _, (answer,) = asked(native, **SHORT)
    assert isinstance(json.loads(answer.body)["error"], str)


def test_a_page_may_read_why_it_was_refused() -> None:
    request = with_headers(simple_request(chat(max_tokens=9)), ("origin", "https://page.example"))
    _, (answer,) = asked(request, **SHORT)
    assert header(answer, "access-control-allow-origin") == "https://page.example"
    assert header(answer, "vary") == "origin"


def test_an_id_is_the_clients_where_it_is_good_and_else_made() -> None:
    house, (answer,) = asked(with_headers(CHAT, ("x-request-id", "theirs")))
    assert (house.records[0].id, house.calls[0].header("x-request-id"), header(answer, "x-request-id")) == (
        "theirs", "theirs", "theirs",
    )  # fmt: skip
    house, (answer,) = asked(with_headers(CHAT, ("x-request-id", "not good")))
    made = house.records[0].id
    assert made not in ("", "not good")
    assert house.calls[0].header("x-request-id") == header(answer, "x-request-id") == made


# --- what is changed on the way ---

CAP = {"limit": [{"name": "r", "max_output_tokens": 7, "cap_output": True}]}


def test_an_output_cap_is_written_and_every_other_byte_stays() -> None:
    body = b'{ "model":"m1", "max_tokens" : 900 ,\n "messages":[]}'
    house, (answer,) = asked(simple_request(body), **CAP)
    assert answer.status == 200
    assert house.calls[0].body == b'{ "model":"m1", "max_tokens" : 7 ,\n "messages":[]}'


def test_a_cap_that_cannot_be_written_is_refused() -> None:
    house, (answer,) = asked(simple_request(b'{"prompt":"x"}', "/invocations"), **CAP)
    assert (answer.status, house.calls) == (400, [])
    assert b"Rule r.max_output_tokens: output tokens are limited to 7, and" in answer.body
    assert b"in plain JSON" in answer.body
    assert house.permit_ends == ["withdrawn"]


def test_a_cap_and_the_asking_for_usage_go_together_and_fall_back_to_the_capped_body() -> None:
    scripts = [plain(400, {}), WHOLE]
    body = b'{"model":"m1","stream":true,"messages":[]}'
    house, _ = asked(simple_request(body), lambda call: scripts.pop(0), ask_usage=True, **CAP)
    first, second = (json.loads(call.body) for call in house.calls)
    assert (first["max_tokens"], first["stream_options"]) == (7, {"include_usage": True})
    assert (second["max_tokens"], "stream_options" in second) == (7, False)


def test_usage_is_not_asked_for_where_that_is_off_or_the_engine_does_not_want_it() -> None:
    body = chat(stream=True)
    house, _ = asked(simple_request(body), WHOLE, ask_usage=False)
    assert house.calls[0].body == body
    llama = [{"url": URL, "kind": "llamacpp"}]
    house, _ = asked(simple_request(body), WHOLE, ask_usage=True, upstream=llama)
    assert house.calls[0].body == body


def test_the_engines_key_stands_in_place_of_the_clients() -> None:
    request = with_headers(CHAT, ("authorization", "Bearer theirs"), ("x-api-key", "theirs"))
    house, _ = asked(request, upstream=[{"url": URL, "api_key": "own"}])
    (call,) = house.calls
    assert (call.header("authorization"), call.header("x-api-key")) == ("Bearer own", None)
    house, _ = asked(request)
    assert house.calls[0].header("authorization") == "Bearer theirs"


def test_inference_asks_for_an_answer_that_is_not_compressed_and_other_routes_as_the_client_does() -> None:
    request = with_headers(CHAT, ("accept-encoding", "gzip"))
    house, _ = asked(request)
    assert house.calls[0].header("accept-encoding") == "identity"
    house, _ = asked(with_headers(simple_request(b"", "/v1/models"), ("accept-encoding", "gzip")))
    assert house.calls[0].header("accept-encoding") == "gzip"


# --- bodies and limits by route ---


def test_a_json_body_is_read_whatever_its_type_says() -> None:
    body = chat()
    form = ("content-type", "application/x-www-form-urlencoded")
    request = Request(headers=(("content-length", str(len(body))), form), pieces=((0, body),))
    house, _ = asked(request)
    assert house.records[0].facts.model == "m1"


LONG = [{"role": "user", "content": "word " * 3_000}]
SMALL = {"limit": [{"name": "r", "models": ["m1"], "max_prompt_tokens": 100}]}


@pytest.mark.parametrize("type", ["image/png", "audio/wav", "multipart/form-data", "application/octet-stream"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/v1/messages", "/cohere/v2/chat"])
def test_no_content_type_takes_json_past_the_limits(path: str, type: str) -> None:
    body = json.dumps({"model": "m1", "messages": LONG}).encode()
    request = replace(simple_request(body, path), headers=(("content-length", str(len(body))), ("content-type", type)))
    house, (answer,) = asked(request, **SMALL)
    assert (answer.status, house.calls) == (400, [])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body + b" x",
        lambda body: body.replace(b'"messages"', b'"Messages"'),
        lambda body: body.decode().encode("utf-16"),
        lambda body: body.decode().encode("utf-32"),
    ],
    ids=["more_behind", "capital", "utf-16", "utf-32"],
)
def test_a_prompt_that_cannot_be_read_is_refused_where_prompts_are_limited_and_never_called_a_count(
    spoil: Callable[[bytes], bytes],
) -> None:
    body = spoil(json.dumps({"model": "m1", "messages": LONG}).encode())
    house, (answer,) = asked(simple_request(body), **SMALL)
    assert (answer.status, house.calls, house.records[0].counted) == (400, [], None)
    assert house.records[0].admission.reason == "prompt_too_long"  # by its bytes alone
    body = spoil(json.dumps({"model": "m1", "messages": []}).encode())
    house, (answer,) = asked(simple_request(body), **SMALL)
    assert (answer.status, house.calls, house.records[0].counted) == (400, [], None)
    assert house.records[0].admission.reason == "unreadable"
    house, (answer,) = asked(simple_request(body), limit=[{"name": "r", "requests_per_minute": 9}])
    assert answer.status == 200


TWICE = b'{"model":"m1","messages":[],"options":{"num_predict":99999},"options":{"num_predict":1}}'


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ({"max_output_tokens": 9}, 400),
        ({"max_output_tokens": 9, "cap_output": True}, 400),
        ({"max_output_tokens": 9, "mode": "observe"}, 200),
        ({"max_prompt_tokens": 9}, 400),
        ({"max_prompt_tokens": 9, "kinds": ["embed"]}, 200),
        ({"tokens_per_day": 9_999}, 200),
    ],
    ids=str,
)
def test_what_engines_may_read_differently_passes_no_limit_on_it_and_any_other(
    limit: dict[str, Any], status: int
) -> None:
    house, (answer,) = asked(simple_request(TWICE, "/api/chat"), limit=[{"name": "r", **limit}])
    assert answer.status == status
    assert [call.body for call in house.calls] == ([TWICE] if status == 200 else [])


@pytest.mark.parametrize(
    ("path", "asks", "capped"),
    [
        ("/api/chat", {"options": {"num_predict": -1}}, {"options": {"num_predict": 7}}),
        ("/api/chat", {"options": {"num_predict": -2}}, {"options": {"num_predict": 7}}),
        ("/api/chat", {}, {"options": {"num_predict": 7}}),
        ("/v1/chat/completions", {}, {"max_tokens": 7}),
        ("/v1/chat/completions", {"max_completion_tokens": 5}, {"max_tokens": 5, "max_completion_tokens": 5}),
    ],
)
def test_output_without_a_limit_is_refused_or_capped(path: str, asks: dict[str, Any], capped: dict[str, Any]) -> None:
    request = simple_request(json.dumps({"model": "m1", "messages": [], **asks}).encode(), path)
    _, (answer,) = asked(request, limit=[{"name": "r", "max_output_tokens": 7}])
    assert (answer.status, b"no limit of the output is set" in answer.body) == (400, True)
    house, (answer,) = asked(request, **CAP)
    assert answer.status == 200
    assert {name: json.loads(house.calls[0].body)[name] for name in capped} == capped


def test_embeddings_have_no_output_to_limit() -> None:
    request = simple_request(b'{"model":"m1","input":"a"}', "/v1/embeddings")
    for limit in ({"max_output_tokens": 7}, {"max_output_tokens": 7, "cap_output": True}):
        house, _ = asked(request, limit=[{"name": "r", **limit}])
        assert house.calls[0].body == b'{"model":"m1","input":"a"}'


DAY = {"limit": [{"name": "r", "tokens_per_day": 100}]}


def left(house: House) -> int:
    (counter,) = house.app.door.snapshot()["counters"]
    return int(counter["remaining"])


def test_a_stream_without_usage_costs_its_prompt_and_what_was_seen_of_it() -> None:
    script = stream(*[(10 * n, chunk("word ")) for n in range(30)], (400, chunk(finish="stop")), (410, DONE))
    house, _ = asked(simple_request(chat(stream=True)), script, ask_usage=False, **DAY)
    (record,) = house.records
    assert record.counted is not None
    assert left(house) == 100 - record.counted.n - 30
    whole = {"choices": [{"index": 0, "message": {"content": "word " * 32}, "finish_reason": "stop"}]}
    house, _ = asked(CHAT, plain(200, whole), **DAY)
    assert left(house) == 100 - record.counted.n - 20  # 160 characters


@pytest.mark.parametrize(("n", "said", "cost"), [(2, 20, 40), (2, 45, 45), (1, 39, 39)])
def test_of_several_choices_what_was_seen_is_charged_where_the_engine_says_less(n: int, said: int, cost: int) -> None:
    """llama.cpp says the first choice's tokens alone."""
    second = chunk("word ").replace(b'"index": 0', b'"index": 1')
    events = [(10 * at, second if at % 2 and n == 2 else chunk("word ")) for at in range(40)]
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": said}}
    script = stream(*events, (410, b"data: " + json.dumps(usage).encode() + b"\n\n"), (420, DONE))
    house, _ = asked(simple_request(chat(stream=True, n=n)), script, ask_usage=False, **DAY)
    assert house.records[0].usage is not None
    assert house.records[0].usage.output_tokens == said
    assert left(house) == 100 - 5 - cost


def test_a_client_that_hangs_up_pays_for_what_it_saw() -> None:
    script = stream(*[(10 * n, chunk("word ")) for n in range(99)])
    house, _ = asked(replace(simple_request(chat(stream=True)), leaves_ns=305 * MS), script, **DAY)
    (record,) = house.records
    assert (record.outcome, record.timeline.token_events) == (Outcome.CLIENT_GONE, 31)
    assert record.counted is not None
    assert left(house) == 100 - record.counted.n - 31


def test_a_request_that_the_engine_rejects_costs_no_token() -> None:
    house, _ = asked(CHAT, plain(404, {"error": {"message": "no such model"}}), **DAY)
    assert left(house) == 100


def test_a_pull_may_be_silent_for_longer_than_an_answer() -> None:
    slow = Script(200, NDJSON, (Read(5_000 * MS, b'{"status":"x"}\n'), Read(9_000 * MS, b'{"status":"success"}\n')))
    request = simple_request(b'{"model":"m"}', "/api/pull")
    house, (answer,) = asked(request, slow, timeouts={"first_byte_s": 1.0, "idle_s": 1.0, "total_s": 1.0})
    assert (answer.status, answer.end) == (200, "complete")
    assert house.records[0].facts.route == "manage"


def test_a_request_of_no_known_kind_is_named_by_its_path_and_its_query_is_nobodys_business() -> None:
    for body, target, path in (
        (b"", "/nope%20at?key=secret", "/nope at"),
        (b"", "/" + "x" * 999, "/" + "x" * (NAME_CHARS - 1)),
        (b'{"inputs": "a"}', "/invocations?key=secret", "/invocations"),
        (b'{"messages": []}', "/v1/chat/completions", ""),
    ):
        house, _ = asked(simple_request(body, target), OK)
        assert house.records[0].facts.path == path


@pytest.mark.parametrize(
    ("path", "body", "model"),
    [
        ("/api/show", b'{"model": "m"}', "m"),
        ("/api/delete/", b'{"name": "m"}', "m"),
        ("/api/copy", b'{"source": "m", "destination": "n"}', "m"),
        ("/api/create", b'{"model": "n", "from": "m"}', "m"),
        ("/api/create", b'{"model": "m", "system": "s"}', "m"),
        ("/api/create", b'{"model": "m", "files": {"m.gguf": "sha256:0"}}', None),
        ("/api/create", b'{"model": "m", "system": "%b"}' % (b"x" * 65_536), None),
        ("/api/pull", b"m", None),
        ("/api/blobs/sha256-0", b'{"model": "m"}', None),
    ],
    ids=[
        "looked up",
        "deleted",
        "copied",
        "made of another",
        "made",
        "made of files, sent before to the first",
        "too large",
        "no JSON",
        "a file",
    ],
)
def test_what_looks_up_or_changes_a_model_is_of_that_model_and_passes_as_it_came(
    path: str, body: bytes, model: str | None
) -> None:
    house, (answer,) = asked(simple_request(body, path), plain(200, {}))
    assert (answer.status, house.calls[0].body) == (200, body)
    facts = house.records[0].facts
    assert (facts.model, facts.path) == (model, path)


def test_a_limit_of_bodies_is_none_of_those_that_could_pass_unread() -> None:
    body = b'{"model": "m", "system": "%b"}' % (b"x" * 100)
    house, (answer,) = asked(simple_request(body, "/api/create"), plain(200, {}), body_limit_bytes=100)
    assert (answer.status, house.calls[0].body, house.records[0].facts.model) == (200, body, None)


@pytest.mark.parametrize(("kind", "status"), [("llamacpp", 400), ("sglang", 400), ("vllm", 200), ("ollama", 200)])
def test_a_made_up_name_passes_no_rule_by_where_an_engine_answers_to_any(kind: str, status: int) -> None:
    upstream = [{"url": URL, "kind": kind, "models": ["smol-1"]}]
    limit = [{"name": "r", "models": ["smol*"], "max_output_tokens": 5}]
    _, (answer,) = asked(simple_request(chat(model="gpt-4", max_tokens=9)), upstream=upstream, limit=limit)
    assert answer.status == status


# --- tenants ---


def test_a_tenants_key_is_never_passed_on_and_its_name_is_in_the_record(tmp_path: Path) -> None:
    house, (answer,) = asked(with_headers(CHAT, ("authorization", "Bearer pg-ours")), **keys(tmp_path))
    assert answer.status == 200
    assert house.records[0].tenant == "team"
    assert not any("pg-ours" in value for _, value in house.calls[0].headers)
    assert "pg-ours" not in repr(house.records[0])


def test_without_a_key_only_a_preflight_passes(tmp_path: Path) -> None:
    settings = keys(tmp_path)
    house, (answer,) = asked(CHAT, **settings)
    assert (answer.status, house.calls) == (401, [])
    preflight = Request("OPTIONS", "/v1/chat/completions", (("access-control-request-method", "POST"),))
    house, (answer,) = asked(preflight, plain(204, {}), **settings)
    assert (answer.status, len(house.calls)) == (204, 1)


def test_a_tenant_may_not_manage_the_engine(tmp_path: Path) -> None:
    request = with_headers(simple_request(b'{"model":"m"}', "/api/pull"), ("authorization", "Bearer pg-ours"))
    house, (answer,) = asked(request, **keys(tmp_path))
    assert (answer.status, house.calls) == (403, [])
    (record,) = house.records
    assert (record.tenant, record.error) == (
        "team",
        "this route is closed: tenants may call inference routes and list models",
    )


RATE = {"limit": [{"name": "r", "requests_per_minute": 2}]}


def test_a_limited_client_is_told_what_is_left_with_answers_and_with_refusals() -> None:
    _, answers = asked(times=3, **RATE)
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert [header(answer, "x-ratelimit-limit-requests") for answer in answers] == ["2"] * 3
    assert header(answers[2], "x-ratelimit-remaining-requests") == "0"
    assert header(answers[2], "retry-after") is not None
    _, (answer,) = asked()
    assert header(answer, "x-ratelimit-limit-requests") is None


def test_what_is_left_of_a_budget_is_told_as_it_stands_at_the_head_without_the_output_of_this_answer() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 30}
    said = plain(200, {"choices": [{"index": 0, "message": {}, "finish_reason": "stop"}], "usage": usage})
    _, answers = asked(CHAT, said, times=2, limit=[{"name": "b", "tokens_per_hour": 1_000}])
    first, second = (int(header(answer, "x-ratelimit-remaining-tokens") or 0) for answer in answers)
    assert 1_000 - 30 < first < 1_000  # of the prompt alone
    assert second == 1_000 - 37 - 7


# --- bodies that take long ---


@pytest.mark.parametrize(("messages", "hops"), [(1, 0), (3_000, 2)])
def test_a_body_of_thousands_of_messages_is_read_and_edited_off_the_loop(messages: int, hops: int) -> None:
    body = json.dumps({"model": "m1", "stream": True, "messages": [{"role": "user"}] * messages}).encode()

    async def main(loop: VirtualLoop) -> list[str]:
        names: list[str] = []

        def watched(executor: Any, work: Callable[[], Any]) -> Any:
            names.append(executor._thread_name_prefix)
            return VirtualLoop.run_in_executor(loop, executor, work)

        loop.run_in_executor = watched  # type: ignore[method-assign, assignment]
        house = House(loop, plain(200, {}), ask_usage=True)
        await house.ask(simple_request(body))
        (call,) = house.calls
        assert b"include_usage" in call.body
        return names

    assert run(main).count("phasegate-read") == hops
