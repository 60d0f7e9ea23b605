"""One request, step by step. How exchanges end, and that nothing strikes one without a record, is `test_endings`."""

import asyncio
import gc
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy import passing
from proxy.client import Client
from proxy.endings import judge
from proxy.exchange import Exchange
from proxy.passing import BLOCKED_NS, EDITED
from proxy.records import AdmissionVerdict, Finished, Outcome
from proxy.timeline import Recorder
from tests.support.client import Answer, Request, ScriptedClient, scope_of, simple_request
from tests.support.clock import START_NS, VirtualLoop, run
from tests.support.house import URL, House
from tests.support.script import OK, Call, Read, Script
from tests.support.streams import DONE, JSON, MS, NDJSON, SSE, USAGE, WHOLE, chat, chunk, plain, stream

STREAM = simple_request(chat(stream=True))
SECRET = "the prompt of somebody"


def asked(
    script: Script | Callable[[Call], Script], request: Request = STREAM, send_ns: int = 0, **settings: Any
) -> tuple[House, Answer]:
    """One request in a fresh house, to its end and a second more."""

    async def main(loop: VirtualLoop) -> tuple[House, Answer]:
        house = House(loop, script, **settings)
        answer = await ScriptedClient(loop, house.app, send_ns=send_ns).ask(request)
        await asyncio.sleep(1)
        return house, answer

    return run(main)


# --- receive ---


def test_time_counts_from_the_bodys_last_byte() -> None:
    body = chat(stream=True)
    pieces = ((0, body[:9]), (700 * MS, body[9:]))
    request = Request(headers=(("content-length", str(len(body))),), pieces=pieces)
    house, answer = asked(WHOLE, request)
    line = house.records[0].timeline
    assert line.total_ns == 210 * MS
    assert line.bytes_in == len(body)
    assert answer.arrived_ns == START_NS + 700 * MS


def test_a_body_that_is_not_read_streams_through_and_counts_from_its_head() -> None:
    parts = ((0, b"--x\r\n"), (300 * MS, b"a" * 1000), (600 * MS, b"--x--"))
    headers = (("content-type", "multipart/form-data; boundary=x"), ("transfer-encoding", "chunked"))
    house, answer = asked(OK, Request("POST", "/v1/audio/transcriptions", headers, parts))
    (record,), (call,) = house.records, house.calls
    assert call.body == b"".join(part for _, part in parts)
    assert answer.end == "complete"
    assert (record.facts.model, record.timeline.bytes_in) == (None, 1010)
    assert record.timeline.total_ns == 610 * MS
    assert record.timeline.dispatched_ns == 600 * MS


def test_a_client_that_leaves_while_its_body_streams_ends_the_call() -> None:
    parts = ((0, b"--x\r\n"), (300 * MS, b"a"))
    headers = (("content-type", "multipart/form-data; boundary=x"), ("transfer-encoding", "chunked"))
    request = Request("POST", "/v1/audio/transcriptions", headers, parts, leaves_ns=100 * MS)
    house, _ = asked(OK, request)
    assert house.records[0].outcome is Outcome.CLIENT_GONE
    assert house.leftovers() == []


def test_a_client_that_leaves_its_upload_says_nothing_of_the_engine() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        house, told = House(loop, OK), []
        (engine,) = house.app.fleet.engines
        engine.on_trouble = lambda: told.append(1)
        headers = (("content-type", "multipart/form-data; boundary=x"), ("transfer-encoding", "chunked"))
        upload = Request("POST", "/v1/audio/transcriptions", headers, ((0, b"--x\r\n"), (300 * MS, b"a")), 100 * MS)
        await house.ask(upload)
        assert house.records[0].outcome is Outcome.CLIENT_GONE
        return told

    assert run(main) == []


def test_a_client_that_leaves_after_its_body_streamed_ends_the_call() -> None:
    headers = (("content-type", "multipart/form-data; boundary=x"), ("content-length", "3"))
    request = Request("POST", "/v1/audio/transcriptions", headers, ((0, b"abc"),), leaves_ns=5 * MS)
    house, _ = asked(OK, request)
    assert house.records[0].outcome is Outcome.CLIENT_GONE
    assert house.calls[0].closed_ns == START_NS + 5 * MS


def test_no_body_is_no_body() -> None:
    house, answer = asked(plain(200, {"data": []}), simple_request(b"", "/v1/models"))
    assert (answer.status, house.calls[0].body, house.calls[0].header("content-length")) == (200, b"", None)
    assert house.records[0].facts.route == "read"


# --- weigh, enter ---


def test_the_record_knows_the_count_and_the_verdict_and_no_prompt() -> None:
    limit = {"name": "r", "mode": "observe", "max_output_tokens": 1}
    house, _ = asked(WHOLE, simple_request(chat(stream=True, max_tokens=9)), limit=[limit])
    (record,) = house.records
    assert record.counted is not None
    assert record.counted.how == "estimated"
    assert (record.admission.mode, record.admission.reason) == ("observe", "output_too_long")
    assert record.facts.prompt is None
    assert (record.facts.model, record.facts.stream) == ("m1", True)


def test_a_refusal_leaves_its_verdict_in_the_record() -> None:
    house, answer = asked(
        WHOLE, limit=[{"name": "r", "max_output_tokens": 1}], request=simple_request(chat(max_tokens=9))
    )
    (record,) = house.records
    assert answer.status == 400
    assert (record.outcome, record.admission.reason, record.admission.rule) == (
        Outcome.REFUSED, "output_too_long", "r.max_output_tokens",
    )  # fmt: skip


class Faulty:
    """A desk that cannot count, or cannot learn; all else is the real one's."""

    def __init__(self, desk: Any, method: str) -> None:
        self._desk = desk
        self._method = method

    def __getattr__(self, name: str) -> Any:
        return fault if name == self._method else getattr(self._desk, name)


def fault(*_: object) -> Any:
    raise ValueError(SECRET)


@pytest.mark.parametrize("method", ["count", "learn"])
def test_a_fault_in_making_numbers_spoils_a_number_and_no_request(method: str) -> None:
    async def main(loop: VirtualLoop) -> tuple[House, Answer]:
        house = House(loop, WHOLE)
        (engine,) = house.app.fleet.engines
        engine.desk = Faulty(engine.desk, method)
        return house, await house.ask(STREAM)

    with capture_logs() as logs:
        house, answer = run(main)
    (record,) = house.records
    assert (answer.status, record.outcome) == (200, Outcome.COMPLETED)
    assert (record.counted is None) == (method == "count")
    assert [(entry["request"], entry["error"]) for entry in logs] == [(record.id, "ValueError")]
    assert SECRET not in json.dumps(logs)
    assert house.leftovers() == []


IDS = simple_request(json.dumps({"model": "m", "prompt": list(range(1000, 1100))}).encode(), "/v1/completions")
READ = Script(
    headers=OK.headers, reads=(Read(MS, OK.reads[0].data.replace(b'"prompt_tokens":2', b'"prompt_tokens":100')),)
)
"""What an engine says that read it."""
WARM = (100 - 1) // 16 * 16
"""What a cache in blocks of 16 has of that prompt once it was read."""


def expected(house: House) -> list[int | None]:
    """What the records say was to be had from the cache, in the order of their ends."""
    return [record.prefix and record.prefix.expected for record in house.records]


def test_a_prompt_that_never_reached_the_engine_is_in_no_cache() -> None:
    async def main(loop: VirtualLoop) -> House:
        scripts = iter((Script(ending="refuse"), READ, READ))
        house = House(loop, lambda call: next(scripts), upstream=[{"url": URL, "kind": "vllm"}])
        for _ in range(3):
            await house.ask(IDS)
        return house

    house = run(main)
    assert [record.outcome for record in house.records][:2] == [Outcome.ENGINE_UNREACHABLE, Outcome.COMPLETED]
    assert expected(house) == [0, 0, WARM]


def test_who_waited_at_the_door_finds_what_others_left_in_the_cache() -> None:
    async def main(loop: VirtualLoop) -> House:
        limit = [{"name": "one", "max_concurrency": 1, "queue_length": 5}]
        house = House(loop, READ, upstream=[{"url": URL, "kind": "vllm"}], limit=limit)
        await asyncio.gather(house.ask(simple_request(chat())), house.ask(IDS), house.ask(IDS))
        return house

    house = run(main)
    assert [record.admission.decision for record in house.records] == ["admitted", "queued", "queued"]
    assert expected(house) == [0, 0, WARM]


# --- dispatch ---


@pytest.mark.parametrize("status", [400, 422])
def test_an_engine_that_refuses_a_spliced_body_gets_the_clients_own_once_and_is_not_asked_again(status: int) -> None:
    async def main(loop: VirtualLoop) -> tuple[House, list[Answer]]:
        scripts = [plain(status, {"error": "unknown field stream_options"}), WHOLE, WHOLE]
        house = House(loop, lambda call: scripts.pop(0), ask_usage=True)
        return house, [await house.ask(STREAM), await house.ask(STREAM)]

    house, answers = run(main)
    assert [answer.status for answer in answers] == [200, 200]
    assert [call.body == STREAM.body for call in house.calls] == [False, True, True]
    assert [call.asks_usage for call in house.calls] == [True, False, False]
    assert [record.outcome for record in house.records] == [Outcome.COMPLETED] * 2
    assert house.leftovers() == []


def test_a_request_that_is_refused_as_the_client_sent_it_says_nothing_of_the_splice() -> None:
    async def main(loop: VirtualLoop) -> tuple[House, list[Answer]]:
        scripts = [plain(400, {"error": "too long"}), plain(400, {"error": "too long"}), WHOLE]
        house = House(loop, lambda call: scripts.pop(0), ask_usage=True)
        return house, [await house.ask(STREAM), await house.ask(STREAM)]

    house, answers = run(main)
    assert [answer.status for answer in answers] == [400, 200]
    assert [call.asks_usage for call in house.calls] == [True, False, True]
    assert [record.outcome for record in house.records] == [Outcome.ENGINE_REJECTED, Outcome.COMPLETED]


def test_a_400_to_the_clients_own_body_is_the_answer() -> None:
    house, answer = asked(plain(400, {"error": "bad"}), ask_usage=False)
    assert (answer.status, len(house.calls), house.records[0].outcome) == (400, 1, Outcome.ENGINE_REJECTED)


# --- pass on ---


def usage(*reads: tuple[int, bytes], **more: Any) -> Script:
    """A stream whose usage event comes only where it is asked for."""
    script = stream(*reads, **more)
    return replace(script, reads=tuple(replace(read, when_usage_asked=read.data == USAGE) for read in script.reads))


def test_usage_is_asked_for_and_the_one_event_taken_out() -> None:
    script = usage((10, chunk("Hi")), (20, chunk(finish="stop")), (21, USAGE), (22, DONE))
    house, answer = asked(script, ask_usage=True)
    assert answer.body == chunk("Hi") + chunk(finish="stop") + DONE
    said = house.records[0].usage
    assert said is not None
    assert (said.prompt_tokens, said.output_tokens) == (9, 2)


@pytest.mark.parametrize("ending", ["close", "reset"])
def test_what_was_held_back_leaves_when_the_engine_breaks_off_in_an_event(ending: Any) -> None:
    part = chunk("there")[:20]
    house, answer = asked(usage((10, chunk("Hi")), (20, part), ending=ending), ask_usage=True)
    assert answer.body == chunk("Hi") + part
    assert answer.end == "aborted"
    assert house.records[0].outcome is Outcome.TRUNCATED


def test_every_chunk_leaves_when_it_comes_as_it_came() -> None:
    pieces = (chunk("Hi"), b": ping\n\n", chunk("a")[:7], chunk("a")[7:], DONE)
    house, answer = asked(stream(*[(10 * at, piece) for at, piece in enumerate(pieces, 1)]))
    assert [data for _, data in answer.chunks] == list(pieces)
    assert [at - START_NS for at, _ in answer.chunks] == [10 * MS * at for at in range(1, 6)]
    assert house.records[0].timeline.bytes_out == sum(map(len, pieces))


TINY = b"data: {}\n\n" * 20_000


@pytest.mark.parametrize("ask_usage", [False, True], ids=["as it came", "edited"])
@pytest.mark.parametrize("headers", [SSE, JSON], ids=["stream", "called something else"])
def test_others_have_their_turn_while_a_full_read_is_looked_at(headers: Any, ask_usage: bool) -> None:
    read: list[int] = []
    sent: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    async def others(recorder: Recorder) -> None:
        for _ in range(200):
            read.append(recorder._events)
            await asyncio.sleep(0)

    async def main(loop: VirtualLoop) -> tuple[House, Answer]:
        house = House(loop, Script(reads=(Read(10 * MS, TINY),), headers=headers), ask_usage=ask_usage)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            async def kept(message: Any) -> None:
                sent.append(len(message.get("body", b"")))
                if message["type"] == "http.response.body":
                    (exchange,) = house.app._exchanges
                    tasks.append(asyncio.ensure_future(others(exchange.recorder)))
                await send(message)

            await house.app(scope, receive, kept)

        return house, await ScriptedClient(loop, app).ask(STREAM)

    house, answer = run(main)
    assert answer.body == TINY
    assert house.records[0].timeline.last_byte_ns == 10 * MS
    assert max(read) > 19_000
    assert max(after - before for before, after in pairwise(read)) < 1_000
    assert max(sent) <= (EDITED + len(b"data: {}\n\n") if ask_usage and headers == SSE else len(TINY))


def test_an_answer_does_not_wait_for_ever_to_be_read_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "TURNS", 3)
    script = Script(reads=(Read(10 * MS, TINY), Read(20 * MS, chunk("a"))), headers=SSE)
    house, answer = asked(script)
    assert answer.body == TINY + chunk("a")
    (record,) = house.records
    assert (record.outcome, record.findings) == (Outcome.COMPLETED, ("not_observed",))
    assert 0 < record.timeline.events < 20_000


def test_time_in_send_is_blocked_time_beside_the_sum() -> None:
    script = stream((100, chunk("Hi")), (101, chunk(finish="stop")), (102, DONE))
    house, _ = asked(script, send_ns=50 * MS)
    line = house.records[0].timeline
    assert line.blocked_ns == 250 * MS  # head, three chunks, end
    assert line.total_ns == 350 * MS


def test_our_own_work_in_send_is_not_blocked_time() -> None:
    house, _ = asked(WHOLE, send_ns=BLOCKED_NS - 1)
    assert house.records[0].timeline.blocked_ns == 0


@pytest.mark.parametrize(("waits", "blocked_ns"), [(True, 250 * MS), (False, 0)])
def test_time_without_the_processor_is_not_the_clients(waits: bool, blocked_ns: int) -> None:
    async def main(loop: VirtualLoop) -> House:
        house = House(loop, stream((100, chunk("Hi")), (101, chunk(finish="stop")), (102, DONE)))
        written: list[bytes] = []

        async def telling(scope: Any, receive: Any, send: Any) -> None:
            scope["extensions"]["phasegate.room"] = lambda: None if waits else written.append
            await house.app(scope, receive, send)

        await ScriptedClient(loop, telling, send_ns=50 * MS).ask(STREAM)
        return house

    (record,) = run(main).records
    assert record.timeline.blocked_ns == blocked_ns


class Stuck:
    """A client that takes `takes` messages and then reads nothing more. `broken`: how often it was broken off."""

    def __init__(self, takes: int) -> None:
        self.left = takes
        self.broken = 0

    def over(self, app: Any) -> Any:
        async def stuck(scope: Any, receive: Any, send: Any) -> None:
            async def taken(message: Any) -> None:
                self.left -= 1
                if self.left < 0:
                    await asyncio.get_running_loop().create_future()
                await send(message)

            scope["extensions"]["phasegate.room"] = lambda: None
            scope["extensions"]["phasegate.abort"] = self.abort
            await app(scope, receive, taken)

        return stuck

    def abort(self) -> None:
        self.broken += 1


@pytest.mark.parametrize("takes", [0, 1, 2, 3], ids=["nothing", "head", "chunk", "all_but_the_end"])
def test_a_client_that_reads_nothing_is_gone_after_the_idle_limit(takes: int) -> None:
    async def main(loop: VirtualLoop) -> House:
        script = usage((10, chunk("Hi", "stop") + DONE[:4]), (20, DONE[4:]))
        house = House(loop, script, ask_usage=True, timeouts={"idle_s": 2.0})
        await house.ask(STREAM, client.over)
        return house

    client = Stuck(takes)
    house = run(main)
    (record,) = house.records
    assert record.outcome is (Outcome.COMPLETED if takes > 1 else Outcome.CLIENT_GONE)
    assert "read nothing for 2 s" in (record.error or "")
    assert client.broken == 1
    assert house.leftovers() == []


@pytest.mark.parametrize(
    ("takes", "script", "outcome"),
    [
        (0, Script(ending="stall"), Outcome.ENGINE_TIMEOUT),
        (2, usage((10, chunk("Hi") + DONE[:4]), ending="stall"), Outcome.ENGINE_STALLED),
    ],
    ids=["our own answer", "what was held back"],
)
def test_a_client_that_reads_nothing_is_not_waited_for_when_a_limit_has_ended_the_exchange(
    takes: int, script: Script, outcome: Outcome
) -> None:
    async def main(loop: VirtualLoop) -> House:
        house = House(loop, script, ask_usage=True, timeouts={"idle_s": 2.0, "first_byte_s": 3.0})
        await house.ask(STREAM, client.over)
        return house

    client = Stuck(takes)
    house = run(main)
    assert [record.outcome for record in house.records] == [outcome]
    assert client.broken == 1
    assert house.leftovers() == []


def test_a_slow_clients_reading_is_not_the_engines_work() -> None:
    async def main(loop: VirtualLoop) -> tuple[House, list[int]]:
        house = House(loop, WHOLE)
        (engine,) = house.app.fleet.engines
        answered: list[int] = []
        ended = engine.ended
        engine.ended = lambda id, at_ns, *of: answered.append(at_ns) or ended(id, at_ns, *of)  # type: ignore
        await ScriptedClient(loop, house.app, send_ns=400 * MS).ask(STREAM)
        return house, answered

    house, answered = run(main)
    line = house.records[0].timeline
    assert line.last_byte_ns is not None
    assert answered == [START_NS + line.last_byte_ns]
    assert line.total_ns > line.last_byte_ns


def test_the_first_token_is_told_once() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        house = House(loop, lambda call: stream((10, b": ping\n\n"), (20, chunk("a")), (30, chunk("b")), (31, DONE)))
        (engine,) = house.app.fleet.engines
        told: list[int] = []
        engine.first_token = lambda id, at_ns: told.append(at_ns - START_NS)  # type: ignore[method-assign]
        await house.ask(STREAM)
        return told

    assert run(main) == [20 * MS]


@pytest.mark.parametrize(("ending", "troubles"), [("complete", 0), ("close", 1), ("reset", 1)])
def test_an_engine_that_breaks_off_is_looked_at_again(ending: Any, troubles: int) -> None:
    async def main(loop: VirtualLoop) -> int:
        house, told = House(loop, replace(WHOLE, ending=ending)), []
        (engine,) = house.app.fleet.engines
        engine.answers, engine.on_trouble = True, lambda: told.append(1)
        await house.ask(STREAM)
        return len(told)

    assert run(main) == troubles


def test_a_body_is_not_held_while_its_answer_streams() -> None:
    picture = "data:image/png;base64," + "A" * 1_000_000
    content = [{"type": "image_url", "image_url": {"url": picture}}]
    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}).encode()

    async def main(loop: VirtualLoop) -> set[str]:
        script = stream((100, chunk("a")), (60_000, chunk(finish="stop")), (60_001, DONE))
        house = House(loop, script, ask_usage=True)
        asking = asyncio.ensure_future(house.ask(simple_request(body)))
        await asyncio.sleep(10)
        held = {name for task in asyncio.all_tasks() for name in _held(task.get_coro(), len(body))}
        await asking
        assert house.engine.calls[0].asks_usage
        return held

    assert run(main) == set()


def _held(coroutine: Any, size: int) -> Iterator[str]:
    """Names under which functions that are under way hold so many bytes."""
    while frame := getattr(coroutine, "cr_frame", None):
        if "/proxy/" in frame.f_code.co_filename:
            for name, value in frame.f_locals.items():
                each = value if isinstance(value, tuple) else (value,)
                if any(isinstance(part, bytes) and len(part) >= size for part in each):
                    yield f"{frame.f_code.co_name}: {name}"
        coroutine = coroutine.cr_await


def test_an_answer_that_cannot_be_read_along_is_passed_on_and_said_so() -> None:
    script = Script(headers=(*JSON, ("content-encoding", "x-secret")), reads=(Read(0, b"\x00\x01"),))
    house, answer = asked(script)
    assert answer.body == b"\x00\x01"
    assert house.records[0].findings == ("not_observed",)


def test_what_an_engine_cannot_have_done_reaches_neither_record_nor_door() -> None:
    usage = b'{"prompt_tokens":9007199254740992,"completion_tokens":9007199254740992}'
    script = stream((10, chunk("Hi", "stop")), (20, b'data: {"choices":[],"usage":' + usage + b"}\n\n"), (30, DONE))
    house, _ = asked(script, simple_request(chat(stream=True)))
    assert house.records[0].usage is None
    assert house.records[0].findings == ("impossible.prompt_tokens", "impossible.output_tokens")
    assert [permit.usage for permit in house.permits] == [None]


def test_a_client_that_leaves_between_finish_and_usage_leaves_the_numbers() -> None:
    script = stream((10, chunk("Hi", "stop")), (200, USAGE), (5000, DONE))
    house, _ = asked(script, simple_request(chat(stream=True), leaves_ns=100 * MS))
    (record,) = house.records
    assert record.outcome is Outcome.COMPLETED
    assert record.usage is not None
    assert house.calls[0].closed_ns == START_NS + 350 * MS
    assert record.timeline.total_ns == 100 * MS


@pytest.mark.parametrize("ending", ["complete", "close", "reset", "stall"])
def test_what_becomes_of_the_engine_is_nothing_to_a_client_that_left_with_all_of_its_answer(ending: Any) -> None:
    end_ns = None if ending == "stall" else 200 * MS
    script = stream((10, chunk("Hi", "stop")), ending=ending, end_ns=end_ns)
    message = b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
    for path, answer in (
        ("/v1/chat/completions", script),
        ("/v1/messages", replace(script, reads=(Read(MS, message),))),
    ):
        request = simple_request(chat(stream=True), path, leaves_ns=100 * MS)
        house, _ = asked(answer, request, timeouts={"idle_s": 0.2})
        (record,) = house.records
        assert (record.outcome, record.timeline.total_ns) == (Outcome.COMPLETED, 100 * MS)
        assert record.error in (None, "the client left")
        assert house.permit_ends == ["success"]


def test_an_answer_that_ends_while_its_numbers_are_waited_for_just_ends() -> None:
    script = stream((10, chunk("Hi", "stop")), (200, USAGE), (201, DONE))
    house, _ = asked(script, simple_request(chat(stream=True), leaves_ns=100 * MS))
    (record,) = house.records
    assert (record.outcome, record.timeline.total_ns) == (Outcome.COMPLETED, 100 * MS)
    assert record.usage is not None
    assert record.timeline.done


@pytest.mark.parametrize(
    ("status", "error", "complete", "outcome"),
    [
        (200, None, True, Outcome.COMPLETED),
        (200, None, False, Outcome.TRUNCATED),
        (200, "dead", True, Outcome.ENGINE_ERROR),
        (304, None, True, Outcome.COMPLETED),
        (400, "bad", True, Outcome.ENGINE_REJECTED),
        (429, "busy", True, Outcome.ENGINE_OVERLOADED),
        (503, None, False, Outcome.ENGINE_OVERLOADED),
        (500, None, True, Outcome.ENGINE_ERROR),
    ],
)
def test_an_answer_that_ended_in_due_form_is_judged(
    status: int, error: str | None, complete: bool, outcome: Outcome
) -> None:
    assert judge(status, error, complete) is outcome


@pytest.mark.parametrize(
    ("path", "script", "error"),
    [
        pytest.param(
            "/v1/chat/completions",
            plain(400, {"error": {"message": f"input: {SECRET}", "type": "BadRequestError", "code": 400}}),
            "engine error 400: BadRequestError",
            id="JSON",
        ),
        pytest.param(
            "/v1/chat/completions",
            plain(400, {"error": {"message": "m", "type": SECRET, "code": SECRET}}),
            "engine error 400",
            id="words for a type",
        ),
        pytest.param(
            "/v1/chat/completions",
            Script(500, (("content-type", "text/plain"),), (Read(MS, SECRET.encode()),)),
            "engine error 500",
            id="text",
        ),
        pytest.param(
            "/v1/chat/completions",
            stream((1, b'data: {"error": {"message": "%b", "type": "server_error"}}\n\n' % SECRET.encode())),
            "error event in the stream: server_error",
            id="an event",
        ),
        pytest.param(
            "/api/chat",
            Script(200, NDJSON, (Read(MS, b'{"error": "%b"}\n' % SECRET.encode()),)),
            "error event in the stream",
            id="Ollama's line",
        ),
    ],
)
def test_an_engines_words_are_passed_on_and_are_in_no_record(path: str, script: Script, error: str) -> None:
    house, answer = asked(script, simple_request(chat(stream=True), path))
    (record,) = house.records
    assert SECRET.encode() in answer.body
    assert record.error == error
    assert SECRET not in repr(record)


# --- a bug of ours ---


def bug(*_: object) -> Any:
    raise ZeroDivisionError(SECRET)


@pytest.mark.parametrize("room", ["authorize", "read", "prepare", "timeouts", "tap", "reply"])
def test_a_bug_in_a_room_costs_one_exchange_and_is_logged_without_its_text(room: str) -> None:
    async def main(loop: VirtualLoop) -> tuple[House, Answer, Answer]:
        house = House(loop, WHOLE)
        rooms = replace(house.app._rooms, **{room: bug})

        async def app(scope: Any, receive: Any, send: Any) -> None:
            client = Client(scope, receive, send)
            await Exchange(rooms, house.app.fleet, loop.clock, client, "r1", 1 << 20, "1").run()

        return house, await ScriptedClient(loop, app).ask(STREAM), await house.ask(STREAM)

    with capture_logs() as logs:
        house, broken, well = run(main)
    assert (broken.status, broken.raised, well.status) == (500, None, 200)
    assert SECRET.encode() not in broken.body
    assert [record.outcome for record in house.records] == [Outcome.PROXY_ERROR, Outcome.COMPLETED]
    assert house.records[0].error == "ZeroDivisionError"
    (entry,) = logs
    assert (entry["event"], entry["request"], entry["error"]) == ("proxy_fault", "r1", "ZeroDivisionError")
    assert "exchange.py:" in entry["at"]
    assert "test_exchange.py:" in entry["at"]
    assert SECRET not in json.dumps(entry)
    assert house.leftovers() == []


class Twice:
    """Reads two events, and is broken then."""

    def __init__(self, reader: Any) -> None:
        self._reader: Any = reader
        self._left = 2

    def read(self, frame: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise RuntimeError(SECRET)
        return self._reader.read(frame)


def asked_with_a_bug(script: Script, **more: Any) -> tuple[House, list[Any]]:
    """One request whose answer's third event strikes a bug of ours, and what the log says."""

    async def main(loop: VirtualLoop) -> House:
        house = House(loop, script)
        rooms = house.app._rooms

        def tap(*args: Any) -> Any:
            passage = rooms.tap(*args)
            passage.tap._reader = Twice(passage.tap._reader)  # type: ignore[assignment]
            return passage

        async def app(scope: Any, receive: Any, send: Any) -> None:
            client = Client(scope, receive, send)
            await Exchange(replace(rooms, tap=tap), house.app.fleet, loop.clock, client, "r1", 1 << 20, "1").run()

        await ScriptedClient(loop, app).ask(simple_request(chat(stream=True), **more))
        return house

    with capture_logs() as logs:
        return run(main), logs


def test_a_bug_in_reading_what_was_held_when_the_engine_broke_off_costs_no_record() -> None:
    answer = stream((100, chunk("a")), (105, chunk("b")), (110, chunk("c")), ending="close", end_ns=200 * MS)
    house, _ = asked_with_a_bug(answer)
    assert [record.error for record in house.records] == ["RuntimeError"]
    assert house.leftovers() == []


def test_a_bug_in_reading_what_was_held_when_the_client_leaves_lets_the_engine_go() -> None:
    answer = stream((100, chunk("a")), (105, chunk("b")), (110, chunk("c")), (9_000, DONE))
    house, logs = asked_with_a_bug(answer, leaves_ns=200 * MS)
    assert [entry["event"] for entry in logs] == ["proxy_fault"]
    (record,) = house.records
    assert (record.outcome, record.timeline.total_ns) == (Outcome.CLIENT_GONE, 200 * MS)
    assert house.calls[0].closed_ns == START_NS + 200 * MS
    assert house.leftovers() == []


def test_a_bug_after_the_head_breaks_the_answer_off() -> None:
    async def main(loop: VirtualLoop) -> tuple[House, Answer]:
        house = House(loop, WHOLE)
        (engine,) = house.app.fleet.engines
        engine.first_token = bug  # type: ignore[method-assign]
        return house, await house.ask(STREAM)

    with capture_logs():
        house, answer = run(main)
    assert (answer.status, answer.end) == (200, "aborted")
    assert house.records[0].outcome is Outcome.PROXY_ERROR
    assert house.leftovers() == []


def test_one_id_said_of_many_requests_at_once_is_still_many_exchanges() -> None:
    same = replace(STREAM, headers=(*STREAM.headers, ("x-request-id", "same")))

    async def main(loop: VirtualLoop) -> tuple[House, int]:
        house = House(loop, WHOLE)
        (engine,) = house.app.fleet.engines
        asking = [asyncio.ensure_future(house.ask(same)) for _ in range(5)]
        await asyncio.sleep(0.1)
        held = len(engine.inflight)
        await asyncio.gather(*asking)
        return house, held

    house, held = run(main)
    assert held == 5
    assert [record.id for record in house.records] == ["same"] * 5
    assert all(record.prefix is not None and record.prefix.expected is not None for record in house.records)
    assert house.leftovers() == []


def test_an_exchange_says_where_it_is() -> None:
    async def main(loop: VirtualLoop) -> str:
        house = House(loop, WHOLE)
        client = Client(scope_of(STREAM), bug, bug)
        return repr(Exchange(house.app._rooms, house.app.fleet, loop.clock, client, "r1", 1, "1"))

    assert run(main).startswith("<Exchange r1 openai chat, ")


def test_headers_of_streams_are_the_engines() -> None:
    script = Script(headers=(*SSE, ("x-engine", "1"), ("x-engine", "2")), reads=(Read(0, DONE),))
    _, answer = asked(script)
    assert [value for name, value in answer.headers if name == "x-engine"] == ["1", "2"]


# --- what the record says of the door ---


def test_what_never_came_to_the_door_is_not_said_to_be_admitted() -> None:
    house, answer = asked(WHOLE, body_limit_bytes=9)
    assert answer.status == 413
    assert house.records[0].admission == AdmissionVerdict("shed")
    parts = ((0, b'{"model"'), (300 * MS, b":"))
    headers = (("content-type", "application/json"), ("content-length", "500"))
    house, _ = asked(WHOLE, Request(headers=headers, pieces=parts, leaves_ns=100 * MS))
    assert house.records[0].admission == AdmissionVerdict("shed", "disconnected")
    assert asked(WHOLE)[0].records[0].admission == AdmissionVerdict("admitted")


def test_a_client_that_leaves_the_line_was_queued_and_not_admitted_and_its_wait_was_ours() -> None:
    left, served = in_line(queue_timeout_s=5.0, leaves_ns=20 * MS)
    assert left.admission == AdmissionVerdict("queued", "disconnected", mode="enforce", waited_ns=20 * MS)
    assert (left.timeline.admission_ns, left.timeline.total_ns) == (20 * MS, 20 * MS)
    assert served.admission == AdmissionVerdict(mode="enforce")


def test_a_wait_that_was_too_long_was_ours() -> None:
    late, _ = in_line(queue_timeout_s=0.1)
    assert late.outcome is Outcome.QUEUE_TIMEOUT
    assert late.timeline.admission_ns == late.admission.waited_ns == pytest.approx(100 * MS, abs=2_000)


def in_line(queue_timeout_s: float, leaves_ns: int | None = None) -> list[Finished]:
    """One request at the engine for 210 ms, and one that waits behind it: the records, in the order of their ends."""

    async def main(loop: VirtualLoop) -> list[Finished]:
        limit = {"name": "one", "max_concurrency": 1, "queue_length": 5, "queue_timeout_s": queue_timeout_s}
        house = House(loop, WHOLE, limit=[limit])
        first = asyncio.ensure_future(ScriptedClient(loop, house.app).ask(STREAM))
        await asyncio.sleep(0.01)
        await ScriptedClient(loop, house.app).ask(replace(STREAM, leaves_ns=leaves_ns))
        await first
        await house.app.idle()
        return house.records

    return run(main)


@pytest.mark.parametrize(
    ("script", "request_", "limit"),
    [
        pytest.param(WHOLE, simple_request(chat(max_tokens=9)), [{"name": "r", "max_output_tokens": 1}], id="refused"),
        pytest.param(Script(ending="refuse"), STREAM, [], id="engine gone"),
    ],
)
def test_an_exchange_that_fails_is_freed_without_the_collector(
    script: Script, request_: Request, limit: list[dict[str, object]]
) -> None:
    def exchanges() -> int:
        return sum(isinstance(it, Exchange) for it in gc.get_objects())

    gc.collect()
    before = exchanges()
    gc.disable()
    try:
        house, _ = asked(script, request_, limit=limit)
        assert house.records[0].outcome is not Outcome.COMPLETED
        assert exchanges() == before
    finally:
        gc.enable()
