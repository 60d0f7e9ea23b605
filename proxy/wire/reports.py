"""What an engine claims about one request, in whatever place its dialect has for it: `Usage`, `EngineReport`, errors.

Units differ: Ollama's durations are nanoseconds, llama.cpp's and vLLM's milliseconds, SGLang's seconds. Absent is
unknown and never zero, with one exception: Ollama leaves a zero out (see `ollama_report`).
"""

import re
from typing import Any

import msgspec

from proxy.records import EngineReport, Usage
from proxy.wire.fields import NS_PER_MS, NS_PER_S, between_ns, count, duration_ns, mapping, text

KINDS = ("err_type", "type", "error_type", "code")
"""Members that name what kind of error it is: SGLang's first, of whose `type` all aborts have the same."""
_KIND = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def complaint(stated: object) -> str:
    """The kind of an engine's error in its own short word, `BadRequestError`; empty where it has none.

    Never its message, nor anything else in words: that may repeat the prompt.
    """
    error = mapping(stated)
    places = (mapping(error.get("error")), mapping(error.get("detail")), error)
    words = (text(place.get(name)) for place in places for name in KINDS)
    return next((word for word in words if _KIND.fullmatch(word)), "")


def known(usage: Usage) -> Usage | None:
    """The same, or None where nothing in it is known."""
    return None if usage == Usage() else usage


def completed(usage: Usage | None, more: Usage) -> Usage | None:
    """A statement of usage, with what it leaves open taken from `more`."""
    return known(more if usage is None else usage.over(more))


def openai_usage(stated: object) -> Usage | None:
    """OpenAI's `usage`; None where there is none. Zeros alone are no statement: Ollama prints them on every chunk."""
    usage = mapping(stated)
    reasoning = mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")
    found = Usage(
        prompt_tokens=count(usage.get("prompt_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        cached_tokens=count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        reasoning_tokens=count(usage.get("reasoning_tokens") if reasoning is None else reasoning),
    )
    return known(found) if found.prompt_tokens or found.output_tokens else None


def responses_usage(stated: object, trusted: bool) -> Usage | None:
    """Usage of a Responses object.

    A bare `cached_tokens: 0` is believed only where other figures show that the engine counts (`trusted`, or more
    members beside it): Ollama prints this zero as a constant.
    """
    usage = mapping(stated)
    details = mapping(usage.get("input_tokens_details"))
    cached = count(details.get("cached_tokens"))
    if cached == 0 and not trusted and len(details) == 1:
        cached = None
    return known(
        Usage(
            prompt_tokens=count(usage.get("input_tokens")),
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=cached,
            reasoning_tokens=count(mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
        )
    )


def anthropic_usage(stated: object) -> Usage | None:
    """Anthropic's usage: `input_tokens` leaves out what the cache gave and took, so the prompt is the sum of three."""
    usage = mapping(stated)
    fresh = count(usage.get("input_tokens"))
    cached = count(usage.get("cache_read_input_tokens"))
    created = count(usage.get("cache_creation_input_tokens"))
    return known(
        Usage(
            prompt_tokens=None if fresh is None else fresh + (cached or 0) + (created or 0),
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=cached,
        )
    )


class OllamaCounters(msgspec.Struct):
    """The counters of Ollama's last object, as sent."""

    total_duration: Any = None
    load_duration: Any = None
    prompt_eval_count: Any = None
    prompt_eval_duration: Any = None
    eval_count: Any = None
    eval_duration: Any = None


def ollama_usage(said: OllamaCounters) -> Usage | None:
    """Token counts; an absent one is unknown, for a zero and an uncounted prompt look the same."""
    return known(Usage(prompt_tokens=count(said.prompt_eval_count), output_tokens=count(said.eval_count)))


def ollama_report(said: OllamaCounters, generates: bool) -> EngineReport | None:
    """Durations in nanoseconds. Beside a total, an absent duration is zero (`omitempty`), where the route has it.

    Without a total it is unknown: look-alikes send none, and `load` and `unload` objects have no counters.
    """
    total = duration_ns(said.total_duration, 1)
    absent = 0 if total is not None else None
    work = absent if generates else None
    report = EngineReport(
        source="ollama.durations",
        total_ns=total,
        load_ns=_or_absent(said.load_duration, absent),
        prefill_ns=_or_absent(said.prompt_eval_duration, work),
        decode_ns=_or_absent(said.eval_duration, work),
    )
    return None if report == EngineReport(source="ollama.durations") else report


def _or_absent(stated: object, absent: int | None) -> int | None:
    return absent if stated is None else duration_ns(stated, 1)


def predicted(stated: object) -> int | None:
    """Tokens written by now, in llama.cpp's `timings`. While there are none its other figures are half done: with
    `return_progress` they come during prefill too."""
    return count(mapping(stated).get("predicted_n"))


def llamacpp_usage(stated: object) -> Usage:
    """Counts in llama.cpp's `timings`: the prompt is what was reused and what was processed."""
    timings = mapping(stated)
    cached, fresh = count(timings.get("cache_n")), count(timings.get("prompt_n"))
    return Usage(
        prompt_tokens=None if cached is None or fresh is None else cached + fresh,
        output_tokens=count(timings.get("predicted_n")),
        cached_tokens=cached,
    )


def llamacpp_report(stated: object, covers_all: bool) -> EngineReport | None:
    """llama.cpp's `timings`, milliseconds: `prompt_ms` is prefill, `predicted_ms` decode."""
    timings = mapping(stated)
    if not timings:
        return None
    return EngineReport(
        source="llamacpp.timings",
        prefill_ns=duration_ns(timings.get("prompt_ms"), NS_PER_MS),
        decode_ns=duration_ns(timings.get("predicted_ms"), NS_PER_MS),
        fresh_tokens=count(timings.get("prompt_n")),
        output_tokens=count(timings.get("predicted_n")),
        covers_all=covers_all,
    )


def vllm_report(stated: object, covers_all: bool) -> EngineReport | None:
    """vLLM's `metrics`, milliseconds. Its `time_to_first_token_ms` starts when the scheduler takes the request up:
    it is prefill, not what Prometheus calls by nearly the same name."""
    metrics = mapping(stated)
    report = EngineReport(
        source="vllm.metrics",
        queue_ns=duration_ns(metrics.get("queue_time_ms"), NS_PER_MS),
        prefill_ns=duration_ns(metrics.get("time_to_first_token_ms"), NS_PER_MS),
        decode_ns=duration_ns(metrics.get("generation_time_ms"), NS_PER_MS),
        covers_all=covers_all,
    )
    return None if report == EngineReport(source="vllm.metrics", covers_all=covers_all) else report


def sglang_usage(stated: object) -> Usage | None:
    """Counts in SGLang's `meta_info`."""
    info = mapping(stated)
    return known(
        Usage(
            prompt_tokens=count(info.get("prompt_tokens")),
            output_tokens=count(info.get("completion_tokens")),
            cached_tokens=count(info.get("cached_tokens")),
            reasoning_tokens=count(info.get("reasoning_tokens")),
        )
    )


def sglang_report(stated: object, covers_all: bool) -> EngineReport | None:
    """SGLang's `meta_info`: durations in seconds, and stamps of its own clock, of which only differences are used.

    Names as of 0.5.12; 0.5.8 called two of the stamps otherwise.
    """
    info = mapping(stated)
    first = info.get("prefill_finished_time", info.get("prefill_finished_ts"))
    last = info.get("request_finished_ts", info.get("decode_finished_ts"))
    report = EngineReport(
        source="sglang.meta_info",
        total_ns=duration_ns(info.get("e2e_latency"), NS_PER_S),
        frontend_ns=between_ns(info.get("request_received_ts"), info.get("api_server_dispatch_finish_ts")),
        queue_ns=duration_ns(info.get("queue_time"), NS_PER_S),
        prefill_ns=between_ns(info.get("forward_entry_time"), first),
        decode_ns=between_ns(first, last),
        covers_all=covers_all,
    )
    return None if report == EngineReport(source="sglang.meta_info", covers_all=covers_all) else report
