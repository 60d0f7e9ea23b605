from structlog.testing import capture_logs

from proxy.exporters.exporter import Exporter
from proxy.messages import Hello, Pulse
from proxy.office.office import Office
from proxy.office.settle import LIMIT_NS, SettlingRoom
from proxy.records import Class, EngineReport, Finished, Phase, PhaseBreakdown, RequestRecord
from tests.support.records import breakdown, finished


class Kept:
    """An exporter that keeps, and tells what was done to it."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.calls: list[str] = []
        self.lost = 0
        self.unwritten = 0

    def export(self, record: RequestRecord) -> None:
        self.ids.append(record.finished.id)

    def tick(self, now_ns: int) -> None:
        self.calls.append(f"tick {now_ns}")

    def reopen(self) -> None:
        self.calls.append("reopen")

    def close(self) -> None:
        self.calls.append("close")


class Broken(Kept):
    """An exporter that fails at everything."""

    def export(self, record: RequestRecord) -> None:
        raise RuntimeError("disk on fire, key sk-secret")

    def tick(self, now_ns: int) -> None:
        raise OSError(28)


def test_an_exchange_becomes_one_record_for_every_exporter() -> None:
    kept: dict[str, Exporter] = {"a": Kept(), "b": Kept()}
    office = Office(breakdown, kept)
    office.take(finished("r1"), 0)
    assert [exporter.ids for exporter in kept.values() if isinstance(exporter, Kept)] == [["r1"], ["r1"]]
    assert [record.breakdown for record in office.records()] == [breakdown(finished("r1"))]


def test_recent_records_come_newest_first_and_are_bounded() -> None:
    office = Office(breakdown, {}, keep=2)
    for name in "abc":
        office.take(finished(name), 0)
    assert [record.finished.id for record in office.records()] == ["c", "b"]


def test_a_failing_exporter_is_counted_named_once_and_harms_nobody() -> None:
    kept = Kept()
    office = Office(breakdown, {"broken": Broken(), "kept": kept})
    with capture_logs() as logs:
        for name in "ab":
            office.take(finished(name), 0)
        office.tick(7)
    assert (kept.ids, kept.calls) == (["a", "b"], ["tick 7"])
    assert office.failures == {"broken": 3}
    assert [(entry["exporter"], entry["error"]) for entry in logs] == [("broken", "RuntimeError")]
    assert "sk-secret" not in str(logs)


def test_a_fault_of_attribution_costs_the_phases_and_not_the_record() -> None:
    def faulty(done: Finished) -> PhaseBreakdown:
        raise ZeroDivisionError

    office = Office(faulty, {})
    office.take(finished(), 0)
    (record,) = office.records()
    total = finished().timeline.total_ns
    assert record.breakdown.phases == (Phase("unattributed", total, Class.UNKNOWN, "none"),)
    assert record.findings == ("attribution_failed",)
    assert office.failures == {"attribution": 1}


def test_a_pulse_is_kept_and_passed_on() -> None:
    seen: list[Pulse] = []
    office = Office(breakdown, {"kept": Kept()}, pulsed=seen.append)
    pulse = Pulse(at_s=1.0, records_lost=3)
    office.take(Hello(pid=1, version="0"), 0)
    office.take(pulse, 0)
    assert (office.pulse, seen, office.lost()) == (pulse, [pulse], {"channel": 3, "kept": 0})


def test_late_evidence_is_waited_for_and_published_once() -> None:
    kept = Kept()
    office = Office(breakdown, {"kept": kept}, room=SettlingRoom(lambda done: frozenset({"spans"})))
    for name in "abc":
        office.take(finished(name), 0)
    assert kept.ids == []
    office.evidence("b", "spans", EngineReport(source="vllm.spans"))
    assert kept.ids == ["b"]
    office.tick(LIMIT_NS)
    assert kept.ids == ["b", "a", "c"]


def test_at_the_end_nobody_is_left_waiting() -> None:
    kept = Kept()
    office = Office(breakdown, {"kept": kept}, room=SettlingRoom(lambda done: frozenset({"spans"})))
    office.take(finished("a"), 0)
    office.reopen()
    office.close()
    assert (kept.ids, kept.calls) == (["a"], ["reopen", "close"])


def test_what_would_be_lost_now_is_what_waits_here_and_in_the_exporters_beside_what_is_lost() -> None:
    kept = Kept()
    kept.lost, kept.unwritten = 2, 3
    spans = SettlingRoom(lambda done: frozenset({"spans"} if done.id == "late" else ()))
    office = Office(breakdown, {"kept": kept}, room=spans, former={"kept": 10, "gone": 1})
    assert (office.lost(), office.owed()) == ({"channel": 0, "kept": 12}, {"kept": 15})
    office.take(finished("late"), 0)
    assert office.owed() == {"kept": 16}
