"""The records are facts: frozen, slotted, explained, and unknown until somebody knows."""

import ast
import inspect
from enum import StrEnum
from pathlib import Path

import pytest

from proxy import records
from proxy.records import PHASES, AdmissionVerdict, Class, Evidence, Outcome, Phase, PhaseBreakdown, Timeline, Usage
from tests.support.records import frozen

RECORDS = [it for _, it in inspect.getmembers(records, inspect.isclass) if frozen(it) is not None]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_a_record_is_frozen_and_slotted(record: type) -> None:
    assert frozen(record)
    assert "__slots__" in vars(record)
    assert record.__doc__


def test_there_is_no_other_class_than_records_and_enumerations() -> None:
    own = [it for _, it in inspect.getmembers(records, inspect.isclass) if it.__module__ == records.__name__]
    assert {it for it in own if not issubclass(it, StrEnum)} == set(RECORDS)


def test_nothing_is_unknown_by_a_number() -> None:
    tree = ast.parse(Path(records.__file__).read_text("utf-8"))
    numbers = [node for node in ast.walk(tree) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)]
    assert [ast.unparse(node) for node in numbers] == []
    assert Usage() == Usage(None, None, None, None)
    assert Evidence().slots is None
    assert Evidence().swapped is None


def test_a_timeline_knows_only_what_it_was_told() -> None:
    marks = [name for name in Timeline._fields if name.endswith("_ns")]
    line = Timeline(at_s=1.0, total_ns=5)
    assert {name for name in marks if getattr(line, name) not in (None, 0)} == {"total_ns"}


def test_a_verdict_of_nobody_lets_in_and_says_nothing() -> None:
    assert AdmissionVerdict() == AdmissionVerdict("admitted", None, None, "off", 0, None)


def test_a_phase_is_never_negative() -> None:
    with pytest.raises(ValueError, match="never negative"):
        PhaseBreakdown((Phase("queue", -1, Class.DERIVED, "clock"),))
    assert PhaseBreakdown((Phase("queue", 0, Class.DERIVED, "clock"),)).phases[0].error_ns is None


def test_phases_and_outcomes_are_told_apart() -> None:
    assert len(set(PHASES)) == len(PHASES)
    assert [outcome.value for outcome in Outcome] == [outcome.name.lower() for outcome in Outcome]
    assert [str(klass) for klass in Class] == ["measured", "derived", "inferred", "unknown"]


def test_facts_without_the_prompt_keep_all_else() -> None:
    facts = records.RequestFacts(
        "openai", "chat", "inference", "m", True, 2, 3, 4, True, (("num_ctx", "1"),), records.Prompt()
    )
    assert facts.promptless() == facts._replace(prompt=None)


def test_a_record_holds_a_name_of_bounded_length() -> None:
    facts = records.RequestFacts("openai", "chat", "inference", "m" * 9_000_000)
    assert facts.promptless().model == "m" * records.NAME_CHARS


def test_what_is_said_of_usage_stands_over_what_was_said_before() -> None:
    assert Usage(16, None, 0, None).over(Usage(8, 2, 4, None)) == Usage(16, 2, 0, None)
    assert Usage().over(Usage(1, 2, 3, 4)) == Usage(1, 2, 3, 4)
