"""Real vLLM behind phasegate: with per-request metrics, and without any flag."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import anthropic
import httpx
import pytest
from openai import OpenAI

from tests.live import compare, load
from tests.live.compare import phase
from tests.live.conftest import Gate
from tests.live.load import Ask, Heard
from tests.live.processes import Engine, Phasegate, until
from tests.live.steadiness import steadily

pytestmark = pytest.mark.timeout(1200)

COUNT = 100
PER_SECOND = 3.0
MODEL = "smollm2-135m"
TELLING = ("--enable-per-request-metrics", "--enable-prompt-tokens-details", "--enable-request-id-headers")
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
TIGHT = ("--num-gpu-blocks-override", "24", "--max-model-len", "512")
"""768 tokens for four sequences: answers that grow push one another out."""


@dataclass(frozen=True)
class Run(compare.Run):
    """And what the engine's `/metrics` grew by."""

    grown: dict[str, float]


def asks(rng: random.Random, name: str, count: int, per_second: float) -> list[Ask]:
    """Long and short prompts and answers, chat and completions, streams and none, with usage asked for and not."""
    made = []
    for number, at in enumerate(load.poisson(rng, count, per_second)):
        text = load.prompt(rng, rng.choice((8, 8, 30, 30, 120, 250)))
        said: dict[str, Any] = {"model": MODEL, "max_tokens": rng.choice((4, 8, 16, 32)), "stream": number % 4 != 3}
        if said["stream"] and number % 2 == 0:
            said["stream_options"] = {"include_usage": True}
        if number % 3 == 0:
            made.append(Ask(f"{name}-{number}", "/v1/completions", {**said, "prompt": text}, at, number % 5 == 0))
        else:
            messages = [{"role": "user", "content": text}]
            path = "/v1/chat/completions"
            made.append(Ask(f"{name}-{number}", path, {**said, "messages": messages}, at, number % 5 == 0))
    return made


def totals(engine: Engine) -> dict[str, float]:
    """`/metrics`: the sum of each name over its labels."""
    found: dict[str, float] = {}
    for name, value in re.findall(r"^(vllm:\w+)(?:{[^}]*})? (\S+)$", httpx.get(engine.url + "/metrics").text, re.M):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def measured(engine: Engine, proxy: Phasegate, name: str, count: int) -> Run:
    load.run(engine.url, asks(random.Random(1), "warm", 8, 100.0))  # the first requests of a new server are slow

    def attempt(number: int) -> tuple[list[Heard], dict[str, float]]:
        before: dict[str, float] = {}
        made = asks(random.Random(7), f"{name}{number}", count, PER_SECOND)
        heard = load.run(proxy.url, made, begins=lambda: before.update(totals(engine)))
        return heard, {key: total - before.get(key, 0.0) for key, total in totals(engine).items()}

    heard, grown = steadily(attempt)
    by_id = {one.ask.id: one for one in heard}
    return Run(by_id, compare.records(proxy, by_id), grown)


# --- with per-request metrics ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def telling(need: Callable[[str], None]) -> Iterator[Engine]:
    need("vllm")
    started = Engine("vllm", *TELLING, *TOOLS)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def proxy(telling: Engine, gate: Gate) -> Phasegate:
    return gate(telling.url)


@pytest.fixture(scope="module")
def run(telling: Engine, proxy: Phasegate) -> Run:
    return measured(telling, proxy, "telling", COUNT)


def test_every_arrival_gives_one_record_and_every_request_completes(run: Run, proxy: Phasegate) -> None:
    assert compare.count(proxy, run.heard) == COUNT
    assert {record["outcome"] for record in run.records.values()} == {"completed"}


def test_phases_are_the_engines_own(run: Run) -> None:
    said = {id: heard.last("metrics") for id, heard in run.heard.items()}
    told = {id: metrics for id, metrics in said.items() if metrics is not None}
    assert len(told) >= COUNT / 2, "clients that ask for usage see the metrics, and those that do not stream"
    for id, metrics in told.items():
        record = run.records[id]
        assert phase(record, "queue") == pytest.approx(metrics["queue_time_ms"] / 1e3, abs=1e-6), id
        assert phase(record, "prefill") == pytest.approx(metrics["time_to_first_token_ms"] / 1e3, abs=1e-6), id
        assert phase(record, "decode") == pytest.approx(metrics["generation_time_ms"] / 1e3, abs=1e-6), id


def test_phases_are_known_where_the_client_does_not_ask_for_usage(run: Run) -> None:
    silent = [id for id in run.streams if "stream_options" not in run.heard[id].ask.body]
    assert silent
    for id in silent:
        assert not any(event.get("usage") for event in run.heard[id].events), "the client did not ask for it"
        assert {"queue", "prefill", "decode"} <= run.records[id]["phases"].keys()
        assert run.records[id]["phases"]["prefill"]["class"] == "measured"


def test_means_agree_with_the_engines(run: Run) -> None:
    for name in ("queue", "prefill", "decode"):
        key = f"vllm:request_{name}_time_seconds"
        assert run.grown[key + "_count"] == COUNT
        theirs = run.grown[key + "_sum"] / COUNT
        ours = fmean(phase(record, name) for record in run.records.values())
        print(f"mean {name}: engine {theirs:.5f} s, phasegate {ours:.5f} s")
        assert ours == pytest.approx(theirs, rel=0.01), name


def test_cached_tokens_are_counted(run: Run) -> None:
    for id, heard in run.heard.items():
        if usage := heard.last("usage"):
            assert run.records[id]["tokens"]["prompt"] == usage["prompt_tokens"]
            assert run.records[id]["tokens"]["output"] == usage["completion_tokens"]
    cached = sum(record["tokens"]["cached"] for record in run.records.values())
    assert cached == run.grown["vllm:prefix_cache_hits_total"]


def test_ttft_is_the_clients_own(run: Run) -> None:
    run.has_the_clients_ttft()


def test_phases_before_the_first_token_add_up_to_ttft(run: Run) -> None:
    run.has_phases_that_add_up_to_ttft()


def test_the_sum_is_kept_and_no_report_is_contradicted(run: Run) -> None:
    run.has_kept_sums_and_no_contradiction()


def test_two_choices_do_not_confuse_it(proxy: Phasegate) -> None:
    messages: Any = [{"role": "user", "content": "How is the weather in Bern?"}]
    with OpenAI(base_url=proxy.url + "/v1", api_key="none", max_retries=0) as client:
        two = client.chat.completions.create(
            model=MODEL, messages=messages, n=2, max_tokens=8, stream=True, extra_headers={"x-request-id": "two"}
        )
        assert {choice.index for chunk in two for choice in chunk.choices} == {0, 1}
    found = compare.records(proxy, ["two"])["two"]
    assert found["outcome"] == "completed"
    assert compare.sums(found)
    assert "prefill" not in found["phases"], "the engine gives no figures for several choices"
    assert found["tpot_s"] is None


def test_a_tool_call_is_an_answer_whole_and_in_pieces(proxy: Phasegate) -> None:
    """The call is asked for by name: a model of this size writes none of its own will."""
    place = {"type": "object", "properties": {"place": {"type": "string", "enum": ["Bern", "Rome"]}}}
    tool = {"type": "function", "function": {"name": "weather", "parameters": {**place, "required": ["place"]}}}
    said: dict[str, Any] = {
        "model": MODEL, "messages": [{"role": "user", "content": "How is the weather in Bern?"}], "max_tokens": 200,
        "tools": [tool], "tool_choice": {"type": "function", "function": {"name": "weather"}}, "temperature": 0,
    }  # fmt: skip
    with OpenAI(base_url=proxy.url + "/v1", api_key="none", max_retries=0) as client:
        whole = client.chat.completions.create(**said, extra_headers={"x-request-id": "call"})
        pieces = client.chat.completions.create(**said, stream=True, extra_headers={"x-request-id": "calls"})
        deltas = [choice.delta for chunk in pieces for choice in chunk.choices]
    assert [call.function.name for call in whole.choices[0].message.tool_calls or ()] == ["weather"]
    assert "weather" in {call.function.name for delta in deltas for call in delta.tool_calls or () if call.function}
    assert not any(delta.content for delta in deltas)
    found = compare.records(proxy, ["call", "calls"])
    for record in found.values():
        assert record["outcome"] == "completed"
        assert compare.sums(record)
        assert record["phases"]["prefill"]["source"] == "vllm.metrics"
    assert found["calls"]["ttft_s"] > 0, "the name of the function is its first token"
    assert found["call"]["ttft_s"] is None


def test_the_anthropic_library_works_through_it(proxy: Phasegate) -> None:
    with anthropic.Anthropic(base_url=proxy.url, api_key="none", max_retries=0) as client:
        said: Any = {"model": MODEL, "max_tokens": 8, "messages": [{"role": "user", "content": "Hello"}]}
        whole = client.messages.create(**said, extra_headers={"x-request-id": "whole"})
        assert whole.usage.output_tokens
        with client.messages.stream(**said, extra_headers={"x-request-id": "stream"}) as stream:
            final = stream.get_final_message()
    found = compare.records(proxy, ["whole", "stream"])
    assert {record["outcome"] for record in found.values()} == {"completed"}
    assert found["stream"]["tokens"]["output"] == final.usage.output_tokens
    assert found["stream"]["ttft_s"] > 0


def test_a_client_that_leaves_is_a_record_and_ends_the_work(telling: Engine, proxy: Phasegate) -> None:
    said = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 3000, "ignore_eos": True}
    with httpx.stream(
        "POST", proxy.url + "/v1/completions", json={**said, "stream": True}, headers={"x-request-id": "left"}
    ) as response:
        assert next(response.iter_raw())
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(proxy.url + "/v1/completions", json=said, headers={"x-request-id": "impatient"}, timeout=1)
    found = compare.records(proxy, ["left", "impatient"])
    assert {record["outcome"] for record in found.values()} == {"client_gone"}
    until(lambda: totals(telling)["vllm:num_requests_running"] == 0, 10)


def test_the_engines_means_stand_beside_ours(run: Run, proxy: Phasegate) -> None:
    until(lambda: bool(proxy.engines()[0].get("means")), 30, lambda: str(proxy.engines()[0]))
    assert proxy.engines()[0]["kind"] == "vllm"


def test_a_killed_engine_breaks_its_answers_off_and_is_known_again(telling: Engine, proxy: Phasegate) -> None:
    said = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 3000, "ignore_eos": True, "stream": True}
    headers = {"x-request-id": "cut"}
    with httpx.stream("POST", proxy.url + "/v1/completions", json=said, headers=headers) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        telling.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    assert compare.records(proxy, ["cut"])["cut"]["outcome"] == "truncated"
    until(lambda: not proxy.ready, 20)
    second = Engine("vllm", *TELLING, port=telling.port)
    try:
        until(lambda: proxy.ready, 20)
        again = {"model": MODEL, "prompt": "a", "max_tokens": 2}
        answer = httpx.post(proxy.url + "/v1/completions", json=again, headers={"x-request-id": "again"}, timeout=60)
        assert answer.status_code == 200
        record = compare.records(proxy, ["again"])["again"]
        assert record["outcome"] == "completed"
        assert "prefill" in record["phases"]
    finally:
        second.stop()


# --- without any flag, and short of memory -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(need: Callable[[str], None]) -> Iterator[Engine]:
    need("vllm")
    started = Engine("vllm", *TIGHT)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def plain_proxy(plain: Engine, gate: Gate) -> Phasegate:
    return gate(plain.url)


def test_without_flags_phases_are_joint_or_unknown_and_never_a_guess(plain: Engine, plain_proxy: Phasegate) -> None:
    made = asks(random.Random(7), "plain", 24, PER_SECOND)
    heard = {one.ask.id: one for one in load.run(plain_proxy.url, made)}
    found = compare.records(plain_proxy, heard)
    for id, record in found.items():
        assert record["outcome"] == "completed"
        assert compare.sums(record)
        own = {"proxy", "delivery", "unattributed"}
        known = {"frontend", "queue_prefill", "decode"} if heard[id].ask.streams else {"engine"}
        assert record["phases"].keys() <= own | known, id


def test_preempted_requests_are_whole_and_their_sums_are_kept(plain: Engine, plain_proxy: Phasegate) -> None:
    before = totals(plain)["vllm:num_preemptions_total"]
    rng = random.Random(5)
    said: dict[str, Any] = {"model": MODEL, "max_tokens": 220, "ignore_eos": True, "stream": True}
    made = [Ask(f"tight-{n}", "/v1/completions", {**said, "prompt": load.prompt(rng, 40)}) for n in range(4)]
    load.run(plain_proxy.url, made)
    assert totals(plain)["vllm:num_preemptions_total"] > before
    for record in compare.records(plain_proxy, [ask.id for ask in made]).values():
        assert record["outcome"] == "completed"
        assert record["tokens"]["output"] == 220
        assert compare.sums(record)
