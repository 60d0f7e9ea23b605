"""The readers over answers of real engines, recorded over loopback.

`golden/*.jsonl.gz`: one exchange a line: path, request body, status, content type, answer. Recorded on one 2-core
machine with SmolLM2-135M from vLLM 0.32.0, llama.cpp b10434, Ollama 0.33.0-rc2 and 0.17.4, and through routers.
`vllm_ids` has each request twice, the second time with `return_token_ids`.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proxy.events import NOTHING, Event, Frame, Reader
from proxy.records import EngineReport, RequestFacts, Usage
from proxy.wire.decoding import Unreadable
from proxy.wire.dialects import DIALECTS, reader_for
from proxy.wire.framing import framing_for, streams
from proxy.wire.passthrough import Passthrough, Refusals
from proxy.wire.request import read_facts
from proxy.wire.routes import INFERENCE, classify

LIMIT = 1 << 20
LONG = 4_000
"""Bytes above which a stream is cut at 100 places only, for time's sake; byte by byte always."""


class Exchange(NamedTuple):
    name: str
    path: str
    request: str
    status: int
    content_type: str
    aborted: bool
    body: str

    @property
    def facts(self) -> RequestFacts:
        return read_facts(classify("POST", self.path), "application/json", self.request.encode())

    def frames(self, pieces: list[bytes]) -> list[Frame]:
        framing = framing_for(self.content_type, LIMIT)
        return [frame for piece in pieces for frame in framing.feed(piece)] + [
            frame for frames in framing.close() for frame in frames
        ]

    def reader(self) -> Reader:
        return reader_for(self.facts, self.content_type, self.status)

    def events(self) -> list[Event]:
        reader = self.reader()
        return [reader.read(frame) for frame in self.frames([self.body.encode()])]


@cache
def recorded() -> dict[str, Exchange]:
    found = {}
    for file in sorted((Path(__file__).parent / "golden").glob("*.jsonl.gz")):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            exchange = Exchange(**json.loads(line))
            found[f"{file.name.partition('.')[0]}/{exchange.name}"] = exchange
    return found


STREAMS = [name for name, exchange in recorded().items() if streams(exchange.content_type)]
ALL = list(recorded())


@pytest.mark.parametrize("name", STREAMS)
def test_frames_are_the_same_at_every_cut_and_byte_by_byte(name):
    exchange = recorded()[name]
    body = exchange.body.encode()
    whole = exchange.frames([body])
    assert exchange.frames([body[at : at + 1] for at in range(len(body))]) == whole
    for at in range(0, len(body), 1 if len(body) < LONG else len(body) // 100):
        assert exchange.frames([body[:at], body[at:]]) == whole


def objects(exchange: Exchange) -> list[dict[str, Any]]:
    """The JSON objects of an answer, in the simplest way there is."""
    lines = [line.removeprefix("data: ") for line in exchange.body.splitlines() if line.startswith(("data: {", "{"))]
    return [json.loads(line) for line in lines]


def members(value: object, *names: str) -> list[Any]:
    """All values of these names, at any depth, in order; what only repeats them is left out."""
    if isinstance(value, list):
        return [found for each in value for found in members(each, *names)]
    if not isinstance(value, dict):
        return []
    kept = {key: each for key, each in value.items() if key not in ("logprobs", "__verbose")}
    return [found for key, each in kept.items() for found in [each] * (key in names) + members(each, *names)]


@pytest.mark.parametrize("name", [name for name in ALL if recorded()[name].status == 200])
def test_every_answer_is_read_to_its_end(name):
    exchange = recorded()[name]
    reader = exchange.reader()
    events = [reader.read(frame) for frame in exchange.frames([exchange.body.encode()])]
    assert all(event.error is None for event in events)
    openai = exchange.facts.dialect == "openai"
    assert reader.complete() is not (exchange.aborted and openai)
    assert bool(sum((event.tokens for event in events), ())) is streams(exchange.content_type)


@pytest.mark.parametrize("name", [name for name in STREAMS if recorded()[name].facts.dialect in ("openai", "ollama")])
def test_text_and_token_events_are_those_of_the_body(name):
    exchange = recorded()[name]
    events = exchange.events()
    pieces = ["".join(filter(None, members(each, "content", "response", "text"))) for each in objects(exchange)]
    assert "".join(event.text for event in events) == "".join(pieces)
    silent = members(objects(exchange), "thinking", "reasoning", "tool_calls")
    if not silent and "continuous_usage_stats" not in exchange.request:
        assert sum(bool(event.tokens) for event in events) == sum(map(bool, pieces))


def llama(prefill: int, decode: int, fresh: int, output: int, whole: bool = True) -> EngineReport:
    return EngineReport(
        source="llamacpp.timings",
        prefill_ns=prefill,
        decode_ns=decode,
        fresh_tokens=fresh,
        output_tokens=output,
        covers_all=whole,
    )


def vllm(queue: int, prefill: int, decode: int) -> EngineReport:
    return EngineReport(source="vllm.metrics", queue_ns=queue, prefill_ns=prefill, decode_ns=decode)


def ollama(total: int, load: int, prefill: int, decode: int) -> EngineReport:
    return EngineReport(source="ollama.durations", total_ns=total, load_ns=load, prefill_ns=prefill, decode_ns=decode)


FACTS: list[tuple[str, int, Usage | None, EngineReport | None, str | None]] = [
    ("llamacpp/17_chat_nonstream", 0, Usage(37, 24, 0), llama(177_863_000, 281_593_000, 37, 24), "length"),
    ("llamacpp/18_chat_stream", 24, Usage(37, 24, 36), llama(11_568_000, 282_803_000, 1, 24), "length"),
    ("llamacpp/19_chat_stream_usage", 24, Usage(37, 24, 36), llama(11_562_000, 274_611_000, 1, 24), "length"),
    (
        "llamacpp/20_chat_stream_timings_per_token",
        24,
        Usage(37, 24, 36),
        llama(11_600_000, 291_641_000, 1, 24),
        "length",
    ),
    (
        "llamacpp/21_chat_stream_return_progress",
        24,
        Usage(1287, 24, 0),
        llama(5_876_650_000, 420_733_000, 1287, 24),
        "length",
    ),
    ("llamacpp/24_chat_stream_n2", 28, Usage(35, 17, 24), llama(65_587_000, 321_982_000, 11, 17, False), "stop"),
    ("llamacpp/29_completions_stream", 16, Usage(4, 16, 0), llama(23_074_000, 183_515_000, 4, 16), "length"),
    ("llamacpp/32_native_completion_stream", 16, Usage(4, 16, 3), llama(8_986_000, 181_791_000, 1, 16), "limit"),
    (
        "llamacpp/33_native_completion_stream_tokens_timings",
        16,
        Usage(4, 16, 3),
        llama(9_291_000, 168_745_000, 1, 16),
        "limit",
    ),
    ("llamacpp/34_native_completion_nonstream", 0, Usage(4, 16, 3), llama(7_576_000, 124_383_000, 1, 16), "limit"),
    ("llamacpp/40_responses_stream", 24, Usage(37, 24, 24), llama(34_763_000, 281_976_000, 13, 24), "completed"),
    ("llamacpp/42_messages_stream", 24, Usage(37, 24, 36), None, "max_tokens"),
    ("llamacpp/66_client_abort_stream", 5, None, None, None),
    (
        "ollama/11_chat_stream_cold_load",
        7,
        Usage(16, 8),
        ollama(919_356_742, 815_887_138, 26_181_000, 73_762_000),
        "stop",
    ),
    ("ollama/14_chat_nonstream", 0, Usage(16, 8), ollama(82_981_592, 1_065_631, 10_391_000, 68_295_000), "stop"),
    ("ollama/16_generate_stream", 7, Usage(16, 8), ollama(84_598_235, 1_109_786, 9_902_000, 70_648_000), "stop"),
    ("ollama/20_generate_load_only", 0, None, None, "load"),
    ("ollama/89_unload_only", 0, None, None, "unload"),
    ("ollama/30_chat_debug_render_only", 0, None, None, None),
    ("ollama/32_v1_chat_stream", 7, None, None, "stop"),
    ("ollama/33_v1_chat_stream_usage", 7, Usage(16, 8), None, "stop"),
    ("ollama/36_v1_chat_stream_max_tokens_1", 1, Usage(16, 1), None, "length"),
    ("ollama/39_v1_completions_stream", 16, None, None, "length"),
    ("ollama/40_v1_completions_stream_usage", 16, Usage(13, 16), None, "length"),
    ("ollama/42_v1_responses_stream", 7, Usage(16, 8, None, 0), None, "completed"),
    ("ollama/44_v1_messages_stream", 7, Usage(16, 8), None, "end_turn"),
    (
        "ollama/92_chat_tool_result_turn",
        1,
        Usage(118, 18),
        ollama(264_856_888, 870_771, 96_238_000, 164_207_000),
        "stop",
    ),
    (
        "ollama/93_chat_thinking_stream",
        79,
        Usage(30, 80),
        ollama(795_759_433, 29_158_824, 33_884_000, 727_281_000),
        "length",
    ),
    ("ollama_0_17_4/04_chat_stream", 7, Usage(16, 8), ollama(330_069_555, 38_187_062, 36_471_372, 249_789_567), "stop"),
    ("routers/litellm-1.108.7_0", 7, Usage(37, 8, 32, 0), None, "stop"),
    ("routers/vllm-router-0.1.17_0", 7, Usage(37, 8, 32), vllm(24_808, 24_725_506, 154_426_375), "stop"),
    ("vllm/10_chat_nonstream", 0, Usage(37, 8, 0), vllm(31_226, 46_301_875, 153_103_891), "stop"),
    ("vllm/11_chat_stream", 7, None, None, "stop"),
    ("vllm/12_chat_stream_usage", 7, Usage(37, 8, 32), vllm(23_515, 21_466_924, 157_252_257), "stop"),
    ("vllm/13_chat_stream_continuous_usage", 8, Usage(37, 8, 32), vllm(24_177, 23_317_646, 147_415_362), "stop"),
    ("vllm/17_chat_stream_n2", 41, Usage(35, 42, 0), None, "length"),
    ("vllm/19_chat_stream_max_tokens_1", 1, Usage(37, 1, 32), vllm(24_056, 24_505_900, 0), "length"),
    ("vllm/25_completions_stream_multi_prompt", 16, Usage(7, 16, 0), None, "length"),
    (
        "vllm/27_chat_tools_required_stream",
        4,
        Usage(37, 48, 0),
        vllm(9_821_997, 49_020_090, 1_005_178_779),
        "tool_calls",
    ),
    ("vllm/31_responses_stream", 7, Usage(37, 8, 32, 0), vllm(23_706, 22_333_307, 145_351_041), "completed"),
    ("vllm/33_messages_stream", 7, Usage(37, 8, 32), None, "end_turn"),
    (
        "vllm/55_prefix_long_2_exact_repeat_nonstream",
        0,
        Usage(1414, 24, 1408),
        vllm(16_355, 28_848_409, 532_003_999),
        "length",
    ),
    ("vllm_defaults/stream_usage", 7, Usage(37, 8), None, "stop"),
    ("vllm_variants/busy_1", 34, Usage(34, 130, 0), vllm(1_941_326_852, 33_276_958, 1_994_805_004), "length"),
    ("vllm_preemption/preempt_0", 1150, Usage(36, 1150, 0), vllm(37_436, 44_183_363, 28_945_777_167), "length"),
]


@pytest.mark.parametrize(("name", "tokens", "usage", "report", "finish"), FACTS, ids=[row[0] for row in FACTS])
def test_the_figures_are_those_that_the_engine_said(name, tokens, usage, report, finish):
    events = recorded()[name].events()
    assert sum(bool(event.tokens) for event in events) == tokens
    assert [event.usage for event in events if event.usage][-1:] == [usage] * (usage is not None)
    assert [event.report for event in events if event.report][-1:] == [report] * (report is not None)
    ends = dict(end for event in events for end in event.finish)
    assert ends.get(0) == finish


def test_every_refusal_is_told_by_its_kind():
    refused = [exchange for exchange in recorded().values() if exchange.status >= 400]
    assert len(refused) > 30
    for exchange in refused:
        [event] = exchange.events()
        assert event.error is not None
        assert not event.error or f'"{event.error}"' in exchange.body


def test_the_status_the_route_and_the_content_type_choose_the_reader():
    facts = RequestFacts("openai", "chat", "inference")
    assert isinstance(reader_for(facts, "text/event-stream", 503), Refusals)
    assert isinstance(reader_for(RequestFacts("ollama", "models", "read"), "application/json", 200), Passthrough)
    assert isinstance(reader_for(RequestFacts("nobody", "x", "inference"), "application/json", 200), Passthrough)
    assert isinstance(reader_for(facts, "application/json", 307), Passthrough)
    assert not reader_for(facts, "text/event-stream; charset=utf-8", 200).complete()
    assert reader_for(facts, "application/json", 200).complete()


@pytest.mark.parametrize(("content_type", "events"), [("application/json", None), ("text/html", 0), ("", 0)])
def test_a_page_holds_no_event_that_could_not_be_read(content_type, events):
    reader = reader_for(RequestFacts("openai", "chat", "inference"), content_type, 200)
    if events is None:
        with pytest.raises(Unreadable):
            reader.read(Frame(b"<html>"))
    else:
        assert reader.read(Frame(b"<html>")) == NOTHING
    body = b'{"choices":[{"index":0,"message":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}'
    assert reader.read(Frame(body)).usage == Usage(3, 1)
    assert reader.complete()


def test_every_dialect_of_a_route_has_a_reader():
    assert {dialect for dialect, _ in INFERENCE.values()} == set(DIALECTS)
