import io
import os
import re

import pytest
from structlog.testing import capture_logs

from proxy.office.live import LiveExporter, line, missing
from proxy.office.outlet import Outlet
from proxy.records import AdmissionVerdict, Class, Outcome, Phase, PhaseBreakdown, RequestRecord, TokenCount, Usage
from tests.support.records import MS, finished, record, timeline

PHASES = (
    Phase("proxy", 9 * MS, Class.MEASURED, "clock"),
    Phase("frontend", 9 * MS, Class.DERIVED, "clock"),
    Phase("queue", 0, Class.DERIVED, "ollama.durations"),
    Phase("load", MS // 2, Class.MEASURED, "ollama.durations"),
    Phase("prefill", 310 * MS, Class.MEASURED, "ollama.durations"),
    Phase("decode", 4200 * MS, Class.MEASURED, "ollama.durations"),
)


def said(phases: tuple[Phase, ...] = PHASES, rate: float | None = 41.2, **changes: object) -> str:
    """The line without its time of day, which depends on the zone."""
    text = line(RequestRecord(finished(**changes), PhaseBreakdown(phases, decode_rate=rate)))
    assert re.match(r"\d\d:\d\d:\d\d ", text)
    return text[9:]


def test_a_line_says_what_ollama_run_verbose_would() -> None:
    assert said(usage=Usage(1031, 172, 912)) == (
        "llama3.2 chat  1,031+172 tok (912 cached)  prefill 0.31  decode 4.20 s  41.2 tok/s"
    )


def test_joint_phases_go_by_their_joint_name_and_guesses_are_marked() -> None:
    joint = (
        Phase("admission", 2 * MS, Class.MEASURED, "clock"),
        Phase("step_wait", 50 * MS, Class.DERIVED, "vllm.metrics"),
        Phase("queue_prefill", 500 * MS, Class.DERIVED, "clock"),
        Phase("decode", 1000 * MS, Class.INFERRED, "replay"),
    )
    assert said(joint, None) == "llama3.2 chat  600+48 tok  step wait 0.050  queue+prefill 0.50  decode ~1.00 s"


@pytest.mark.parametrize(
    ("usage", "count", "text"),
    [
        (None, TokenCount(1030, "estimated", 1, 2, 3), "~1,030 tok"),
        (Usage(None, 5), None, "?+5 tok"),
        (None, None, "prefill"),
    ],
)
def test_tokens_that_the_engine_did_not_say(usage: Usage | None, count: TokenCount | None, text: str) -> None:
    assert said(usage=usage, counted=count).startswith(f"llama3.2 chat  {text}")


def test_an_exchange_that_failed_says_how_and_how_long_it_took() -> None:
    gone = said(
        (), None, outcome=Outcome.ENGINE_OVERLOADED, status=503, usage=None, timeline=timeline(total_ns=20 * MS)
    )
    assert gone == "llama3.2 chat  total 0.020 s  engine_overloaded 503"
    assert said((), None, outcome=Outcome.CLIENT_GONE, status=None, usage=None).endswith("client_gone")


@pytest.mark.parametrize(
    ("outcome", "status", "error", "end"),
    [
        (
            Outcome.REFUSED,
            404,
            "no engine serves the model 'x'; there are a",
            "refused 404: no engine serves the model ",
        ),
        (Outcome.ENGINE_UNREACHABLE, 502, "cannot reach the engine at e:1: refused", "unreachable 502: cannot reach "),
        (Outcome.ENGINE_UNREACHABLE, 502, None, "engine_unreachable 502"),
        (Outcome.ENGINE_REJECTED, 400, "engine error 400", "engine_rejected 400"),
        (Outcome.ENGINE_REJECTED, 404, "engine error 404: not_found", "engine_rejected 404: not_found"),
        (
            Outcome.ENGINE_ERROR,
            200,
            "error event in the stream",
            "engine_error (status 200): error event in the stream",
        ),
        (Outcome.CLIENT_GONE, None, "the client left", "client_gone"),
        (Outcome.CLIENT_GONE, 200, "the client left", "client_gone (status 200)"),
        (Outcome.TRUNCATED, 200, None, "truncated (status 200)"),
        (Outcome.REFUSED, 400, "two\nlines", "refused 400: twolines"),
        (Outcome.PROXY_ERROR, 500, "x" * 500, "proxy_error 500: " + "x" * 80),
    ],
)
def test_what_went_wrong_is_said_where_the_outcome_does_not_say_it(
    outcome: Outcome, status: int | None, error: str | None, end: str
) -> None:
    text = said((), None, outcome=outcome, status=status, error=error, usage=None)
    assert end in text
    assert len(text) < 200
    assert (": " in text) is (": " in end)


def test_what_went_wrong_is_said_of_one_that_had_waited_for_a_rule_too() -> None:
    waited = AdmissionVerdict("queued", "concurrency", "engine.slots", "enforce", 5)
    text = said((), None, outcome=Outcome.ENGINE_UNREACHABLE, status=502, error="refused", usage=None, admission=waited)
    assert text.endswith("engine_unreachable 502: refused")


def test_tokens_that_were_seen_before_an_answer_broke_off_are_told() -> None:
    broken = timeline(token_events=23)
    assert "~9+~23 tok" in said(
        outcome=Outcome.CLIENT_GONE, usage=None, counted=TokenCount(9, "estimated", 1, 20, 9), timeline=broken
    )


def test_the_engine_is_named_where_there_are_several() -> None:
    assert " chat on ollama  " in line(record(), named=True)
    assert " on ollama" not in line(record())
    assert "chat on " not in line(record(engine=""), named=True)


def test_a_client_that_reads_slowly_is_told_of() -> None:
    assert "  blocked 1.50 s" in said(timeline=timeline(blocked_ns=1500 * MS))
    assert "blocked" not in said(timeline=timeline(blocked_ns=MS))


def test_the_longest_phase_is_shown_however_short_and_beside_it_only_what_counts() -> None:
    short = (Phase("load", MS, Class.MEASURED, "x"), Phase("prefill", 4 * MS, Class.MEASURED, "x"))
    assert said(short, None) == "llama3.2 chat  600+48 tok  prefill 0.004 s"
    edge = (Phase("queue", 5 * MS, Class.MEASURED, "x"), *PHASES[3:])
    assert "  queue 0.005  prefill 0.31  decode 4.20 s" in said(edge)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("proxy", "proxy"), ("frontend", "frontend"), ("delivery", "delivery"), ("unattributed", "unattributed")],
)
def test_small_change_is_shown_where_it_makes_out_a_tenth_of_the_total(name: str, shown: str) -> None:
    took = timeline(total_ns=1000 * MS)
    large = (Phase(name, 900 * MS, Class.DERIVED, "x"), Phase("decode", 100 * MS, Class.MEASURED, "x"))
    assert said(large, None, timeline=took) == f"llama3.2 chat  600+48 tok  {shown} 0.90  decode 0.10 s"
    small = (Phase("decode", 901 * MS, Class.MEASURED, "x"), Phase(name, 99 * MS, Class.DERIVED, "x"))
    assert said(small, None, timeline=took) == "llama3.2 chat  600+48 tok  decode 0.90 s"
    alone = (Phase(name, 4 * MS, Class.MEASURED, "x"),)
    assert said(alone, None, timeline=timeline(total_ns=4 * MS)) == "llama3.2 chat  600+48 tok  total 0.004 s"


@pytest.mark.parametrize("outcome", [Outcome.SHED, Outcome.QUEUE_TIMEOUT, Outcome.REFUSED])
def test_what_the_door_refused_says_by_which_rule_why_and_whose_it_was(outcome: Outcome) -> None:
    verdict = AdmissionVerdict("shed", "rate_requests", "gold.requests_per_minute", "enforce")
    text = said((), None, outcome=outcome, status=429, usage=None, admission=verdict, tenant="acme")
    assert text.endswith(f"  {outcome.value} 429 gold.requests_per_minute rate_requests tenant=acme")
    text = said((), None, outcome=outcome, status=429, usage=None, admission=verdict)
    assert text.endswith(f"  {outcome.value} 429 gold.requests_per_minute rate_requests")
    assert said((), None, outcome=outcome, status=401, usage=None).endswith(f"  {outcome.value} 401")


def test_what_a_rule_in_trial_would_have_shed_is_marked() -> None:
    verdict = AdmissionVerdict("admitted", "concurrency", "slots.max_concurrency", "observe")
    assert said(admission=verdict).endswith("tok/s  would shed: slots.max_concurrency")
    assert "would shed" not in said(admission=AdmissionVerdict(mode="observe"))
    failed = said((), None, outcome=Outcome.ENGINE_ERROR, status=500, admission=verdict, tenant="acme")
    assert failed.endswith("engine_error 500")


def test_a_name_from_outside_cannot_steer_the_terminal() -> None:
    text = said(model="\x1b[2J\r\nevil" + "x" * 100)
    assert "\x1b" not in text
    assert "\n" not in text
    assert len(text) < 150
    assert said(model=None).startswith("- chat")
    shed = said(outcome=Outcome.SHED, status=429, tenant="a\x1b[2J\n", admission=AdmissionVerdict("shed"))
    assert shed.endswith("  shed 429 tenant=a[2J")


def test_a_request_that_nothing_else_names_is_named_by_its_path() -> None:
    gone = {"model": None, "kind": "other", "usage": None, "outcome": Outcome.ENGINE_REJECTED, "status": 404}
    assert said((), None, path="/nope", **gone).startswith("- other /nope  total")
    text = said((), None, path="/\x1b[2J\r\nevil" + "x" * 300, **gone)
    assert text.startswith("- other /[2J")
    assert len(text) < 150


def test_findings_stand_at_the_end() -> None:
    assert line(record(findings=("cold_load",))).endswith("  cold_load")


def test_lists_and_health_checks_are_left_out_unless_they_failed() -> None:
    stream = io.StringIO()
    live = LiveExporter(Outlet(stream, missing))
    live.export(record(route="read"))
    assert stream.getvalue() == ""
    live.export(record(route="read", outcome=Outcome.ENGINE_UNREACHABLE, status=502))
    live.export(record())
    assert len(stream.getvalue().splitlines()) == 2


def test_a_terminal_that_is_gone_loses_lines_counted_and_said() -> None:
    read, write = os.pipe()
    os.close(read)
    live = LiveExporter(Outlet(write, missing))
    live.export(record())
    live.tick(0)
    live.reopen()
    with capture_logs() as logs:
        live.close()
    os.close(write)
    assert live.lost == 1
    assert [(log["event"], log["lines"]) for log in logs] == [("live_lines_lost", 1)]


def test_a_terminal_that_stands_still_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-S, or `| less`: a pipe that nobody reads is full after a thousand lines."""
    monkeypatch.setattr("proxy.office.live.FLUSH_S", 0.05)
    read, write = os.pipe()
    live = LiveExporter(Outlet(write, missing, limit_bytes=10_000))
    for _ in range(5000):
        live.export(record())
    assert live.lost > 3000
    with capture_logs() as logs:
        live.close()
    assert logs[0]["lines"] == live.lost
    os.close(read)
    assert missing(1200) == "(1,200 requests are not shown here: the terminal stood still)"


def test_a_terminal_that_is_read_loses_none() -> None:
    read, write = os.pipe()
    live = LiveExporter(Outlet(write, missing))
    for _ in range(100):
        live.export(record())
    with capture_logs() as logs:
        live.close()
    assert os.read(read, 1 << 20).count(b"\n") == 100
    assert logs == []
    os.close(read)
    os.close(write)
