import csv
import io
from dataclasses import asdict

import pytest

from proxy.cli.tables import HEADER, as_csv, as_markdown, as_text, flatten
from proxy.engines.gauges import Total
from proxy.exporters.contract import to_dict
from proxy.exporters.means import NOTHING, compared
from proxy.exporters.summary import report
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
            "1,000.0 60 2,000.0 30 +100.0 % over 5 %, of other requests too",
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
