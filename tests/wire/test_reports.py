import pytest
from hypothesis import given

from proxy.records import EngineReport, Usage
from proxy.wire import reports
from tests.wire.test_fields import JSON


def test_a_statement_is_completed_and_never_overruled():
    assert reports.completed(Usage(9, None, 0), Usage(1, 2, 3, 4)) == Usage(9, 2, 0, 4)
    assert reports.completed(None, Usage(1)) == Usage(1)
    assert reports.completed(None, Usage()) is None


def test_units_are_those_of_each_engine():
    assert reports.vllm_report({"queue_time_ms": 0.023515}, True) == EngineReport(
        source="vllm.metrics", queue_ns=23_515
    )
    counters = reports.OllamaCounters(total_duration=7)
    assert reports.ollama_report(counters, False) == EngineReport(source="ollama.durations", total_ns=7, load_ns=0)
    assert reports.sglang_report({"queue_time": 0.5}, True) == EngineReport(
        source="sglang.meta_info", queue_ns=500_000_000
    )
    assert reports.llamacpp_report({"prompt_ms": 0.001}, False) == EngineReport(
        source="llamacpp.timings", prefill_ns=1_000, covers_all=False
    )


@pytest.mark.parametrize("nothing", [None, {}, [], "x", {"queue_time_ms": None, "prompt_ms": "3", "queue_time": -1}])
def test_nothing_said_is_nothing_reported(nothing):
    assert reports.vllm_report(nothing, True) is None
    assert reports.sglang_report(nothing, True) is None
    assert reports.openai_usage(nothing) is None
    assert reports.sglang_usage(nothing) is None
    assert reports.anthropic_usage(nothing) is None
    assert reports.responses_usage(nothing, True) is None
    assert reports.llamacpp_usage(nothing) == Usage()
    assert reports.predicted(nothing) is None


def test_without_timings_llamacpp_reports_nothing():
    assert reports.llamacpp_report(None, True) is None
    assert reports.llamacpp_report({}, True) is None


def test_a_prompt_is_not_what_was_processed_alone():
    assert reports.llamacpp_usage({"prompt_n": 30, "predicted_n": 200}) == Usage(None, 200)
    assert reports.llamacpp_usage({"prompt_n": 30, "cache_n": 70}) == Usage(100, None, 70)


@given(JSON)
def test_whatever_is_stated_nothing_raises_and_nothing_is_negative(stated):
    found = [
        reports.vllm_report(stated, True),
        reports.sglang_report(stated, True),
        reports.llamacpp_report({"prompt_ms": stated, "predicted_ms": stated, "prompt_n": stated}, True),
        reports.ollama_report(reports.OllamaCounters(*[stated] * 6), True),
        reports.sglang_report(dict.fromkeys(["queue_time", "e2e_latency", "forward_entry_time"], stated), True),
    ]
    for report in filter(None, found):
        values = [report.total_ns, report.queue_ns, report.prefill_ns, report.decode_ns, report.fresh_tokens]
        assert all(value is None or value >= 0 for value in values)
