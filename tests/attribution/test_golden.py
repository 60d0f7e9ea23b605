"""Runs of real engines, replayed: the phases against the truth that the engine itself logged."""

import pytest

from proxy.attribution.ladder import attribute
from proxy.engines.runners import Runners
from proxy.records import Class, Evidence, Finished, PhaseBreakdown
from tests.attribution.recorded import Row, finished, replay, rows


def seconds(breakdown: PhaseBreakdown, *names: str) -> float:
    return sum(phase.ns for phase in breakdown.phases if phase.name in names) / 1e9


def names(breakdown: PhaseBreakdown) -> list[str]:
    return [phase.name for phase in breakdown.phases]


def p95(errors: list[float]) -> float:
    return sorted(errors)[-(-95 * len(errors) // 100) - 1]


def settled(name: str, runners: Runners) -> list[tuple[Row, Finished, PhaseBreakdown]]:
    all_of_it = [(row, done, attribute(done)) for row, done in replay(rows(name), runners)]
    for _, done, breakdown in all_of_it:
        assert sum(phase.ns for phase in breakdown.phases) == done.timeline.total_ns
    return all_of_it


@pytest.mark.parametrize("given", [True, False], ids=["slots set", "slots learnt"])
@pytest.mark.parametrize("slots", [1, 2, 4])
def test_ollama_native_waits_are_true_to_3_ms(slots: int, given: bool) -> None:
    runners = Runners("ollama", "0.33.0-rc2", slots if given else None)
    errors = []
    for row, done, breakdown in settled(f"ollama_{slots}", runners):
        if done.report is None or row["truth"] is None:
            continue
        errors.append(abs(seconds(breakdown, "frontend", "load", "queue") - row["truth"]["queue_s"]))
        assert seconds(breakdown, "prefill") == pytest.approx(row["report"]["prompt_eval_duration"] / 1e9, abs=1e-9)
        assert seconds(breakdown, "decode") == pytest.approx(row["report"]["eval_duration"] / 1e9, abs=1e-9)
        assert breakdown.findings == ()
        assert ("queue" in names(breakdown)) <= (done.evidence.ahead >= slots or not given)
    assert len(errors) >= 35
    assert p95(errors) <= 0.003


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_slots_of_ollama_are_learnt_from_traffic(slots: int) -> None:
    *_, (_, last, _) = settled(f"ollama_{slots}", Runners("ollama", "0.33.0-rc2"))
    assert last.evidence.slots == slots


def test_ollama_v1_is_joint_and_its_decode_is_by_our_clock() -> None:
    for row, done, breakdown in settled("ollama_2", Runners("ollama", None, 2)):
        if not row["path"].startswith("/v1/") or row["aborted"]:
            continue
        assert not {"queue", "prefill", "load"} & set(names(breakdown))
        if row["stream"]:
            assert seconds(breakdown, "queue_prefill") == pytest.approx(row["first"], abs=1e-9)
            # The end token has no text: our clock sees one step less.
            step = row["truth"]["decode_s"] / row["tokens"]
            assert seconds(breakdown, "decode") == pytest.approx(row["truth"]["decode_s"], abs=0.01 + 2 * step)
        else:
            assert seconds(breakdown, "engine") == pytest.approx(row["end"], abs=1e-9)
        assert done.report is None


def test_llamacpp_queue_is_true_to_10_ms_on_streams() -> None:
    errors, rests = [], []
    for row, done, breakdown in settled("llamacpp", Runners("llamacpp", None, 2)):
        if done.report is None:
            continue
        assert seconds(breakdown, "prefill") == pytest.approx(row["report"]["prompt_ms"] / 1e3, abs=1e-9)
        assert seconds(breakdown, "decode") == pytest.approx(row["report"]["predicted_ms"] / 1e3, abs=1e-9)
        if row["stream"]:
            errors.append(abs(seconds(breakdown, "queue") - row["truth"]["queue_s"]))
            rests.append(seconds(breakdown, "step_wait", "delivery", "unattributed"))
        else:
            assert seconds(breakdown, "queue") == pytest.approx(row["truth"]["queue_s"], abs=0.001)
        assert breakdown.findings == ()
    assert len(errors) >= 30
    assert p95(errors) <= 0.010
    assert p95(rests) <= 0.020


def test_llamacpp_of_several_choices_is_joint_after_its_queue() -> None:
    assert names(one("llamacpp/24_chat_stream_n2")) == ["proxy", "queue", "prefill_decode", "delivery"]


@pytest.mark.parametrize("run", ["vllm", "vllm_small_kv"])
def test_vllm_phases_are_its_metrics(run: str) -> None:
    seen = 0
    for row, done, breakdown in settled(run, Runners("vllm", "0.32.0")):
        if done.report is None:
            continue
        seen += 1
        assert breakdown.findings == (), row["id"]
        assert seconds(breakdown, "queue") == pytest.approx(row["report"]["queue_time_ms"] / 1e3, abs=1e-9)
        assert seconds(breakdown, "prefill") == pytest.approx(row["report"]["time_to_first_token_ms"] / 1e3, abs=1e-9)
        assert seconds(breakdown, "decode") == pytest.approx(
            (row["report"].get("generation_time_ms") or 0) / 1e3, abs=1e-9
        )
        rest = done.timeline.total_ns / 1e9 - seconds(breakdown, "queue", "prefill", "decode")
        assert rest > 0.003
    assert seen >= 25


@pytest.mark.parametrize("run", ["vllm", "vllm_small_kv"])
def test_vllm_without_metrics_keeps_queue_and_prefill_joint(run: str) -> None:
    for row, done, breakdown in settled(run, Runners("vllm", "0.32.0")):
        if done.report is None and row["stream"] and row["tokens"] > 1 and row["truth"]:
            assert not {"queue", "prefill"} & set(names(breakdown))
            assert seconds(breakdown, "frontend") == pytest.approx(row["head"], abs=1e-9)
            assert "queue_prefill" in names(breakdown)


EXCHANGES = {f"{row['engine']}/{row['id']}": row for row in rows("exchanges")}
KINDS = {"ollama": "ollama", "ollama_0.17.4": "ollama", "vllm": "vllm", "vllm_defaults": "vllm", "llamacpp": "llamacpp"}


def one(name: str, **evidence: object) -> PhaseBreakdown:
    row = EXCHANGES[name]
    known = Evidence(kind=KINDS[row["engine"]], **evidence)  # type: ignore[arg-type]
    return attribute(finished(row, known))


@pytest.mark.parametrize("name", EXCHANGES)
def test_every_recorded_report_is_trusted_and_its_phases_stand(name: str) -> None:
    row = EXCHANGES[name]
    breakdown = one(name, slots=1)
    assert breakdown.findings == ()
    assert sum(phase.ns for phase in breakdown.phases) == round(row["end"] * 1e9)
    said = row["report"] or {}
    if "prompt_eval_duration" in said:
        assert seconds(breakdown, "prefill") == pytest.approx(said["prompt_eval_duration"] / 1e9, abs=1e-9)
        assert seconds(breakdown, "unattributed") < 0.015


@pytest.mark.parametrize("name", [f"ollama/{n}" for n in ("75_num_ctx_2048_reload_0", "76_num_ctx_4096_reload_1")])
def test_a_change_of_num_ctx_shows_a_load_each_time(name: str) -> None:
    assert 0.8 < seconds(one(name), "load") < 0.9


def test_a_chat_that_does_not_fit_shows_front_end_not_queue() -> None:
    for name in ("ollama/67_chat_history_truncated", "ollama/68_chat_history_truncated_next_turn"):
        breakdown = one(name, slots=1)
        assert 0.5 < seconds(breakdown, "frontend") < 0.7
        assert "queue" not in names(breakdown)


@pytest.mark.parametrize("name", ["83_queued_behind_one", "85_queued_behind_one_nonstream"])
def test_waiting_behind_another_is_queue(name: str) -> None:
    breakdown = one(f"ollama/{name}", slots=1, ahead=1, contended_ns=3_300_000_000)
    assert 3.1 < seconds(breakdown, "queue") < 3.3
    assert seconds(breakdown, "frontend") < 0.01


def test_waiting_on_v1_is_joint() -> None:
    breakdown = one("ollama/84_queued_behind_one_v1", slots=1, ahead=1, contended_ns=3_100_000_000)
    assert names(breakdown) == ["proxy", "queue_prefill", "decode", "delivery"]


@pytest.mark.parametrize("name", ["100_swap_pending_0", "101_swap_pending_1"])
def test_a_swap_shows_load_and_waiting_apart(name: str) -> None:
    swap = [row for row in rows("exchanges") if "swap" in row["id"] and row["status"] == 200]
    rivals = next(row for row in swap if row["id"] == "97_swap_running_other_model")
    row = EXCHANGES[f"ollama/{name}"]
    others_done = round((rivals["sent"] + rivals["end"] - row["sent"]) * 1e9)
    apart = one(f"ollama/{name}", slots=1, others_done_ns=others_done, swapped=True)
    assert 0.75 < seconds(apart, "load") < 0.85
    assert seconds(apart, "queue") == pytest.approx(others_done / 1e9, abs=0.001)
    together = one(f"ollama/{name}", slots=1, others_done_ns=others_done, swapped=False)
    assert 3.3 < seconds(together, "load") < 3.6
    unknown = one(f"ollama/{name}", slots=1, others_done_ns=others_done)
    (load,) = [phase for phase in unknown.phases if phase.name == "load"]
    assert (load.klass, load.error_ns) == (Class.DERIVED, others_done)


def test_an_old_warm_load_is_a_load_of_tens_of_milliseconds() -> None:
    breakdown = one("ollama_0.17.4/04_chat_stream", version="0.0.0")
    assert 0.03 < seconds(breakdown, "load") < 0.08


def test_an_old_wait_is_queue() -> None:
    breakdown = one("ollama_0.17.4/18_queued_behind_one", version="0.0.0", ahead=1, contended_ns=4_000_000_000)
    assert 3.6 < seconds(breakdown, "queue") < 3.9
    assert {phase.klass for phase in breakdown.phases if phase.name == "queue"} == {Class.INFERRED}


def test_vllm_with_default_settings() -> None:
    stream = one("vllm_defaults/stream_usage")
    assert names(stream) == ["proxy", "frontend", "queue_prefill", "decode", "delivery"]
    assert stream.decode_rate == pytest.approx(7 / (0.141283 - 0.047089), rel=0.01)
    assert stream.prefill_rate is None
    assert one("vllm_defaults/stream_nousage").decode_rate is None
    assert names(one("vllm_defaults/nonstream")) == ["proxy", "engine", "delivery"]


def test_a_tool_call_in_one_event_does_not_move_the_end_of_prefill() -> None:
    row = EXCHANGES["vllm/27_chat_tools_required_stream"]
    breakdown = one("vllm/27_chat_tools_required_stream")
    assert seconds(breakdown, "prefill") == pytest.approx(row["report"]["time_to_first_token_ms"] / 1e3, abs=1e-9)
    until_role = seconds(breakdown, "frontend", "step_wait", "queue", "prefill")
    assert until_role <= row["role"] + 1e-9 < row["first"] - 0.4
