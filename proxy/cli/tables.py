"""A report as a flat table, and the table as text, Markdown or CSV."""

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

HEADER = ("of", "name", "what", "requests", "failed", "count", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")
TEXT_COLUMNS = 3
"""The first columns are text; the rest are numbers, and set to the right."""

GROUPS = {"engine": "engines", "model": "models", "tenant": "tenants"}
MEASURES = ("ttft", "tpot", "duration")

Line = tuple[Any, ...]


def flatten(report: Mapping[str, Any]) -> list[Line]:
    """Every distribution of the report as one line under HEADER; unknown is None."""
    lines = list(_group("all", "", report))
    for name, classes in report.get("phases", {}).items():
        lines += [("phase", name, klass, None, None, *_numbers(times)) for klass, times in classes.items()]
    for word, key in GROUPS.items():
        for name, group in report.get(key, {}).items():
            lines += _group(word, name, group)
    for window in report.get("windows", ()):
        lines += _group("from", datetime.fromtimestamp(window["from"]).isoformat(" "), window)
    return lines


def as_text(report: Mapping[str, Any]) -> str:
    """For people: aligned columns, then the failures and the slowest requests."""
    cells = [list(HEADER), *([_cell(value) for value in line] for line in flatten(report))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    table = ["  ".join(_align(index, cell, widths[index]) for index, cell in enumerate(line)) for line in cells]
    return "\n".join([*(line.rstrip() for line in table), *_remarks(report)])


def as_markdown(report: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    rule = ["---"] * TEXT_COLUMNS + ["---:"] * (len(HEADER) - TEXT_COLUMNS)
    cells = [list(HEADER), rule, *([_cell(value).replace("|", "\\|") for value in line] for line in flatten(report))]
    remarks = [f"* {remark}" for remark in _remarks(report) if remark]
    return "\n".join([*("| " + " | ".join(line) + " |" for line in cells), "", *remarks]).rstrip()


def as_csv(report: Mapping[str, Any]) -> str:
    """The table alone, unknown as an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(flatten(report))
    return out.getvalue().rstrip("\n")


def _group(word: str, name: str, group: Mapping[str, Any]) -> Iterator[Line]:
    failed = sum(group.get("failures", {}).values())
    for measure in MEASURES:
        if measure == "duration" or group[measure]["count"]:
            yield word, name, measure, group["requests"], failed, *_numbers(group[measure])


def _numbers(times: Mapping[str, Any]) -> Iterator[Any]:
    return (times[column] for column in HEADER[TEXT_COLUMNS + 2 :])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else printable(str(value))


def printable(text: str) -> str:
    """The text without what would steer a terminal: names come from outside."""
    return "".join(char for char in text if char.isprintable())


def _align(index: int, cell: str, width: int) -> str:
    return cell.ljust(width) if index < TEXT_COLUMNS else cell.rjust(width)


def _remarks(report: Mapping[str, Any]) -> list[str]:
    remarks = [""]
    if report.get("failures"):
        remarks.append("not completed: " + ", ".join(f"{name} {n}" for name, n in report["failures"].items()))
    if report.get("findings"):
        remarks.append("findings: " + ", ".join(f"{name} {n}" for name, n in report["findings"].items()))
    for slow in report.get("slowest", ()):
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in _largest(slow["phases"]))
        remarks.append(
            f"slow: {slow['id']} {slow['model'] or '-'} {slow['outcome']} {slow['total_s']:.2f} s ({phases})"
        )
    return remarks


def _largest(phases: Mapping[str, float]) -> list[tuple[str, float]]:
    """The three phases that took longest."""
    return sorted(phases.items(), key=lambda item: -item[1])[:3]
