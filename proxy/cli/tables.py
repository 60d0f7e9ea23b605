"""A report as a flat table, and the table as text, Markdown or CSV.

The engines' own means are a second table; CSV, which is one table of percentiles, leaves it out.
"""

import csv
import io
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from proxy.exporters.summary import REST
from proxy.plain import cell, markdown, printable, seconds
from proxy.records import Outcome

HEADER = ("of", "name", "what", "requests", "failed", "count", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")
TEXT_COLUMNS = 3
"""The first columns are text; the rest are numbers, and set to the right."""

MEANS = ("engine", "mean", "engine_ms", "requests", "ours_ms", "requests", "difference", "")
MEANS_TEXT = (0, 1, 7)
"""Its columns that are text."""
VERDICTS = {
    "agree": "",
    "apart": "over 5 %",
    "few": "over 5 %, of few requests",
    "other_traffic": "over 5 %, not of the same requests",
    "small": "over 5 %, under 5 ms",
    "unknown": "",
}
"""What is said of a difference, by its verdict (`exporters.means`)."""

NAME_CHARS = 100
"""Of a name in a table; the longest that people give to models have eighty."""

SHOWN = 10
"""Groups of a kind that people are shown, the largest: prompts make a family each where nobody repeats one."""

BRIEF = ("family",)
"""Groups of which people are shown one line each, the first that is known of `MEASURES`: there may be many."""

GROUPS = {"engine": "engines", "model": "models", "tenant": "tenants", "family": "families"}
MEASURES = ("ttft", "tpot", "duration")

Line = tuple[Any, ...]


def flatten(report: Mapping[str, Any], groups: int | None = None) -> list[Line]:
    """Every distribution of the report as one line under HEADER; unknown is None. `groups`: of a kind at most, the
    largest."""
    lines = list(_group("all", "", report))
    for name, classes in report.get("phases", {}).items():
        lines += [("phase", name, klass, None, None, *_numbers(times)) for klass, times in classes.items()]
    for word, key in GROUPS.items():
        for name, group in islice(report.get(key, {}).items(), groups):
            lines += islice(_group(word, name, group), 1 if groups and word in BRIEF else None)
    for window in report.get("windows", ()):
        lines += _group("from", datetime.fromtimestamp(window["from"]).isoformat(" "), window)
    return lines


def as_text(report: Mapping[str, Any]) -> str:
    """For people: aligned columns, the engines' own means beside ours, then tokens, failures, the slowest requests."""
    table = _aligned([HEADER, *flatten(report, SHOWN)], range(TEXT_COLUMNS))
    means = _means(report)
    beside = ["", *_aligned([MEANS, *means], MEANS_TEXT)] if means else []
    return "\n".join([*table, *beside, *_remarks(report)])


def as_markdown(report: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    means = _means(report)
    beside = ["", *_piped([MEANS, *means], MEANS_TEXT)] if means else []
    remarks = [f"* {markdown(remark)}" for remark in _remarks(report) if remark]
    return "\n".join([*_piped([HEADER, *flatten(report, SHOWN)], range(TEXT_COLUMNS)), *beside, "", *remarks]).rstrip()


def as_csv(report: Mapping[str, Any]) -> str:
    """The table alone, unknown as an empty field. A name that would be a formula begins with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows([cell(value) if isinstance(value, str) else value for value in line] for line in flatten(report))
    return out.getvalue().rstrip("\n")


def _group(word: str, name: str, group: Mapping[str, Any]) -> Iterator[Line]:
    failed = sum(count for outcome, count in group.get("failures", {}).items() if outcome != Outcome.CLIENT_GONE)
    for measure in MEASURES:
        if measure == "duration" or group[measure]["count"]:
            yield word, name, measure, group["requests"], failed, *_numbers(group[measure])


def _numbers(times: Mapping[str, Any]) -> Iterator[Any]:
    return (times[column] for column in HEADER[TEXT_COLUMNS + 2 :])


def _means(report: Mapping[str, Any]) -> list[Line]:
    """The engines' own means beside ours, one a line under MEANS."""
    return [
        _mean(engine, name, mean) for engine, means in report.get("means", {}).items() for name, mean in means.items()
    ]


def _mean(engine: str, name: str, mean: Mapping[str, Any]) -> Line:
    theirs, ours = (None if mean[key] is None else mean[key] * 1000 for key in ("engine_s", "ours_s"))
    difference = None if mean["difference"] is None else f"{round(mean['difference'] * 100, 1) + 0.0:+.1f} %"
    counts = int(mean["engine_count"]), int(mean["our_count"])
    return engine, name, theirs, counts[0], ours, counts[1], difference, VERDICTS[mean["verdict"]]


def _aligned(lines: Sequence[Line], text: Container[int]) -> list[str]:
    """Lines of equal columns; those of `text` set to the left, numbers to the right."""
    cells = [[_cell(value) for value in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(_align(cell, widths[n], n in text) for n, cell in enumerate(line)).rstrip() for line in cells]


def _piped(lines: Sequence[Line], text: Container[int]) -> list[str]:
    rule = "| " + " | ".join("---" if n in text else "---:" for n in range(len(lines[0]))) + " |"
    cells = ["| " + " | ".join(markdown(_cell(value)) for value in line) + " |" for line in lines]
    return [cells[0], rule, *cells[1:]]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else printable(str(value), NAME_CHARS)


def _align(cell: str, width: int, text: bool) -> str:
    return cell.ljust(width) if text else cell.rjust(width)


def _remarks(report: Mapping[str, Any]) -> list[str]:
    remarks = [""]
    for key in GROUPS.values():
        groups = report.get(key, {})
        if (more := len(groups) - SHOWN) > 0:
            many = f"over {more - 1}" if REST in groups else more
            remarks.append(f"{key}: {many} smaller ones are left out here")
    if tokens := report.get("tokens"):
        remarks.append("tokens: " + _tokens(tokens))
    if report.get("failures"):
        remarks.append("not completed: " + _counted(report["failures"]))
    if report.get("findings"):
        remarks.append("findings: " + _counted(report["findings"]))
    for slow in report.get("slowest", ()):
        phases = ", ".join(f"{_name(name)} {seconds(spent)}" for name, spent in _largest(slow["phases"]))
        said = " ".join(_name(slow[key] or "-") for key in ("id", "model", "outcome"))
        remarks.append(f"slow: {said} {seconds(slow['total_s'])} s ({phases})")
    return remarks


def _tokens(tokens: Mapping[str, int]) -> str:
    said = f"prompt {tokens['prompt']:,}, output {tokens['output']:,}"
    if known := tokens["cache_known_prompt"]:
        said += (
            f"; {tokens['cached'] / known:.1%} of {known:,} prompt tokens came out of the prefix cache, as engines say"
        )
    return said


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_name(name)} {count}" for name, count in counts.items())


def _name(text: str) -> str:
    return printable(text, NAME_CHARS)


def _largest(phases: Mapping[str, float]) -> list[tuple[str, float]]:
    """The three phases that took longest."""
    return sorted(phases.items(), key=lambda item: -item[1])[:3]
