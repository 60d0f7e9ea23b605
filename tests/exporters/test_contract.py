import json

import pytest

from proxy.exporters.contract import fresh_tokens, to_dict, to_json
from proxy.records import (
    AdmissionVerdict,
    Class,
    EngineReport,
    Gaps,
    Inferred,
    Outcome,
    Phase,
    PhaseBreakdown,
    PrefixVerdict,
    TokenCount,
    Usage,
)
from tests.support.records import record, timeline

KEYS = [
    *("v", "id", "at", "engine", "model", "dialect", "kind", "route", "stream", "tenant", "outcome", "status"),
    *("total_s", "ttfb_s", "ttft_s", "answer_ttft_s", "tpot_s", "blocked_s", "phases", "rates", "tokens", "admission"),
    *("findings", "itl_s"),
]


def test_the_keys_are_the_contract_s_and_times_are_seconds() -> None:
    row = to_dict(record())
    assert list(row) == KEYS
    assert (row["v"], row["total_s"], row["ttft_s"], row["itl_s"]["max"]) == (1, 0.77, 0.3, 0.01)
    assert row["phases"]["queue_prefill"] == {"s": 0.299, "class": "derived", "source": "clock", "error_s": 1e-6}


def test_phases_stand_in_the_order_of_life_and_sum_to_the_total() -> None:
    row = to_dict(record())
    assert list(row["phases"]) == ["proxy", "queue_prefill", "decode"]
    assert sum(phase["s"] for phase in row["phases"].values()) == pytest.approx(row["total_s"], abs=1e-9)


def test_unknown_is_null_and_what_does_not_apply_is_absent() -> None:
    never = timeline(gaps_ms=(), first_token_ns=None, first_answer_ns=None, streamed=False)
    row = to_dict(record(timeline=never, usage=None))
    assert row["ttft_s"] is None
    assert row["tokens"] == {"prompt": None, "cached": None, "fresh": None, "output": None, "class": "unknown"}
    assert not {"itl_s", "prefix", "error"} & row.keys()
    assert row["phases"]["decode"]["error_s"] is None


def test_a_failure_says_why() -> None:
    row = to_dict(record(outcome=Outcome.ENGINE_ERROR, status=500, error="out of memory"))
    assert (row["outcome"], row["error"]) == ("engine_error", "out of memory")


def test_all_that_was_decided_before_dispatch_is_in_it() -> None:
    row = to_dict(
        record(
            counted=TokenCount(603, "calibrated", 585, 621, 590),
            admission=AdmissionVerdict("queued", "concurrency", "rule-1", "enforce", 2_000_000_000, 5_000_000),
            prefix=PrefixVerdict(16, 600, 417, None, 417, (("hit", 400), ("compulsory", 200)), "f00", reported=400),
            usage=Usage(600, 48, 400, 12),
        )
    )
    assert row["tokens"]["counted"] == {"n": 603, "how": "calibrated", "band": [585, 621]}
    assert (row["tokens"]["fresh"], row["tokens"]["reasoning"]) == (200, 12)
    assert row["admission"]["waited_s"] == 2.0
    assert row["admission"]["predicted_ttft_s"] == 0.005
    assert (row["prefix"]["reported"], row["prefix"]["bins"]) == (400, {"hit": 400, "compulsory": 200})


def test_what_the_engine_says_of_a_part_is_not_reported_of_the_whole() -> None:
    assert to_dict(record(prefix=PrefixVerdict(16, 900), usage=Usage(600, 48, 400)))["prefix"]["reported"] is None


def test_what_is_inferred_of_the_cache_is_absent_where_nothing_is() -> None:
    told = to_dict(record(prefix=PrefixVerdict(1, 600, inferred=Inferred(400, 380, 420))))["prefix"]
    assert told["inferred"] == {"n": 400, "band": [380, 420]}
    assert "inferred" not in to_dict(record(prefix=PrefixVerdict(1, 600)))["prefix"]


def test_the_pace_of_a_client_that_reads_slowly_is_no_gap() -> None:
    row = to_dict(record(timeline=timeline(blocked_ns=1)))
    assert list(row) == KEYS
    assert (row["blocked_s"], row["itl_s"]) == (1e-9, None)


def test_gaps_of_several_choices_are_those_of_the_worst() -> None:
    both = timeline()._replace(gaps=(Gaps(0, 9, 90, 1, 2, 3), Gaps(1, 9, 90, 4, 5, 60)))
    assert to_dict(record(timeline=both))["itl_s"] == {"p50": 4e-9, "p99": 5e-9, "max": 6e-8}


@pytest.mark.parametrize(
    ("usage", "report", "fresh"),
    [
        pytest.param(Usage(100, 1, 60), EngineReport(source="x", fresh_tokens=39), 39, id="the engine's word"),
        pytest.param(Usage(100, 1, 60), None, 40, id="prompt less cached"),
        pytest.param(Usage(100, 1, 130), None, 0, id="never negative"),
        pytest.param(Usage(100, 1), EngineReport(source="x"), None, id="cached unknown"),
        pytest.param(None, None, None, id="nothing known"),
    ],
)
def test_fresh_tokens(usage: Usage | None, report: EngineReport | None, fresh: int | None) -> None:
    assert fresh_tokens(usage, report) == fresh


def test_the_line_is_the_same_record_as_json() -> None:
    assert json.loads(to_json(record())) == to_dict(record())


def test_what_was_asked_is_told_where_no_answer_came() -> None:
    unanswered = record(status=None, timeline=timeline(streamed=False))
    assert to_dict(unanswered)["stream"] is True


def test_a_phase_is_never_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        PhaseBreakdown((Phase("decode", -1, Class.MEASURED, "clock"),))
