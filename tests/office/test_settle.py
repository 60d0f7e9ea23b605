from proxy.office.settle import LIMIT_NS, SettlingRoom
from proxy.records import EngineReport, Finished
from tests.support.records import finished

SPANS = frozenset({"spans"})
REPORT = EngineReport(source="vllm.spans", queue_ns=5)


def spans_for_vllm(done: Finished) -> frozenset[str]:
    return SPANS if done.engine == "vllm" else frozenset()


def test_evidence_in_the_body_settles_at_once() -> None:
    room = SettlingRoom()
    assert room.arrive(finished(), 0) == [finished()]
    assert len(room) == 0


def test_evidence_that_comes_in_time_is_joined() -> None:
    room = SettlingRoom(spans_for_vllm)
    assert room.arrive(finished("a", engine="vllm"), 0) == []
    assert len(room) == 1
    assert room.evidence("a", "spans", REPORT) == [finished("a", engine="vllm", report=REPORT)]
    assert (len(room), room.late) == (0, 0)


def test_evidence_that_comes_too_late_is_counted_and_not_applied() -> None:
    room = SettlingRoom(spans_for_vllm)
    room.arrive(finished("a", engine="vllm"), 0)
    assert room.due(LIMIT_NS - 1) == []
    assert room.due(LIMIT_NS) == [finished("a", engine="vllm")]
    assert room.evidence("a", "spans", REPORT) == []
    assert room.late == 1


def test_all_of_several_sources_are_waited_for_and_strange_ones_are_not() -> None:
    room = SettlingRoom(lambda done: frozenset({"spans", "beats"}))
    room.arrive(finished("a"), 0)
    assert room.evidence("a", "spans", REPORT) == []
    assert room.evidence("a", "spans", REPORT) == []
    assert room.late == 1
    assert len(room.evidence("a", "beats", REPORT)) == 1


def test_a_client_that_uses_an_id_twice_loses_no_record() -> None:
    room = SettlingRoom(lambda done: SPANS)
    assert room.arrive(finished("a"), 0) == []
    assert room.arrive(finished("a"), 1) == [finished("a")]
    assert room.empty() == [finished("a")]
    assert len(room) == 0
