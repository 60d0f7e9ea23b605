"""The endings table: every way in which an exchange can end, and what the client, the permit and the record get.

Each row is played as it is, and then again and again with a blow at its first, second, third ... await: whatever
happens, one arrival gives one record, and nothing is left behind.
"""

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from proxy.endings import charged, unread
from proxy.records import EngineReport, Outcome, RequestFacts, Usage
from tests.support.cancel import Blow, Strike, at_every_await
from tests.support.client import Answer, Request, simple_request
from tests.support.clock import VirtualLoop, run
from tests.support.house import House
from tests.support.script import OK, Read, Script

MS = 1_000_000
BODY = json.dumps({"model": "m1", "stream": True, "messages": [{"role": "user", "content": "Say hi"}]}).encode()
SSE = (("content-type", "text/event-stream"),)
JSON = (("content-type", "application/json"),)


def chunk(text: str = "", finish: str | None = None) -> bytes:
    delta = {"content": text} if text else {}
    event = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}\n\n'
ERROR = b'data: {"error":{"message":"engine dead","type":"server_error","code":500}}\n\n'


def stream(*reads: tuple[int, bytes], **more: Any) -> Script:
    """An event stream; times in ms."""
    return Script(headers=SSE, reads=tuple(Read(at * MS, data) for at, data in reads), **more)


def refusal(status: int) -> Script:
    return Script(status, JSON, (Read(5 * MS, b'{"error":{"message":"no"}}'),))


WHOLE = stream((100, chunk("Hi")), (200, chunk(finish="stop")), (210, DONE))


@dataclass(frozen=True, slots=True)
class Row:
    """One ending."""

    id: str
    outcome: Outcome
    permit: str | None
    """How the permit ends; None: it was never held."""
    script: Script = WHOLE
    status: int | None = 200
    """None: the client got no head."""
    end: str | None = "complete"
    """How the client's answer ended; None: nobody was there."""
    request: Request = field(default_factory=lambda: simple_request(BODY))
    settings: dict[str, Any] = field(default_factory=dict)
    within_ms: int | None = None
    """The call at the engine is closed by then, since arrival."""
    before: int = 0
    """So many requests of others are at the engine already."""


def leaving(at_ms: int, body: bytes = BODY) -> Request:
    return simple_request(body, leaves_ns=at_ms * MS)


SLOW = stream((5000, chunk("Hi")))
PLAIN = Script(headers=JSON, reads=(Read(5000 * MS, b'{"choices":[]}'),))
UPLOAD = Request(headers=(("content-length", "9"),), pieces=((0, b"{"), (500 * MS, b"}")), leaves_ns=100 * MS)
UPGRADE = Request("GET", "/v1/realtime", (("connection", "upgrade"), ("upgrade", "websocket")))
UNREACHED = ("refuse", "unroutable")
TWO = [{"url": "http://one.test", "models": ["a"]}, {"url": "http://two.test", "models": ["b"]}]
QUEUE = {"limit": [{"name": "one", "max_concurrency": 1, "queue_length": 1, "queue_timeout_s": 1.0}]}

ROWS = [
    Row("stream_complete", Outcome.COMPLETED, "success"),
    Row("body_complete", Outcome.COMPLETED, "success", OK),
    Row("engine_points_elsewhere", Outcome.COMPLETED, "rejected", Script(307, (("location", "/v1"),)), status=307),
    Row("finish_of_every_choice_and_a_clean_close", Outcome.COMPLETED, "success", stream((9, chunk("a", "stop")))),
    Row(
        "limits_that_are_kept_do_not_fire",
        Outcome.COMPLETED,
        "success",
        stream((1500, b": ping\n\n"), (3000, chunk("Hi")), (4500, DONE)),
        settings={"timeouts": {"first_byte_s": 2.0, "idle_s": 2.0, "total_s": 5.0}},
    ),
    Row(
        "client_leaves_after_the_terminal_event",
        Outcome.COMPLETED,
        "success",
        stream((10, chunk("Hi", "stop")), (20, DONE), end_ns=5000 * MS),
        end=None,
        request=leaving(100),
        within_ms=350,
    ),
    Row(
        "client_leaves_after_finish_before_usage",
        Outcome.COMPLETED,
        "success",
        stream((10, chunk("Hi", "stop")), (200, USAGE), (210, DONE)),
        end=None,
        request=leaving(100),
        within_ms=350,
    ),
    Row(
        "prompt_limit",
        Outcome.REFUSED,
        None,
        status=400,
        request=simple_request(json.dumps({"model": "m1", "prompt": [7] * 90}).encode(), "/v1/completions"),
        settings={"limit": [{"name": "short", "max_prompt_tokens": 50}]},
    ),
    Row(
        "body_that_does_not_go_on",
        Outcome.REFUSED,
        None,
        status=408,
        request=Request(headers=(("content-length", "9"),), pieces=((0, b"{"), (9000 * MS, b"}"))),
        settings={"timeouts": {"body_s": 2.0}},
    ),
    Row("model_that_nobody_serves", Outcome.REFUSED, None, status=404, settings={"upstream": TWO}),
    Row("upgrade", Outcome.REFUSED, None, status=501, request=UPGRADE),
    Row(
        "shed_at_the_door",
        Outcome.SHED,
        None,
        status=429,
        settings={"limit": [{"name": "one", "max_concurrency": 1}]},
        before=1,
    ),
    Row(
        "rate_is_used_up",
        Outcome.SHED,
        None,
        status=429,
        settings={"limit": [{"name": "rate", "requests_per_minute": 1}]},
        before=1,
    ),
    Row("waited_too_long", Outcome.QUEUE_TIMEOUT, None, SLOW, status=503, settings=QUEUE, before=1),
    Row(
        "client_leaves_while_waiting",
        Outcome.CLIENT_GONE,
        None,
        SLOW,
        status=None,
        end=None,
        request=leaving(500),
        settings=QUEUE,
        before=1,
    ),
    Row("body_limit", Outcome.REFUSED, None, status=413, settings={"body_limit_bytes": 10}),
    Row("client_leaves_while_sending", Outcome.CLIENT_GONE, None, status=None, end=None, request=UPLOAD),
    Row(
        "client_leaves_before_the_answer",
        Outcome.CLIENT_GONE,
        "ignore",
        SLOW,
        status=None,
        end=None,
        request=leaving(1000),
        within_ms=1100,
    ),
    Row(
        "client_leaves_before_a_plain_answer",
        Outcome.CLIENT_GONE,
        "ignore",
        PLAIN,
        status=None,
        end=None,
        request=leaving(1000, BODY.replace(b"true", b"false")),
        within_ms=1100,
    ),
    Row(
        "client_leaves_during_the_answer",
        Outcome.CLIENT_GONE,
        "ignore",
        stream((100, chunk("Hi")), (5000, chunk("!"))),
        end=None,
        request=leaving(1000),
        within_ms=1100,
    ),
    Row("engine_refuses_the_connection", Outcome.ENGINE_UNREACHABLE, "withdrawn", Script(ending="refuse"), 502),
    Row("no_connection_in_time", Outcome.ENGINE_UNREACHABLE, "withdrawn", Script(ending="unroutable"), 504),
    Row("engine_says_429", Outcome.ENGINE_OVERLOADED, "dropped", refusal(429), 429),
    Row("engine_says_503", Outcome.ENGINE_OVERLOADED, "dropped", refusal(503), 503),
    Row("engine_says_404", Outcome.ENGINE_REJECTED, "rejected", refusal(404), 404),
    Row("engine_says_500", Outcome.ENGINE_ERROR, "dropped", refusal(500), 500),
    Row("error_event", Outcome.ENGINE_ERROR, "dropped", stream((10, chunk("a")), (20, ERROR), (21, DONE))),
    Row(
        "no_head_in_time",
        Outcome.ENGINE_TIMEOUT,
        "dropped",
        Script(ending="stall"),
        504,
        settings={"timeouts": {"first_byte_s": 2.0}},
        within_ms=2100,
    ),
    Row(
        "no_end_in_time",
        Outcome.ENGINE_TIMEOUT,
        "dropped",
        stream((1000, chunk("a")), (5000, DONE)),
        end="aborted",
        settings={"timeouts": {"total_s": 2.0}},
        within_ms=2100,
    ),
    Row(
        "silent_between_chunks",
        Outcome.ENGINE_STALLED,
        "dropped",
        stream((1000, chunk("a")), ending="stall"),
        end="aborted",
        settings={"timeouts": {"idle_s": 2.0}},
        within_ms=3100,
    ),
    Row("framing_breaks_off", Outcome.TRUNCATED, "dropped", stream((10, chunk("a")), ending="close"), end="aborted"),
    Row("connection_is_reset", Outcome.TRUNCATED, "dropped", stream((10, chunk("a")), ending="reset"), end="aborted"),
    Row("the_dialects_end_is_missing", Outcome.TRUNCATED, "dropped", stream((10, chunk("a")))),
]


def play(row: Row, strike: Strike | None = None) -> tuple[House, Answer]:
    """The row, and a second for what it left in the background."""

    async def main(loop: VirtualLoop) -> tuple[House, Answer]:
        house = House(loop, row.script, **row.settings)
        others = [asyncio.create_task(house.ask(simple_request(BODY))) for _ in range(row.before)]
        await asyncio.sleep(0.01 if others else 0)
        answer = await house.ask(named(row.request), strike.over if strike is not None else lambda app: app)
        await asyncio.gather(*others)
        await asyncio.sleep(1)
        return house, answer

    return run(main)


def named(request: Request) -> Request:
    """The row's own request, told from the others by its id."""
    return replace(request, headers=(*request.headers, ("x-request-id", "own")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_table(row: Row) -> None:
    house, answer = play(row)
    (record,) = (record for record in house.records if record.id == "own")
    assert record.outcome is row.outcome
    assert (answer.status, record.status) == (row.status, row.status)
    assert answer.end == row.end
    assert house.permit_ends[row.before :] == ([] if row.permit is None else [row.permit])
    assert len(house.calls) == row.before + (row.permit is not None and row.script.ending not in UNREACHED)
    assert house.leftovers() == []
    if row.within_ms is not None:
        closed_ns = house.calls[0].closed_ns
        assert closed_ns is not None
        assert closed_ns - answer.arrived_ns <= row.within_ms * MS


@pytest.mark.parametrize("error", [None, Blow], ids=["cancelled", "blow"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_one_record_whatever_strikes_at_whatever_await(row: Row, error: type[BaseException] | None) -> None:
    for at, (house, _) in at_every_await(lambda strike: play(row, strike), error):
        assert len(house.records) == row.before + 1, f"struck at await {at}"
        (record,) = (record for record in house.records if record.id == "own")
        assert record.outcome in (row.outcome, Outcome.PROXY_ERROR, Outcome.CLIENT_GONE), f"struck at await {at}"
        assert house.leftovers() == [], f"struck at await {at}"


def test_an_exchange_that_is_cut_by_the_drain_limit_is_our_doing() -> None:
    async def main(loop: VirtualLoop) -> tuple[House, Answer]:
        house = House(loop, SLOW)
        asking = asyncio.create_task(house.ask(simple_request(BODY)))
        await asyncio.sleep(1)
        house.app.cut()
        return house, await asking

    house, answer = run(main)
    assert [record.outcome for record in house.records] == [Outcome.PROXY_ERROR]
    assert answer.status == 503
    assert house.permit_ends == ["ignore"]
    assert house.leftovers() == []


def test_a_bug_of_ours_costs_one_exchange_and_is_named_nowhere_but_in_the_log() -> None:
    async def main(loop: VirtualLoop) -> tuple[House, Answer]:
        def buggy(call: object) -> Script:
            raise ZeroDivisionError("secret prompt")

        house = House(loop, buggy)
        return house, await house.ask(simple_request(BODY))

    house, answer = run(main)
    assert [record.outcome for record in house.records] == [Outcome.PROXY_ERROR]
    assert (answer.status, answer.end) == (500, "complete")
    assert b"secret" not in answer.body
    assert "secret" not in (house.records[0].error or "")
    assert house.leftovers() == []


TIMINGS = EngineReport(source="llamacpp.timings", covers_all=False)


@pytest.mark.parametrize(
    ("n", "prompts", "streamed", "report", "written", "charge"),
    [
        pytest.param(1, 1, False, None, 9, Usage(7, 4, 2), id="one answer, as the engine says"),
        pytest.param(2, 1, False, TIMINGS, 3, Usage(7, 8), id="llama.cpp, whole: the others are as long"),
        pytest.param(1, 3, False, TIMINGS, 3, Usage(None, 12), id="and of its prompts it says one"),
        pytest.param(2, 1, True, TIMINGS, 8, Usage(7, None), id="llama.cpp, a stream: what was seen"),
        pytest.param(2, 1, True, TIMINGS, 4, Usage(7, 4), id="or what was said, where that is more"),
        pytest.param(2, 1, False, None, 3, Usage(7, 4, 2), id="an engine that says all"),
        pytest.param(2, 1, False, EngineReport("vllm.metrics", covers_all=False), 3, Usage(7, 4, 2), id="vLLM"),
        pytest.param(2, 1, True, None, 8, Usage(7, None, 2), id="an engine that says too few"),
    ],
)
def test_budgets_are_charged_all_answers(n, prompts, streamed, report, written, charge):
    facts = RequestFacts("openai", "chat", "inference", n=n, prompts=prompts)
    assert charged(facts, Usage(7, 4, 2), report, written, streamed=streamed) == charge


def test_an_engine_that_refuses_has_read_nothing():
    for outcome, status in (
        ("engine_rejected", 400),
        ("engine_overloaded", 503),
        ("engine_error", 501),
        ("completed", 302),
    ):
        assert unread(Outcome(outcome), status)
    for outcome, status in (
        ("engine_error", 500),
        ("engine_error", 200),
        ("completed", 200),
        ("client_gone", 200),
        ("truncated", 200),
    ):
        assert not unread(Outcome(outcome), status)
