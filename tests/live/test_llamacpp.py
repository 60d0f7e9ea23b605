"""Real llama.cpp behind phasegate: two slots, more requests than they can take."""

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest
from openai import OpenAI

from tests.live import compare, load
from tests.live.compare import Task, phase
from tests.live.conftest import Gate
from tests.live.load import Ask, Heard
from tests.live.processes import ENGINES, READY_S, Child, Engine, Phasegate, status, until
from tests.live.steadiness import steadily
from tests.support.imports import ROOT
from tests.support.loopback import free_port

pytestmark = pytest.mark.timeout(600)

COUNT = 60
MODEL = "smollm2-135m"
OVERLOAD = 2.0
"""Arrivals a second, as a multiple of what two slots can do."""
ASLEEP_S = 8
"""Without work until it sleeps: longer than between two looks, which would keep it awake if they were work."""
NOTICED_S = 20
"""From an engine's end or start to `/readyz`: a look follows trouble at once, and silence every 2 s."""


@pytest.fixture(scope="module")
def engine(need: Callable[[str], None]) -> Iterator[Engine]:
    need("llamacpp")
    started = Engine("llamacpp", "--threads", "1")  # the other core is the proxy's and the clients'
    yield started
    started.stop()


@pytest.fixture(scope="module")
def proxy(engine: Engine, gate: Gate) -> Phasegate:
    return gate(engine.url)


@dataclass(frozen=True)
class Run(compare.Run):
    """And what the engine's log says, by id."""

    tasks: dict[str, Task]


def body(rng: random.Random, number: int) -> tuple[str, dict[str, object]]:
    """Long and short prompts and answers, three routes, streams and none."""
    words = rng.choice((8, 8, 30, 30, 120))
    tokens = rng.choice((4, 8, 16, 32))
    text, stream = load.prompt(rng, words), number % 4 != 3
    if number % 3 == 0:
        messages = [{"role": "user", "content": text}]
        return "/v1/chat/completions", {"model": MODEL, "messages": messages, "max_tokens": tokens, "stream": stream}
    if number % 3 == 1:
        return "/v1/completions", {"model": MODEL, "prompt": text, "max_tokens": tokens, "stream": stream}
    return "/completion", {"prompt": text, "n_predict": tokens, "stream": stream}


def asks(rng: random.Random, name: str, count: int, per_second: float) -> list[Ask]:
    made = []
    for number, at in enumerate(load.poisson(rng, count, per_second)):
        path, said = body(rng, number)
        made.append(Ask(f"{name}-{number}", path, said, at, library=path.startswith("/v1") and number % 2 == 0))
    return made


def capacity(url: str) -> float:
    """Requests a second that the engine can do now: machines differ by a factor of ten."""
    mix = asks(random.Random(1), "warm", 12, 1e9)
    start = time.monotonic()
    load.run(url, mix)
    return len(mix) / (time.monotonic() - start)


def figures(heard: Heard) -> tuple[float, float]:
    timings = heard.last("timings")
    return timings["prompt_ms"], timings["predicted_ms"]


@pytest.fixture(scope="module")
def run(engine: Engine, proxy: Phasegate) -> Run:
    def attempt(number: int) -> list[Heard]:
        return load.run(proxy.url, asks(random.Random(7), f"load{number}", COUNT, OVERLOAD * capacity(engine.url)))

    heard = steadily(attempt)
    by_id = {one.ask.id: one for one in heard}
    tasks = compare.tasks_of(by_id, figures, lambda: compare.on_our_clock(engine.lines))
    return Run(by_id, compare.records(proxy, by_id), tasks)


def test_every_arrival_gives_one_record_and_every_request_completes(run: Run, proxy: Phasegate) -> None:
    assert compare.count(proxy, run.heard) == COUNT
    assert {record["outcome"] for record in run.records.values()} == {"completed"}


def test_there_was_a_queue(run: Run) -> None:
    waits = sorted((run.tasks[id].start_ns - run.heard[id].sent_ns) / 1e9 for id in run.streams)
    assert waits[len(waits) // 2] > 0.05, "the load was too light to prove anything"


def test_queue_of_streams_is_true_to_10_ms(run: Run) -> None:
    errors = [
        phase(run.records[id], "queue") - (run.tasks[id].start_ns - run.heard[id].sent_ns) / 1e9 for id in run.streams
    ]
    print("queue error p50, p95, max", *(f"{compare.percentile(errors, p) * 1e3:.2f}" for p in (0.5, 0.95, 1)), "ms")
    assert compare.percentile(errors, 0.95) <= 0.010


def test_queue_without_a_stream_is_true_to_20_ms(run: Run) -> None:
    whole = [id for id, heard in run.heard.items() if not heard.ask.streams]
    errors = [phase(run.records[id], "queue") - (run.tasks[id].start_ns - run.heard[id].sent_ns) / 1e9 for id in whole]
    print("queue error p50, p95, max", *(f"{compare.percentile(errors, p) * 1e3:.2f}" for p in (0.5, 0.95, 1)), "ms")
    assert compare.percentile(errors, 0.95) <= 0.020


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_beside_a_free_slot_a_wait_for_anothers_batch_is_queue(proxy: Phasegate, stream: bool) -> None:
    rng, name = random.Random(), f"beside-{stream}-{time.monotonic_ns()}"
    long = Ask(f"{name}-long", "/completion", {"prompt": load.prompt(rng, 2500), "n_predict": 2, "stream": True})
    short = {"prompt": load.prompt(rng, 8), "n_predict": 2, "stream": stream}
    load.run(proxy.url, [long, Ask(name, "/completion", short, after_s=0.3)])
    waited = compare.records(proxy, [name])[name]["phases"]["queue"]
    assert waited["s"] > 0.2, "the long prompt was read too soon to be waited for"
    assert waited["class"] == "derived"
    assert waited["error_s"] <= 0.010


def test_prefill_and_decode_are_the_engines_own(run: Run) -> None:
    for id, record in run.records.items():
        timings = run.heard[id].last("timings")
        assert phase(record, "prefill") == pytest.approx(timings["prompt_ms"] / 1e3, abs=1e-6), id
        assert phase(record, "decode") == pytest.approx(timings["predicted_ms"] / 1e3, abs=1e-6), id


def test_ttft_is_the_clients_own(run: Run) -> None:
    run.has_the_clients_ttft()


def test_phases_before_the_first_token_add_up_to_ttft(run: Run) -> None:
    run.has_phases_that_add_up_to_ttft()


def test_the_sum_is_kept_and_no_report_is_contradicted(run: Run) -> None:
    run.has_kept_sums_and_no_contradiction()


def test_a_client_that_leaves_is_a_record_and_frees_its_slot(engine: Engine, proxy: Phasegate) -> None:
    said = {"prompt": "Once upon a time", "n_predict": 2000, "stream": True}
    with httpx.stream("POST", proxy.url + "/completion", json=said, headers={"x-request-id": "left"}) as response:
        assert next(response.iter_raw())
    record = compare.records(proxy, ["left"])["left"]
    assert (record["outcome"], record["status"]) == ("client_gone", 200)
    assert record["ttft_s"] > 0
    until(lambda: not any(slot["is_processing"] for slot in httpx.get(engine.url + "/slots").json()), 10)


def test_errors_of_the_engine_pass_as_they_are(engine: Engine, proxy: Phasegate) -> None:
    wrong = {"messages": "no list"}
    direct = httpx.post(engine.url + "/v1/chat/completions", json=wrong)
    through = httpx.post(proxy.url + "/v1/chat/completions", json=wrong, headers={"x-request-id": "wrong"})
    assert (through.status_code, through.content) == (direct.status_code, direct.content)
    expected = "engine_rejected" if direct.status_code < 500 else "engine_error"
    assert compare.records(proxy, ["wrong"])["wrong"]["outcome"] == expected


def test_tools_and_several_prompts_do_not_confuse_it(proxy: Phasegate) -> None:
    with OpenAI(base_url=proxy.url + "/v1", api_key="none", max_retries=0) as client:
        tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
        client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "How is the weather?"}],
            tools=[tool],  # type: ignore[list-item]
            max_tokens=12,
            extra_headers={"x-request-id": "tools"},
        )
        client.completions.create(
            model=MODEL, prompt=["One.", "Two."], max_tokens=6, extra_headers={"x-request-id": "prompts"}
        )
    found = compare.records(proxy, ["tools", "prompts"])
    for record in found.values():
        assert record["outcome"] == "completed"
        assert compare.sums(record)
    assert "prefill" not in found["prompts"]["phases"], "its figures cover the first prompt only"


def test_a_killed_engine_breaks_its_answers_off_and_is_known_again(need: Callable[[str], None], gate: Gate) -> None:
    need("llamacpp")
    port = free_port()
    proxy = gate(f"http://127.0.0.1:{port}")
    assert not proxy.ready, "an engine that is down at start is no error, and nothing is ready"
    refused = httpx.post(proxy.url + "/completion", json={"prompt": "a"}, headers={"x-request-id": "early"})
    assert refused.status_code == 502
    assert compare.records(proxy, ["early"])["early"]["outcome"] == "engine_unreachable"

    first = Engine("llamacpp", port=port)
    try:
        until(lambda: proxy.ready, 20)
        until(lambda: proxy.engines()[0]["kind"] == "llamacpp", 10)
        said = {"prompt": "Once upon a time", "n_predict": 2000, "stream": True}
        with httpx.stream("POST", proxy.url + "/completion", json=said, headers={"x-request-id": "cut"}) as response:
            pieces = response.iter_raw()
            assert next(pieces)
            first.kill()
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)
        assert compare.records(proxy, ["cut"])["cut"]["outcome"] == "truncated"
        until(lambda: not proxy.ready, NOTICED_S)
    finally:
        first.stop()

    second = Child([str(ENGINES), "start", "llamacpp", str(port), "--parallel", "1"])
    try:
        until(lambda: asked_and_ready(proxy), NOTICED_S + READY_S["llamacpp"])
        assert status(first.url + "/health") == 200, "it is loading its model"
        until(lambda: proxy.engines()[0]["slots"] == 1, 5, lambda: str(proxy.engines()))
        assert (proxy.engines()[0]["models"], bool(proxy.engines()[0]["version"])) == ([MODEL], True)
        again = httpx.post(
            proxy.url + "/completion",
            json={"prompt": "a", "n_predict": 2},
            headers={"x-request-id": "again"},
            timeout=60,
        )
        assert again.status_code == 200
        assert compare.records(proxy, ["again"])["again"]["outcome"] == "completed"
    finally:
        second.stop()


def asked_and_ready(proxy: Phasegate) -> bool:
    """Whether it is ready, while clients ask all the time."""
    httpx.get(proxy.url + "/", timeout=60)
    httpx.post(proxy.url + "/completion", json={"prompt": "a", "n_predict": 1}, timeout=60)
    return proxy.ready


def test_its_inside_is_seen_and_being_looked_at_does_not_keep_it_awake(need: Callable[[str], None], gate: Gate) -> None:
    need("llamacpp")
    engine = Engine("llamacpp", "--threads", "1", "--sleep-idle-seconds", str(ASLEEP_S))
    try:
        proxy = gate(engine.url)
        until(lambda: proxy.ready, 20)
        until(lambda: proxy.engines()[0].get("inside", {}).get("slots") == 2, 20, lambda: str(proxy.engines()))
        said = {"prompt": "Once upon a time", "n_predict": 4000, "stream": True, "ignore_eos": True}
        with httpx.stream("POST", proxy.url + "/completion", json=said) as response:
            pieces = response.iter_raw()
            assert next(pieces)
            until(lambda: proxy.engines()[0]["gauges"]["running"] == 1, 15, lambda: str(proxy.engines()))
            assert 0 < proxy.engines()[0]["gauges"]["kv_usage"] < 1
        until(lambda: proxy.engines()[0]["inside"]["sleeping"], 4 * ASLEEP_S, lambda: str(proxy.engines()))
        assert proxy.ready
    finally:
        engine.stop()


def test_the_probe_tells_short_prompts_from_long_ones(engine: Engine) -> None:
    command = [sys.executable, "-m", "proxy", "probe", "--quick", "--json", engine.url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    print(done.stdout)
    short, long = result["short"], result["long"]
    assert short["prompt_tokens"] == pytest.approx(200, rel=0.05)
    assert long["prompt_tokens"] == pytest.approx(2000, rel=0.05)
    assert short["output_tokens"] == long["output_tokens"]
    assert long["ttft_s"] > short["ttft_s"]
    assert None not in (*short.values(), *long.values()), "the engine says all of it"


def test_a_plain_socket_gets_a_whole_answer(proxy: Phasegate) -> None:
    said = b'{"prompt": "a", "n_predict": 2}'
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as plain:
        plain.sendall(b"POST /completion HTTP/1.0\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))
        answer = b"".join(iter(lambda: plain.recv(65536), b""))
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0]
    assert b'"timings"' in rest
