"""What `phasegate probe` measures."""

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from proxy.cli import UNREACHABLE, USAGE
from proxy.cli.probing import ASKS, BUDGET_S, LONG, OUTPUT, ROUNDS, SHORT, Probe, ProbeError, Result
from tests.support.clock import VirtualLoop, run
from tests.support.hostile import ESCAPE
from tests.support.house import URL, House
from tests.support.pages import ollama, serving
from tests.support.script import NOT_FOUND, OK, Call, Read, Script
from tests.support.streams import DONE, MS, NDJSON, SSE, chunk, plain

OVERHEAD_MS = 20


def usage(prompt: int, output: int) -> bytes:
    said = {"prompt_tokens": prompt, "completion_tokens": output, "prompt_tokens_details": {"cached_tokens": 0}}
    return b"data: " + json.dumps({"choices": [], "usage": said}).encode() + b"\n\n"


def engine(call: Call) -> Script:
    """Four bytes of body are a token; a prompt token takes 1 ms, an output token 10 ms."""
    prompt, output = int(call.header("content-length") or 0) // 4, OUTPUT
    first = OVERHEAD_MS + prompt
    tokens = [Read((first + 10 * number) * MS, chunk(" a")) for number in range(output)]
    last = (first + 10 * output) * MS
    end = Read(last, chunk(finish="length") + usage(prompt, output) + DONE)
    return Script(headers=SSE, reads=(*tokens, end))


def lists(*models: str, **more: object) -> Callable[[Call], Script]:
    """Answers look-ups with a list of models."""

    def look(call: Call) -> Script:
        entries = [{"id": model, "owned_by": "somebody", **more} for model in models]
        return plain(200, {"data": entries}) if call.target == "/v1/models" else NOT_FOUND

    return look


TWO = lists("m1", "m2")


def probed(
    script: Script | Callable[[Call], Script] = engine,
    looks: Callable[[Call], Script] = TWO,
    model: str | None = None,
    kind: str = "openai",
) -> tuple[Result, House]:
    random.seed(1)  # the engine counts bytes, and the words of a prompt differ in length

    async def main(loop: VirtualLoop) -> tuple[Result, House]:
        house = House(loop, script, looks=looks, upstream=[{"url": URL, "kind": kind}])
        return await Probe(house.app, loop.clock, house.records, print).run(model), house  # type: ignore[arg-type]

    return run(main)


def failure(*what: object, **how: object) -> ProbeError:
    with pytest.raises(ProbeError) as caught:
        probed(*what, **how)  # type: ignore[arg-type]
    return caught.value


def test_short_and_long_prompts_are_timed_apart() -> None:
    result, _ = probed()
    assert result.short.prompt_tokens == pytest.approx(SHORT, rel=0.15)
    assert result.long.prompt_tokens == pytest.approx(LONG, rel=0.15)
    assert (result.short.output_tokens, result.long.output_tokens) == (OUTPUT, OUTPUT)
    assert result.short.ttft_s == pytest.approx((OVERHEAD_MS + result.short.prompt_tokens) / 1e3)
    assert result.long.ttft_s == pytest.approx((OVERHEAD_MS + result.long.prompt_tokens) / 1e3)
    assert result.long.decode_rate == pytest.approx(100)


def test_what_the_engine_does_not_say_is_unknown() -> None:
    seen = probed()[0].long
    assert (seen.waiting_s, seen.prefill_rate) == (None, None)


def ollamas(call: Call) -> Script:
    """Reads four bytes a millisecond, writes a token in ten, and says both; what was cached it never says."""
    prompt = int(call.header("content-length") or 0) // 4
    first, last = OVERHEAD_MS + prompt, OVERHEAD_MS + prompt + 10 * OUTPUT
    durations = {"total_duration": last * MS, "prompt_eval_duration": prompt * MS, "eval_duration": 10 * OUTPUT * MS}
    counts = {"prompt_eval_count": prompt, "eval_count": OUTPUT, "load_duration": MS}
    lines = [(first, {"response": " a", "done": False}), (last, {"done": True, **durations, **counts})]
    return Script(headers=NDJSON, reads=tuple(Read(at * MS, json.dumps(line).encode() + b"\n") for at, line in lines))


def test_all_of_a_new_prompt_is_fresh_where_the_engine_does_not_say_what_was_cached() -> None:
    result, _ = probed(ollamas, looks=serving({"engine.test:8000": ollama(m1="w")}), kind="auto")
    assert result.engine == "ollama"
    assert result.long.prefill_rate == pytest.approx(1000)


def templated(*, cached: int | None) -> Callable[[Call], Script]:
    """llama.cpp, of whose prompts all but this many tokens come out of its cache: it reads one a millisecond."""

    def answer(call: Call) -> Script:
        fresh = 30 if cached is None else int(call.header("content-length") or 0) // 4 - cached
        reads = [Read((OVERHEAD_MS + fresh + 10 * number) * MS, chunk(" a")) for number in range(OUTPUT)]
        timings = {"prompt_ms": fresh, "predicted_ms": 10 * OUTPUT, "predicted_n": OUTPUT}
        said = timings if cached is None else {**timings, "prompt_n": fresh, "cache_n": cached}
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}], "timings": said}
        end = Read((OVERHEAD_MS + fresh + 10 * OUTPUT) * MS, b"data: " + json.dumps(last).encode() + b"\n\n" + DONE)
        return Script(headers=SSE, reads=(*reads, end))

    return answer


def test_prefill_is_the_speed_of_tokens_that_were_not_cached() -> None:
    seen = probed(templated(cached=31))[0].short
    assert (seen.cached_tokens, seen.prefill_rate) == (31, pytest.approx(1000))
    silent = probed(templated(cached=None))[0].short
    assert (silent.cached_tokens, silent.prefill_rate) == (None, None)


def test_a_gateway_is_named_by_the_engine_that_it_says_has_the_model() -> None:
    def look(call: Call) -> Script:
        entries = [{"id": "m1", "owned_by": "llamacpp"}, {"id": "m2", "owned_by": "library"}]
        return plain(200, {"data": entries}) if call.target == "/v1/models" else NOT_FOUND

    named = [probed(looks=look, model=model)[0] for model in ("m1", "m2", "m3")]
    assert [(it.engine, it.gateway) for it in named] == [("llamacpp", True), ("ollama", True), ("openai", False)]
    assert (probed()[0].engine, probed()[0].gateway) == ("openai", False)


def test_no_prompt_begins_like_another() -> None:
    _, house = probed()
    starts = {tuple(json.loads(call.body)["messages"][0]["content"].split()[:16]) for call in house.calls}
    assert len(starts) == len(house.calls)


def test_rounds_end_with_the_budget() -> None:
    result, house = probed()
    spent_s = (house.calls[-1].at_ns - house.calls[0].at_ns) / 1e9
    assert 1 < result.rounds <= ROUNDS
    assert spent_s < BUDGET_S
    assert len(house.calls) == 2 + 2 * result.rounds


def test_a_slow_engine_gets_one_round() -> None:
    def slow(call: Call) -> Script:
        script = engine(call)
        return replace(script, reads=tuple(replace(read, at_ns=10 * read.at_ns) for read in script.reads))

    assert probed(slow)[0].rounds == 1


def test_it_asks_the_first_model_listed_unless_told() -> None:
    assert probed()[0].model == "m1"
    assert probed(model="m2")[0].model == "m2"


def test_a_waiting_person_hears_of_every_round(capsys: pytest.CaptureFixture[str]) -> None:
    result, _ = probed()
    first, *rounds = capsys.readouterr().out.splitlines()
    assert first == "warming up m1 on openai"
    assert [line.split()[1] for line in rounds] == [str(number + 1) for number in range(result.rounds)]


def test_the_rates_of_all_rounds_have_a_span() -> None:
    span = probed()[0].long.decode_span
    assert span == (pytest.approx(100), pytest.approx(100))


def test_a_small_window_makes_the_long_prompt_fit() -> None:
    result, _ = probed(looks=lists("m1", max_model_len=1000))
    assert result.long.prompt_tokens <= 1000 - OUTPUT


def test_silence_about_models_is_a_matter_of_usage() -> None:
    error = failure(looks=lists())
    assert error.code == USAGE
    assert "name one with --model" in str(error)


def test_an_engine_that_does_not_answer_is_unreachable() -> None:
    error = failure(looks=lambda call: Script(ending="refuse"))
    assert error.code == UNREACHABLE
    assert "no engine answers" in str(error)


def test_a_refusal_is_a_matter_of_usage_and_says_why() -> None:
    error = failure(plain(404, {"error": {"message": "no such model"}}))
    assert error.code == USAGE
    assert "no such model" in str(error)


def test_a_broken_answer_is_an_engine_out_of_reach() -> None:
    assert failure(replace(OK, ending="reset")).code == UNREACHABLE


def test_an_answer_without_a_token_event_says_nothing() -> None:
    assert failure(OK).code == UNREACHABLE


def test_without_usage_the_prompt_is_as_long_as_counted() -> None:
    def silent(call: Call) -> Script:
        script = engine(call)
        end = replace(script.reads[-1], data=chunk(finish="length") + DONE)
        return replace(script, reads=(*script.reads[:-1], end))

    seen = probed(silent)[0].long
    assert seen.output_tokens is None
    assert seen.prompt_tokens > 500


@pytest.mark.parametrize("kind", ASKS)
def test_every_kind_of_engine_is_asked_for_a_stream_of_that_length(kind: str) -> None:
    path, body = ASKS[kind]("m", "some text", 24)
    assert path.startswith("/")
    assert body["stream"] is True
    assert "24" in json.dumps(body)
    assert "some text" in json.dumps(body)


def test_of_an_answer_only_its_beginning_is_kept() -> None:
    refusal = plain(400, {"error": ESCAPE + "x" * 10_000_000})
    assert len(str(failure(refusal))) < 400
