"""The data process put together: what is changed on the way, who may ask, what outlives what."""

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.admission.keyring import Keyring
from proxy.config import ConfigError, Limit, Settings, Tenants
from proxy.records import Outcome
from tests.support.client import Answer, Request, simple_request
from tests.support.clock import VirtualLoop, run
from tests.support.house import URL, House
from tests.support.pages import serving, vllm
from tests.support.script import NOT_FOUND, OK, Call, Read, Script
from tests.support.streams import DONE, JSON, MS, NDJSON, WHOLE, chat, chunk, ollama, plain, stream

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


@pytest.mark.parametrize(("kind", "status"), [("llamacpp", 400), ("sglang", 400), ("vllm", 200), ("ollama", 200)])
def test_a_made_up_name_passes_no_rule_by_where_an_engine_answers_to_any(kind: str, status: int) -> None:
    upstream = [{"url": URL, "kind": kind, "models": ["smol-1"]}]
    limit = [{"name": "r", "models": ["smol*"], "max_output_tokens": 5}]
    _, (answer,) = asked(simple_request(chat(model="gpt-4", max_tokens=9)), upstream=upstream, limit=limit)
    assert answer.status == status


# --- tenants ---


def keys(tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "keys.json"
    file.write_text(Keyring("salt").add("team", "pg-ours", "id", "2026-11-29").dumps(), "utf-8")
    return {"tenants": {"keys_file": str(file)}}


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


RATE = {"limit": [{"name": "r", "requests_per_minute": 2}]}


def test_a_limited_client_is_told_what_is_left_with_answers_and_with_refusals() -> None:
    _, answers = asked(times=3, **RATE)
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert [header(answer, "x-ratelimit-limit-requests") for answer in answers] == ["2"] * 3
    assert header(answers[2], "x-ratelimit-remaining-requests") == "0"
    assert header(answers[2], "retry-after") is not None
    _, (answer,) = asked()
    assert header(answer, "x-ratelimit-limit-requests") is None


# --- reload ---


def test_a_reload_changes_limits_and_keys_and_keeps_what_was_used(tmp_path: Path) -> None:
    async def main(loop: VirtualLoop) -> list[int | None]:
        house = House(loop, OK, **RATE)
        statuses = [(await house.ask(CHAT)).status for _ in range(3)]
        house.app.reload(replaced(house, limit=(Limit(name="r", requests_per_minute=60),)))
        statuses.append((await house.ask(CHAT)).status)  # used is used: all of it is still taken
        await asyncio.sleep(2)
        statuses.append((await house.ask(CHAT)).status)
        house.app.reload(replaced(house, limit=(), tenants=Tenants(**keys(tmp_path)["tenants"])))
        statuses.append((await house.ask(CHAT)).status)
        return statuses

    assert run(main) == [200, 200, 429, 429, 200, 401]


def test_a_reload_changes_nothing_but_limits_and_keys() -> None:
    async def main(loop: VirtualLoop) -> tuple[Settings, Settings]:
        house = House(loop, OK)
        before = house.app.settings
        anew = replaced(house, limit=(Limit(name="r", max_output_tokens=9),), body_limit_bytes=1, state="/elsewhere")
        house.app.reload(anew)
        return before, house.app.settings

    before, after = run(main)
    assert (after.body_limit_bytes, after.state) == (before.body_limit_bytes, before.state)
    assert [limit.name for limit in after.limit] == ["r"]


def test_a_reload_that_cannot_stand_changes_nothing() -> None:
    async def main(loop: VirtualLoop) -> int | None:
        house = House(loop, OK)
        with pytest.raises(ConfigError, match="max_concurrency"):
            house.app.reload(replaced(house, limit=(Limit(name="r", max_concurrency=0),), tenants=Tenants()))
        with pytest.raises(ConfigError, match="keys_file"):
            house.app.reload(replaced(house, limit=(Limit(name="r", requests_per_minute=1),), tenants=Tenants("/no")))
        await house.ask(CHAT)
        return (await house.ask(CHAT)).status

    assert run(main) == 200


def replaced(house: House, **changes: Any) -> Settings:
    return Settings(**{**{key: getattr(house.app.settings, key) for key in Settings.__struct_fields__}, **changes})


# --- what outlives a restart ---


def test_a_budget_outlives_a_restart(tmp_path: Path) -> None:
    limit = {"name": "r", "tokens_per_day": 50}
    settings = {"limit": [limit], "state": str(tmp_path / "state.json")}

    async def main(loop: VirtualLoop) -> list[int | None]:
        statuses = []
        for _ in range(2):
            house = House(loop, plain(200, USED), **settings)
            house.app.remember()
            statuses += [(await house.ask(CHAT)).status for _ in range(2)]
            await house.app.keep()
        return statuses

    assert run(main) == [200, 429, 429, 429]


USED = {
    "choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 30, "completion_tokens": 30, "total_tokens": 60},
}


def test_what_counting_learnt_outlives_a_restart(tmp_path: Path) -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        hows = []
        for times in (20, 1):
            house = House(loop, plain(200, USED), state=str(tmp_path / "state.json"))
            house.app.remember()
            for _ in range(times):
                await house.ask(CHAT)
            await house.app.keep()
            hows += [record.counted.how for record in house.records if record.counted is not None]
        return [hows[0], hows[-1]]

    assert run(main) == ["estimated", "calibrated"]


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    async def main(loop: VirtualLoop) -> None:
        house = House(loop, OK)
        house.app.remember()
        await house.app.keep()

    run(main)


LIMITED = {"name": "h", "tokens_per_hour": 100}
GOOD = {"key": ["tokens_per_hour", "h"], "window": 0, "used": 1}


@pytest.mark.parametrize(
    ("state", "left_out"),
    [
        pytest.param([], 1, id="a list"),
        pytest.param({"limits": 5}, 1, id="limits of no shape"),
        pytest.param({"limits": {"budgets": [{"key": ["tokens_per_hour", "h"]}, GOOD]}}, 1, id="a budget of no window"),
        pytest.param({"limits": {"budgets": None}}, 1, id="no budgets"),
        pytest.param({"counting": [1]}, 1, id="counting of no shape"),
        pytest.param({"counting": {"engine.test:8000": [1]}}, 1, id="an engine of no shape"),
        pytest.param({"counting": {"engine.test:8000": {"m": 5, "n": None}}, "limits": []}, 3, id="all odd"),
        pytest.param({"counting": {"another engine": 5}}, 0, id="an engine that is gone"),
        pytest.param({}, 0, id="empty"),
    ],
)
def test_an_odd_state_is_left_out_with_one_warning(tmp_path: Path, state: object, left_out: int) -> None:
    file = tmp_path / "state.json"
    file.write_text(json.dumps(state))

    async def main(loop: VirtualLoop) -> int | None:
        house = House(loop, OK, state=str(file), limit=[LIMITED])
        house.app.remember()
        return (await house.ask(CHAT)).status

    with capture_logs() as logs:
        assert run(main) == 200
    expected = [{"event": "state_odd", "file": str(file), "left_out": left_out, "log_level": "warning"}]
    assert logs == (expected if left_out else [])


def test_the_last_state_that_was_to_be_kept_is_the_one_that_is(tmp_path: Path) -> None:
    settings = {"limit": [LIMITED], "state": str(tmp_path / "state.json")}

    async def main(loop: VirtualLoop) -> None:
        house = House(loop, plain(200, USED), **settings)
        early = asyncio.ensure_future(house.app.keep())
        await house.ask(CHAT)
        await asyncio.gather(early, house.app.keep())

    run(main)
    ((budget,), kept) = (json.loads((tmp_path / "state.json").read_text())["limits"]["budgets"], os.listdir(tmp_path))
    assert (budget["used"], kept) == (60, ["state.json"])


# --- the end of the process, and its state ---


def test_idle_returns_when_the_last_exchange_has_ended_and_cut_ends_them() -> None:
    async def main(loop: VirtualLoop) -> list[Outcome]:
        house = House(loop, plain(200, {}, at_ms=60_000))
        await house.app.idle()
        asking = [asyncio.create_task(house.ask(CHAT)) for _ in range(3)]
        await asyncio.sleep(1)
        assert house.app.in_flight == 3
        ended = asyncio.create_task(house.app.idle())
        await asyncio.sleep(1)
        assert not ended.done()
        house.app.cut()
        await ended
        assert [answer.status for answer in await asyncio.gather(*asking)] == [503] * 3
        assert house.app.in_flight == 0
        await house.app.aclose()
        return [record.outcome for record in house.records]

    assert run(main) == [Outcome.PROXY_ERROR] * 3


def test_in_flight_is_what_has_arrived_whole() -> None:
    body = b'{"model":"m","messages":[]}'
    headers = (("content-type", "application/json"), ("content-length", str(len(body))))
    slow = Request(headers=headers, pieces=((0, body[:5]), (2_000 * MS, body[5:])))
    blob = replace(slow, target="/api/blobs/x")

    async def main(loop: VirtualLoop) -> list[int]:
        house = House(loop, plain(200, {}, at_ms=2_000))
        asking = [asyncio.create_task(house.ask(each)) for each in (slow, blob)]
        seen = []
        for _ in range(3):
            await asyncio.sleep(1.5)
            seen.append(house.app.in_flight)
        await asyncio.gather(*asking)
        return seen

    assert run(main) == [1, 2, 0]


def test_who_waits_for_an_engine_is_not_in_flight_there() -> None:
    async def main(loop: VirtualLoop) -> list[tuple[int, int]]:
        house = House(loop, WHOLE, limit=[{"name": "one", "max_concurrency": 1, "queue_length": 5}])
        seen = []
        asked = [asyncio.ensure_future(house.ask(simple_request(chat(stream=True)))) for _ in range(3)]
        for _ in range(4):
            await asyncio.sleep(0.15)
            (engine,) = house.app.state().engines
            seen.append((engine.in_flight, engine.queued))
        await asyncio.gather(*asked)
        (engine,) = house.app.state().engines
        return [*seen, (engine.in_flight, engine.queued)]

    assert run(main) == [(1, 2), (1, 1), (1, 0), (1, 0), (0, 0)]


def test_the_state_is_what_the_office_must_know() -> None:
    async def main(loop: VirtualLoop) -> None:
        pages = serving({"engine.test:8000": vllm("m1")})
        upstream = [{"url": URL, "name": "gpu", "api_key": "secret", "slots": 4}]
        one = [{"name": "one", "max_concurrency": 1, "queue_length": 5}]
        house = House(loop, plain(200, {}, at_ms=5_000), looks=pages, upstream=upstream, limit=one)
        await house.app.lookout.look_at_all()
        asking = [asyncio.create_task(house.ask(CHAT)) for _ in range(3)]
        await asyncio.sleep(1)
        house.app.draining = True
        state = house.app.state()
        (engine,) = state.engines
        assert (state.in_flight, state.draining, state.at_s) == (3, True, loop.clock.wall_s())
        assert (engine.name, engine.kind, engine.version, engine.authority) == (
            "gpu", "vllm", "0.32.0", "engine.test:8000",
        )  # fmt: skip
        assert (engine.answers, engine.models, engine.slots) == (True, ("m1",), 4)
        assert "secret" not in repr(state)
        assert set(json.loads(state.admission)) >= {"counting"}
        assert json.loads(state.admission)["counting"].keys() == {"gpu"}
        await asyncio.gather(*asking)

    run(main)


def test_what_is_no_http_is_left_alone() -> None:
    async def main(loop: VirtualLoop) -> list[Any]:
        house = House(loop, OK)
        await house.app({"type": "lifespan"}, refuse, refuse)
        return list(house.records)

    async def refuse(*_: object) -> Any:
        raise AssertionError("nothing is to be received or sent")

    assert run(main) == []


# --- a long load beside another model ---

RUNNERS = [{"url": URL, "kind": "ollama"}]


def native(model: str) -> Request:
    body = json.dumps({"model": model, "messages": [], "stream": False}).encode()
    return simple_request(body, "/api/chat")


def swapped(resident: tuple[str, ...] | None, load_ms: int = 800) -> tuple[bool | None, int]:
    """Whether the record says that `a` had to go for `b`, and how long after the answer it left (ms)."""

    def looks(call: Call) -> Script:
        if call.target != "/api/ps" or resident is None:
            return NOT_FOUND
        return Script(
            200, JSON, (Read(50 * MS, json.dumps({"models": [{"name": name} for name in resident]}).encode()),)
        )

    async def main(loop: VirtualLoop) -> tuple[bool | None, int]:
        house = House(loop, scripts, looks=looks, upstream=RUNNERS)
        other = asyncio.create_task(house.ask(native("a")))
        await asyncio.sleep(0.1)
        answer = await house.ask(native("b"))
        answered_ns = answer.chunks[-1][0]
        await house.app.idle()
        await other
        (record,) = (record for record in house.records if record.facts.model == "b")
        return record.evidence.swapped, (loop.clock.now_ns() - answered_ns) // MS

    def scripts(call: Call) -> Script:
        return answers.pop(0)

    answers = [ollama(500, load=1, prompt_eval=100, eval=300), ollama(1500, load=load_ms, prompt_eval=100, eval=300)]
    return run(main)


def test_a_long_load_is_looked_into_before_the_record_leaves() -> None:
    assert swapped(("b:latest",)) == (True, 50)
    assert swapped(("a:latest", "b:latest")) == (False, 50)


def test_a_look_that_fails_leaves_the_question_open() -> None:
    assert swapped(None) == (None, 0)


def test_a_short_load_asks_nobody() -> None:
    assert swapped(("b:latest",), load_ms=100) == (None, 0)


# --- counting by the engine's own tokenizer ---


@pytest.mark.parametrize(("page", "how"), [({"count": 77, "tokens": []}, "exact"), (None, "estimated")])
def test_the_engines_own_tokenizer_is_asked_where_that_is_set(page: object, how: str) -> None:
    pages = serving({"engine.test:8000": {**vllm("m1"), **({"/tokenize": page} if page else {})}})

    async def main(loop: VirtualLoop) -> House:
        house = House(loop, OK, looks=pages, upstream=[{"url": URL}], tokens={"ask_engine": True})
        await house.app.lookout.look_at_all()
        await house.ask(CHAT)
        return house

    (record,) = run(main).records
    assert record.counted is not None
    assert record.counted.how == how


@pytest.mark.parametrize(
    ("kind", "models", "names", "taught"),
    [
        ("ollama", ("M1:latest",), ("m1", "M1", "library/m1:latest"), {"M1:latest": 3}),
        ("vllm", ("m1",), ("m1", "m1"), {"m1": 2}),
        ("llamacpp", ("m1.gguf",), ("gpt-4", "made-up", "m1.gguf"), {"m1.gguf": 3}),
        ("sglang", ("a", "b"), ("a", "made-up", "made-up-2", "B"), {"a": 1, "(others)": 2, "b": 1}),
        ("llamacpp", (), ("x", "y"), {"x": 1, "y": 1}),
    ],
)
def test_no_spelling_and_no_made_up_name_makes_a_model_that_is_counted_anew(
    kind: str, models: tuple[str, ...], names: tuple[str, ...], taught: dict[str, int]
) -> None:
    async def main(loop: VirtualLoop) -> dict[str, Any]:
        usage = {"prompt_tokens": 12, "completion_tokens": 1}
        upstream = [{"url": URL, "kind": kind, "models": list(models)}]
        house = House(loop, plain(200, {"choices": [], "usage": usage}), upstream=upstream)
        for name in names:
            body = json.dumps({"model": name, "messages": [{"role": "user", "content": "Say hi"}]})
            await house.ask(simple_request(body.encode()))
        return house.app.fleet.engines[0].desk.snapshot()

    assert {model: kept["answers"] for model, kept in run(main).items()} == taught


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
