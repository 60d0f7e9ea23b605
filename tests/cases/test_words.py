"""The vocabulary is closed: what is not in it is named, at its place."""

from typing import Any

import pytest

from tests.cases.words import faults


def case(**step: Any) -> dict[str, Any]:
    return {"id": "FC-900", "steps": [{"client": {}, **step}]}


def check(**checks: Any) -> dict[str, Any]:
    return case(check=checks)


@pytest.mark.parametrize(
    ("source", "where", "what"),
    [
        ({"id": "FC-9"}, "FC-9.id", "FC-012"),
        ({"id": "FC-900"}, "FC-900", "needs steps"),
        ({**case(), "kinds": 1}, "FC-900", "'kinds'"),
        ({**case(), "engine_kind": "triton"}, "FC-900.engine_kind", "'triton'"),
        ({**case(), "config": {"modes": 1}}, "FC-900.config", "'modes'"),
        ({**case(), "check": {"report": {"ttft.p95_ms": 1}}}, "FC-900.check.report", "'ttft.p95_ms'"),
        (case(client={"verb": "GET"}), "FC-900.steps[0].client", "'verb'"),
        (case(client={"raw": [{"t_ms": 0, "text": ""}]}), "FC-900.steps[0]", "raw needs virtual: false"),
        (case(client={"body": {}, "body_raw": ""}), "FC-900.steps[0].client", "at most one"),
        (case(client={"headers": {"A": "b"}}), "FC-900.steps[0].client.headers.A", "lower case"),
        (case(client={"body_py": "open('x')"}), "FC-900.steps[0].client.body_py", "'open'"),
        (case(engine={"ending": "die"}), "FC-900.steps[0].engine.ending", "'die'"),
        (case(engine={"reads": [{"t_ms": 0}]}), "FC-900.steps[0].engine.reads[0]", "exactly one"),
        (case(engine={"reads": [{"t_ms": 0, "hex": "x"}]}), "FC-900.steps[0].engine.reads[0].hex", "hex"),
        (check(ttf_ms=1), "FC-900.steps[0].check", "'ttf_ms'"),
        (check(ttft_ms={"gt": 1}), "FC-900.steps[0].check.ttft_ms", "'gt'"),
        (check(ttft_ms={"approx": 1}), "FC-900.steps[0].check.ttft_ms", "belong together"),
        (check(ttft_ms={"ge": 1, "le": 2}), "FC-900.steps[0].check.ttft_ms", "do not combine"),
        (check(body={"present": True}), "FC-900.steps[0].check.body", "does not fit"),
        (check(outcome="done"), "FC-900.steps[0].check.outcome", "'done'"),
        (check(findings={"contains": ["slow"]}), "FC-900.steps[0].check.findings", "'slow'"),
        (check(itl_ms={"0": {"p95": 1}}), "FC-900.steps[0].check.itl_ms.0", "'p95'"),
        (check(either=[{"status": 1}, {"stat": 1}]), "FC-900.steps[0].check.either[1]", "'stat'"),
        (check(metrics={"requests": 1}), "FC-900.steps[0]", "without a client"),
        (check(phases={}), "FC-900.steps[0].check.phases", "checks nothing"),
        ({**case(), "check": {"metrics": {}}}, "FC-900.check.metrics", "checks nothing"),
        ({**case(), "config": {"tenants": [{"name": "a"}]}}, "FC-900.config.tenants[0]", "needs key"),
        ({**case(), "wall_jumps": [{"at_ms": 1}]}, "FC-900.wall_jumps[0]", "needs by_ms"),
    ],
)
def test_a_fault_is_named_at_its_place(source: dict[str, Any], where: str, what: str) -> None:
    assert any(fault.startswith(where) and what in fault for fault in faults(source)), faults(source)


def test_no_line_of_a_header_is_a_list_like_another() -> None:
    assert faults(check(headers={"set-cookie": []})) == []


def test_what_is_no_object_is_a_fault_and_no_crash() -> None:
    assert faults([]) == ["?: must be an object"]
    assert faults({"id": "FC-900", "steps": 3}) != []
    assert faults({"id": "FC-900", "steps": [3]}) != []
