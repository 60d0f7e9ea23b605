import csv
import io

from proxy.cli.tables import HEADER, as_csv, as_markdown, as_text, flatten
from proxy.exporters.contract import to_dict
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
