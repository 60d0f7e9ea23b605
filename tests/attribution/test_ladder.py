import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.attribution.ladder import CLOCK, DISTRUSTED, REPORTED, attribute
from proxy.records import PHASES, Class, EngineReport, Evidence, Finished, Outcome, RequestFacts, Timeline, Usage
from tests.attribution.made import finished, line, ollama, phases, report, split

NS = st.integers(-5, 10**12)
MARK = st.none() | NS
COUNT = st.none() | st.integers(0, 10**7)

timelines = st.builds(
    Timeline,
    at_s=st.just(0.0),
    total_ns=st.integers(0, 10**12),
    admission_ns=NS,
    dispatched_ns=MARK,
    head_ns=MARK,
    role_ns=MARK,
    first_token_ns=MARK,
    first_answer_ns=MARK,
    last_token_ns=MARK,
    last_byte_ns=MARK,
    blocked_ns=NS,
    streamed=st.booleans(),
    token_events=st.integers(0, 5),
    first_event_tokens=st.integers(0, 5),
    choices=st.integers(0, 3),
    finish=st.sampled_from([None, "stop", "load"]),
)
reports = st.builds(
    EngineReport,
    source=st.sampled_from(["ollama.durations", "llamacpp.timings", "vllm.metrics", "sglang.meta_info", "new.thing"]),
    total_ns=MARK,
    frontend_ns=MARK,
    queue_ns=MARK,
    load_ns=MARK,
    prefill_ns=MARK,
    decode_ns=MARK,
    fresh_tokens=COUNT,
    output_tokens=COUNT,
    covers_all=st.booleans(),
)
evidences = st.builds(
    Evidence,
    kind=st.sampled_from(["openai", *CLOCK, "sglang"]),
    version=st.sampled_from([None, "0.0.0", "0.3.1", "0.12.4", "0.30.0", "0.33.0-rc2", "b10434", "x.y.z"]),
    slots=st.none() | st.integers(1, 4),
    ahead=st.integers(0, 5),
    contended_ns=NS,
    others_done_ns=MARK,
    swapped=st.none() | st.booleans(),
)
usages = st.builds(Usage, COUNT, COUNT, COUNT, COUNT)
exchanges = st.builds(
    Finished,
    id=st.just("x"),
    engine=st.just("e"),
    facts=st.builds(
        RequestFacts,
        dialect=st.just("openai"),
        kind=st.sampled_from(["chat", "embed", "other"]),
        route=st.just("inference"),
        n=st.integers(1, 2),
        prompts=st.integers(1, 2),
    ),
    outcome=st.sampled_from(Outcome),
    status=st.just(200),
    timeline=timelines,
    evidence=evidences,
    usage=st.none() | usages,
    report=st.none() | reports,
)


@given(exchanges)
def test_phases_sum_to_the_total_and_none_is_negative(done: Finished) -> None:
    breakdown = attribute(done)
    names = [phase.name for phase in breakdown.phases]
    assert sum(phase.ns for phase in breakdown.phases) == done.timeline.total_ns
    assert all(phase.ns >= 0 for phase in breakdown.phases)
    assert names == [name for name in PHASES if name in names]
    for speed in (breakdown.prefill_rate, breakdown.decode_rate, breakdown.tpot_ns):
        assert speed is None or 0 < speed < 1e15
    assert attribute(done) == breakdown


def test_one_that_was_never_sent_is_all_our_own() -> None:
    done = finished("vllm", line(30, admission=20, dispatched=None, last_byte=None), outcome=Outcome.SHED)
    assert phases(attribute(done)) == {"admission": 20, "proxy": 10}


def test_time_before_dispatch_is_ours() -> None:
    breakdown = split("openai", line(100, admission=20, dispatched=25, first_token=60, last_token=90))
    assert phases(breakdown) == {"admission": 20, "proxy": 5, "queue_prefill": 35, "decode": 30, "delivery": 10}
    assert {phase.name: phase.klass for phase in breakdown.phases}["proxy"] is Class.MEASURED


def test_a_contradicted_report_is_not_used_and_said() -> None:
    said = report("vllm.metrics", queue=1, prefill=900, decode=200)
    breakdown = split("vllm", line(1000, first_token=950, last_token=990, head=5), said)
    assert breakdown.findings == (DISTRUSTED,)
    assert phases(breakdown) == {"frontend": 5, "queue_prefill": 945, "decode": 40, "delivery": 10}


def test_a_report_without_durations_says_nothing_of_time() -> None:
    breakdown = split("openai", line(100, first_token=50, last_token=90), report("vllm.metrics", fresh_tokens=3))
    assert phases(breakdown) == {"queue_prefill": 50, "decode": 40, "delivery": 10}
    assert breakdown.findings == ()


def test_a_report_of_an_unknown_engine_is_left_alone() -> None:
    assert "new" not in REPORTED
    breakdown = split("openai", line(100, first_token=50, last_token=90), report("new.thing", prefill=3))
    assert phases(breakdown) == {"queue_prefill": 50, "decode": 40, "delivery": 10}


def test_the_report_says_whose_it_is_where_the_engine_was_not_found_out() -> None:
    breakdown = split("openai", line(60, first_token=50, last_token=58), ollama(total=59, load=1, prefill=40, decode=9))
    assert phases(breakdown) == {"frontend": 9, "load": 1, "prefill": 40, "decode": 9, "delivery": 1}


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.COMPLETED])
def test_a_broken_answer_keeps_what_is_known_and_the_rest_is_unknown(outcome: Outcome) -> None:
    breakdown = split("openai", line(100, first_token=50, last_token=80, last_byte=None), outcome=outcome)
    assert phases(breakdown) == {"queue_prefill": 50, "decode": 30, "unattributed": 20}
    assert breakdown.phases[-1].klass is Class.UNKNOWN
    silent = split("openai", line(100, last_byte=None), outcome=outcome)
    assert phases(silent) == {"engine": 100}
    assert silent.phases[-1].klass is Class.UNKNOWN
