import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from proxy.engines.inside import Inside, Loaded
from proxy.exporters.definitions import COUNTERS, EDGES_NS, TIMES
from proxy.exporters.prometheus import INSIDE_GAUGES, Exposition
from proxy.exporters.series import Series
from proxy.messages import EngineState, Pulse
from proxy.prefixes.ledger import BINS
from proxy.records import (
    PHASES,
    AdmissionVerdict,
    Class,
    Outcome,
    Phase,
    PhaseBreakdown,
    PrefixVerdict,
    RequestRecord,
    TokenCount,
    Usage,
)
from tests.support.records import finished, record, timeline

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
ENGINE = EngineState(name="ollama", answers=True, in_flight=2, queued=1)


def exposition(series: Series, pulse: Pulse | None = None, inside: Inside | None = None) -> Exposition:
    seen = pulse or Pulse(at_s=1.0, in_flight=3, engines=(ENGINE,), malformed=4, memory_bytes=5)
    said = inside or Inside()
    lost, waiting = {"channel": 6, "records": 0}, {"records": 8}
    return Exposition(series, lambda: seen, lambda: lost, {"live": 7}, lambda engine: said, lambda: waiting)


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in prometheus(text)
        for sample in family.samples
    }


def test_seconds_are_seconds_and_buckets_are_cumulative() -> None:
    series = Series()
    series.export(record())
    text = exposition(series).render()[0].decode()
    assert 'phasegate_ttft_seconds_bucket{engine="ollama",le="0.25",model="llama3.2"} 0.0' in text
    assert 'phasegate_ttft_seconds_bucket{engine="ollama",le="0.5",model="llama3.2"} 1.0' in text
    assert 'phasegate_ttft_seconds_bucket{engine="ollama",le="+Inf",model="llama3.2"} 1.0' in text
    assert 'phasegate_ttft_seconds_sum{engine="ollama",model="llama3.2"} 0.3' in text


def test_the_state_of_the_data_process_is_shown() -> None:
    seen = samples(exposition(Series()).render()[0].decode())
    assert seen["phasegate_in_flight", ()] == 3
    assert seen["phasegate_memory_bytes", ()] == 5
    assert seen["phasegate_engine_up", ("ollama",)] == 1
    assert seen["phasegate_engine_in_flight", ("ollama",)] == 2
    assert seen["phasegate_engine_queued", ("ollama",)] == 1
    assert seen["phasegate_malformed_requests_total", ()] == 4
    assert seen["phasegate_records_lost_total", ("channel",)] == 6
    assert seen["phasegate_records_waiting", ("records",)] == 8
    assert seen["phasegate_exporter_failures_total", ("live",)] == 7


def test_unknown_memory_is_absent() -> None:
    assert "phasegate_memory" not in exposition(Series(), Pulse(at_s=0.0)).render()[0].decode()


def test_what_the_engine_says_of_its_inside_is_shown() -> None:
    loaded = (Loaded(name="a", size=7, size_vram=3), Loaded(name="b", size=5, size_vram=5))
    inside = Inside(running=2, waiting=0, kv_usage=0.25, slots=4, loaded=loaded)
    seen = samples(exposition(Series(), inside=inside).render()[0].decode())
    assert seen["phasegate_engine_running", ("ollama",)] == 2
    assert seen["phasegate_engine_waiting", ("ollama",)] == 0
    assert seen["phasegate_engine_kv_usage_ratio", ("ollama",)] == 0.25
    assert seen["phasegate_engine_slots", ("ollama",)] == 4
    assert seen["phasegate_engine_outside_vram_bytes", ("ollama",)] == 4


@pytest.mark.parametrize(
    ("loaded", "outside"),
    [((), 0), ((Loaded(name="a", size=3, size_vram=5),), 0), ((Loaded(name="a", size=3),), None), (None, None)],
    ids=["nothing in memory", "more than all", "one does not say", "never said"],
)
def test_bytes_outside_video_memory_are_of_all_models_or_unknown(
    loaded: tuple[Loaded, ...] | None, outside: int | None
) -> None:
    seen = samples(exposition(Series(), inside=Inside(loaded=loaded)).render()[0].decode())
    assert seen.get(("phasegate_engine_outside_vram_bytes", ("ollama",))) == outside


def test_what_an_engine_does_not_say_is_absent() -> None:
    shown = {name for name, _ in samples(exposition(Series()).render()[0].decode())}
    assert not shown & {f"phasegate_{name}" for name in INSIDE_GAUGES}


def test_exemplars_carry_the_request_id_in_openmetrics_alone() -> None:
    series = Series()
    series.export(record("request-1" * 20))
    plain, open_ = exposition(series).render()[0].decode(), exposition(series).render(OPENMETRICS)
    assert "request-1" not in plain
    assert "openmetrics" in open_[1]
    families = {family.name: family for family in openmetrics(open_[0].decode())}
    found = [s.exemplar for s in families["phasegate_ttft_seconds"].samples if s.exemplar]
    assert [(exemplar.labels["request_id"], exemplar.value) for exemplar in found] == [(("request-1" * 20)[:100], 0.3)]


def test_every_metric_has_its_definition_and_one_list_of_edges_serves_all_times_of_requests() -> None:
    text = exposition(Series()).render()[0].decode()
    for name, definition in TIMES.items():
        assert f"# HELP phasegate_{name}_seconds {definition.help}\n" in text
    for name, definition in COUNTERS.items():
        assert f"# HELP phasegate_{name}_total {definition.help}\n" in text
    assert len(EDGES_NS) <= 16
    assert (EDGES_NS[0], EDGES_NS[-1]) == (1_000_000, 600_000_000_000)


SHORT = timeline(gaps_ms=(10, 300), blocked_ns=1, unreadable_events=1)


def worst_case(series: Series) -> None:
    """Eight engines of fifty models, every outcome, route, phase, class, bin and reason."""
    phases = {klass: PhaseBreakdown(tuple(Phase(n, 1, klass, "x") for n in PHASES), tpot_ns=1.0) for klass in Class}
    prefix = PrefixVerdict(16, 10, 5, bins=tuple((name, 1) for name in BINS), reported=1)
    for engine in range(8):
        for model in range(50):
            for number, outcome in enumerate((*Outcome, Outcome.COMPLETED, Outcome.COMPLETED)):
                done = finished(
                    engine=f"engine-{engine}",
                    model=f"model-{model}",
                    outcome=outcome,
                    route=("inference", "inference", "read", "manage")[(number + model) % 4],
                    prefix=prefix,
                    tenant=f"tenant-{model}",
                    timeline=SHORT,
                    usage=Usage(10, 2, 1),
                    counted=TokenCount(9, ("exact", "calibrated", "estimated")[number % 3], 1, 2, 3),
                    admission=AdmissionVerdict("shed", f"reason-{number}", None, ("observe", "enforce")[number % 2]),
                )
                series.export(RequestRecord(done, phases[list(Class)[number % 4]], ("cold_load",)))


def test_eight_engines_of_fifty_models_stay_under_1500_series() -> None:
    series = Series()
    worst_case(series)
    series.pulse(Pulse(at_s=0.0, lag_ns=(1,)))
    pulse = Pulse(
        at_s=1.0, engines=tuple(EngineState(name=f"engine-{n}") for n in range(8)), lag_ns=(1,), memory_bytes=1
    )
    inside = Inside(running=1, waiting=1, kv_usage=0.5, slots=1, loaded=())
    text = exposition(series, pulse, inside).render()[0].decode()
    assert sum(not line.startswith("#") for line in text.splitlines()) <= 1500
    total = sum(value for (name, _), value in samples(text).items() if name == "phasegate_requests_total")
    assert total == 8 * 50 * 15


def test_the_usual_two_engines_of_a_few_models_lose_no_label() -> None:
    series = Series()
    for engine in ("vllm", "ollama"):
        for model in ("a", "b", "c"):
            series.export(record(engine=engine, model=model))
    assert '="other"' not in exposition(series).render()[0].decode()
