import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import pytest

from proxy.cli.tables import HEADER, as_csv, as_markdown, as_text, flatten
from proxy.engines.gauges import Total
from proxy.exporters.contract import to_dict
from proxy.exporters.means import NOTHING, compared
from proxy.exporters.summary import report
from tests.support.hostile import ESCAPE, is_plain
from tests.support.records import record


def test_every_distribution_is_one_line_of_the_header_s_width() -> None:
    lines = flatten(report([to_dict(record())]))
    assert {len(line) for line in lines} == {len(HEADER)}
    assert {line[0] for line in lines} == {"all", "phase", "engine", "model", "from"}


def test_unknown_is_empty_for_programs_and_a_dash_for_people() -> None:
    empty = report([])
    (line,) = csv.DictReader(io.StringIO(as_csv(empty)))
    assert (line["count"], line["p99_ms"]) == ("0", "")
    assert as_text(empty).splitlines()[1].split() == ["all", "duration", "0", "0", "0", "-", "-", "-", "-", "-"]


def test_people_are_shown_the_largest_groups_and_programs_all() -> None:
    rows = [{**to_dict(record()), "model": f"m{n}"} for n in range(12) for _ in range(13 - n)]
    seen = report(rows)
    for form in (as_text, as_markdown):
        shown = form(seen)
        assert ("m9 " in shown, "m10 " in shown, "models: 2 smaller ones are left out here" in shown) == (
            True,
            False,
            True,
        )
    assert "m11" in as_csv(seen)
    assert "left out" not in as_text(report(rows[:80]))


def test_groups_that_share_one_are_not_counted_as_one() -> None:
    seen = report([{**to_dict(record()), "model": f"m{n}"} for n in range(300)])
    assert len(seen["models"]) == 51
    assert "models: over 40 smaller ones are left out here" in as_text(seen)


def test_tokens_are_summed_with_their_cached_share() -> None:
    row = {**to_dict(record()), "tokens": {"prompt": 1_000, "cached": 250, "output": 7}}
    unknown = {**row, "tokens": {"prompt": 500, "output": 3}}
    said = "25.0% of 1,000 prompt tokens came out of the prefix cache, as engines say"
    assert f"tokens: prompt 1,500, output 10; {said}" in as_text(report([row, unknown]))
    assert "tokens: prompt 500, output 3\n" in as_text(report([unknown]))


def test_who_left_did_not_fail() -> None:
    rows = [{**to_dict(record()), "outcome": outcome} for outcome in ("client_gone", "client_gone", "engine_error")]
    lines = list(csv.DictReader(io.StringIO(as_csv(report(rows)))))
    assert (lines[0]["requests"], lines[0]["failed"]) == ("3", "1")
    assert "not completed: client_gone 2, engine_error 1" in as_text(report(rows))


def test_findings_are_named() -> None:
    seen = report([to_dict(record(findings=("cold_load",)))])
    assert "findings: cold_load 1" in as_text(seen)
    assert "* findings: cold_load 1" in as_markdown(seen)


@pytest.mark.parametrize(
    ("theirs", "ours", "shown"),
    [
        (Total(sum_s=3, count=30), Total(sum_s=3, count=30), "100.0 30 100.0 30 +0.0 %"),
        (Total(sum_s=3.0001, count=30), Total(sum_s=3, count=30), "100.0 30 100.0 30 +0.0 %"),
        (Total(sum_s=30, count=30), Total(sum_s=15, count=30), "1,000.0 30 500.0 30 -50.0 % over 5 %"),
        (Total(sum_s=3, count=3), Total(sum_s=6, count=3), "1,000.0 3 2,000.0 3 +100.0 % over 5 %, of few requests"),
        (
            Total(sum_s=60, count=60),
            Total(sum_s=60, count=30),
            "1,000.0 60 2,000.0 30 +100.0 % over 5 %, not of the same requests",
        ),
        (Total(sum_s=0.1, count=100), Total(sum_s=0.2, count=100), "1.0 100 2.0 100 +100.0 % over 5 %, under 5 ms"),
        (Total(sum_s=3, count=30), NOTHING, "100.0 30 - 0 -"),
    ],
)
def test_a_difference_says_what_it_is_worth(theirs: Total, ours: Total, shown: str) -> None:
    seen = {**report([]), "means": {"e": {"ttft": asdict(compared(theirs, ours))}}}
    (line,) = [line for line in as_text(seen).splitlines() if line.startswith("e ")]
    assert " ".join(line.split()) == f"e ttft {shown}"
    (cells,) = [line for line in as_markdown(seen).splitlines() if line.startswith("| e |")]
    assert " ".join(cells.replace("|", " ").split()) == f"e ttft {shown}"


NAMES = {
    **{"id": ESCAPE, "model": ESCAPE + "m", "tenant": ESCAPE + "t", "engine": ESCAPE + "e", "outcome": ESCAPE + "o"},
    **{"findings": (ESCAPE + "f",), "phases": {ESCAPE + "p": {"s": 1, "class": ESCAPE}}},
}


@pytest.mark.parametrize("form", [as_text, as_markdown, as_csv])
def test_no_field_of_a_record_steers_a_terminal_or_forges_a_line(form: Callable[[Mapping[str, Any]], str]) -> None:
    hostile = {**to_dict(record()), **NAMES}
    plain = {**to_dict(record()), **{key: "x" for key in NAMES if key not in ("findings", "phases")}, "phases": {}}
    shown = form(report([hostile, {**hostile, "outcome": "completed"}]))
    assert is_plain(shown)
    assert "owned" in shown
    usual = form(report([{**plain, "findings": ["x"]}, {**plain, "outcome": "completed"}]))
    assert len(shown.splitlines()) == len(usual.splitlines())


def test_a_phase_s_class_and_name_are_made_fit_too() -> None:
    row = {**to_dict(record()), "phases": {"decode": {"s": 1, "class": ESCAPE}}}
    for form in (as_text, as_markdown, as_csv):
        assert is_plain(form(report([row])))


@pytest.mark.parametrize("name", ["=1+1", "+1", "-2", "@SUM(A1)", "\t=1"])
def test_no_cell_of_csv_is_a_formula(name: str) -> None:
    row = {**to_dict(record()), "model": name, "tenant": name, "engine": name}
    cells = [cell for line in csv.reader(io.StringIO(as_csv(report([row])))) for cell in line]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    assert "'" + name.strip() in cells


def test_a_long_name_does_not_widen_the_table() -> None:
    row = {**to_dict(record()), "model": "x" * 5000, "id": "y" * 5000}
    assert max(map(len, as_text(report([row])).splitlines())) < 400


def test_markdown_of_a_name_is_not_rendered() -> None:
    row = {**to_dict(record()), "model": "![x](http://a)|<b>`"}
    assert "!\\[x](http://a)\\|\\<b>\\`" in as_markdown(report([row]))
