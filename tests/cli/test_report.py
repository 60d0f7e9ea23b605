import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli import report as module
from proxy.cli.report import WANTS, report
from proxy.engines.gauges import Total
from proxy.exporters.contract import to_dict, to_json
from proxy.exporters.means import Stretch
from proxy.exporters.sqlite import SqliteExporter
from proxy.records import Outcome, PrefixVerdict
from tests.support.hostile import ESCAPE, is_plain, lines
from tests.support.records import AT_S, record, timeline

RECORDS = [
    record("a", model="small", timeline=timeline(100, at_s=AT_S)),
    record("b", model="large", timeline=timeline(900, at_s=AT_S + 60)),
    record("c", model="large", timeline=timeline(at_s=AT_S + 120), outcome=Outcome.ENGINE_ERROR, tenant="t"),
]


@pytest.fixture(params=["jsonl", "sqlite"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "records"
    if request.param == "jsonl":
        path.write_bytes(b"".join(to_json(one) + b"\n" for one in RECORDS))
    else:
        exporter = SqliteExporter(path)
        for one in RECORDS:
            exporter.export(one)
        exporter.close()
    return path


def ask(*arguments: object, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(report, [str(argument) for argument in arguments], env=env)


def ids(result: Result) -> list[str]:
    return [json.loads(line)["id"] for line in result.stdout.splitlines()]


def test_a_person_gets_a_table_failures_and_the_slowest(file: Path) -> None:
    text = ask(file).stdout
    assert "not completed: engine_error 1" in text
    assert "model   large" in text
    assert "slow: b large completed 1.37 s (queue_prefill 0.90, decode 0.47, proxy 0.001)" in text


def test_families_of_prompts_are_a_group(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(to_json(record(prefix=PrefixVerdict(16, 9, family="f0a1"))) + b"\n")
    assert "family,f0a1,ttft,1,0,1,300.0,300.0,300.0,300.0,300.0" in ask(path, "--csv").stdout.splitlines()
    assert [line.split()[:3] for line in ask(path).stdout.splitlines() if line.startswith("family")] == [
        ["family", "f0a1", "ttft"],
    ]
    assert ask(path, "--csv").stdout.count("family,f0a1,") == 3


def test_a_program_gets_json(file: Path) -> None:
    seen = json.loads(ask(file, "--json").stdout)
    assert (seen["duration"]["count"], seen["duration"]["max_ms"]) == (2, 1370)
    assert seen["tenants"]["t"]["failures"] == {"engine_error": 1}


def test_a_spreadsheet_gets_csv_and_a_page_markdown(file: Path) -> None:
    lines = ask(file, "--csv").stdout.splitlines()
    assert lines[0] == "of,name,what,requests,failed,count,p50_ms,p90_ms,p99_ms,p999_ms,max_ms"
    assert "model,small,ttft,1,0,1,100.0,100.0,100.0,100.0,100.0" in lines
    assert "| model | small | ttft | 1 | 0 | 1 | 100.0 |" in ask(file, "--md").stdout


def test_rows_are_the_records_as_they_were_written(file: Path) -> None:
    assert ask(file, "--rows").stdout_bytes == b"".join(to_json(one) + b"\n" for one in RECORDS)


@pytest.mark.parametrize(
    ("picked", "expected"),
    [
        (("--model", "large"), ["b", "c"]),
        (("--since", AT_S + 60), ["b", "c"]),
        (("--until", AT_S + 60), ["a"]),
        (("--since", AT_S + 1, "--until", AT_S + 61, "--model", "large"), ["b"]),
        (("--since", "2000-01-01"), ["a", "b", "c"]),
        (("--until", "2000-01-01T00:00"), []),
    ],
)
def test_records_are_picked_by_time_and_model(file: Path, picked: tuple[object, ...], expected: list[str]) -> None:
    assert ids(ask(file, "--rows", *picked)) == expected


def test_a_time_may_be_so_long_ago(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(to_json(RECORDS[0]) + b"\n")
    assert ids(ask(path, "--rows", "--since", "36500d")) == ["a"]
    assert ids(ask(path, "--rows", "--until", "36500d")) == []


def test_lines_that_are_no_records_are_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"id": "torn\n\n' + to_json(RECORDS[0]) + b"\n")
    result = ask(path, "--rows")
    assert ids(result) == ["a"]
    assert (
        result.stderr == "1 lines are no records; left out (line 1: JSON is malformed: invalid character (byte 12))\n"
    )


def test_a_long_file_tells_of_its_progress(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROGRESS", 2)
    assert "2 records read" in ask(file).stderr


def test_no_records_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.touch()
    assert json.loads(ask(path, "--json").stdout)["ttft"]["count"] == 0
    assert ask(path).exit_code == 0
    assert ask(path).stderr == f"phasegate: {path}: holds no record yet\n"
    assert ask(path, "--model", "m").stderr == f"phasegate: {path}: no record fits\n"


@pytest.mark.parametrize("form", [(), ("--rows",), ("--json",)])
def test_a_file_of_other_things_is_an_error(tmp_path: Path, form: tuple[str, ...]) -> None:
    path = tmp_path / "README.md"
    path.write_text('# a page\n\n{"json": "but no record"}\n', "utf-8")
    result = ask(path, *form)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"phasegate: {path}: holds no records (line 1: JSON is malformed: invalid character (byte 0)); {WANTS}\n"
    )


def test_what_is_no_file_of_records_is_told_what_is_one(tmp_path: Path) -> None:
    for path, got in ((tmp_path, "Is a directory"), (tmp_path / "gone", "No such file or directory")):
        result = ask(path)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"phasegate: {path}: {got}; {WANTS}\n"


def test_records_that_are_all_left_out_are_no_error(file: Path) -> None:
    result = ask(file, "--model", "unheard")
    assert (result.exit_code, result.stderr) == (0, f"phasegate: {file}: no record fits\n")
    assert ask(file).stderr == ""


def test_the_file_may_be_the_one_of_the_settings(file: Path) -> None:
    assert ask("--csv", env={"PHASEGATE_STORE": str(file)}).exit_code == 0
    nothing = ask(env={"PHASEGATE_STORE": ""})
    assert (nothing.exit_code, "no FILE given" in nothing.stderr) == (2, True)


@pytest.mark.parametrize("arguments", [("/nowhere/at/all",), ("x", "--since", "yesterday")])
def test_what_cannot_be_done_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    result = ask(*arguments)
    assert result.exit_code == 2
    assert arguments[-1] in result.stderr


def test_an_address_is_no_file() -> None:
    result = ask("http://127.0.0.1:8801")
    assert (result.exit_code, f"that is an address; {WANTS}" in result.stderr) == (2, True)


def test_a_name_from_outside_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(to_json(record("\x1b[2J", model="\x1b[31mred|")) + b"\n")
    assert "\x1b" not in ask(path).stdout
    assert "red\\|" in ask(path, "--md").stdout


def mean(name: str, engine_s: float, ours_s: float, count: int = 40, since_s: float = AT_S) -> Stretch:
    theirs, ours = Total(sum_s=engine_s * count, count=count), Total(sum_s=ours_s * count, count=count)
    return Stretch(engine="gpu1", name=name, since_s=since_s, until_s=since_s + 60, theirs=theirs, ours=ours)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    exporter = SqliteExporter(tmp_path / "s.db")
    for one in RECORDS:
        exporter.export(one)
    for seen in (mean("queue", 0.5, 0.75), mean("ttft", 1.0, 1.01), mean("ttft", 3.0, 3.03, since_s=AT_S + 60)):
        exporter.keep(seen)
    exporter.close()
    return tmp_path / "s.db"


def test_the_engines_own_means_stand_beside_ours(store: Path) -> None:
    lines = ask(store).stdout.splitlines()
    assert lines[lines.index("") + 1 :][:3] == [
        "engine  mean   engine_ms  requests  ours_ms  requests  difference",
        "gpu1    ttft     2,000.0        80  2,020.0        80      +1.0 %",
        "gpu1    queue      500.0        40    750.0        40     +50.0 %  over 5 %",
    ]
    page = ask(store, "--md").stdout
    assert "| gpu1 | queue | 500.0 | 40 | 750.0 | 40 | +50.0 % | over 5 % |" in page


def test_a_program_gets_the_means_with_their_counts(store: Path) -> None:
    means = json.loads(ask(store, "--json").stdout)["means"]
    assert means["gpu1"]["queue"] == {
        "from": AT_S,
        "to": AT_S + 60,
        "engine_s": 0.5,
        "ours_s": 0.75,
        "engine_count": 40,
        "our_count": 40,
        "difference": 0.5,
        "verdict": "apart",
    }


def test_means_are_of_the_reports_time(store: Path) -> None:
    text = ask(store, "--since", AT_S + 60, "--json").stdout
    assert json.loads(text)["means"]["gpu1"]["ttft"]["engine_s"] == 3.0
    assert "queue" not in json.loads(text)["means"]["gpu1"]


@pytest.mark.parametrize("picked", [("--model", "large"), ("--until", AT_S + 59)], ids=["one model", "too short"])
def test_where_no_mean_can_be_said_none_is(store: Path, picked: tuple[object, ...]) -> None:
    assert "means" not in json.loads(ask(store, *picked, "--json").stdout)
    assert "difference" not in ask(store, *picked).stdout


def test_without_means_nothing_is_shown(file: Path) -> None:
    assert "means" not in json.loads(ask(file, "--json").stdout)
    assert "engine_ms" not in ask(file).stdout + ask(file, "--md").stdout


def test_csv_and_rows_have_no_means(store: Path) -> None:
    assert "gpu1" not in ask(store, "--csv").stdout + ask(store, "--rows").stdout


@given(content=lines(to_dict(RECORDS[0])), form=st.sampled_from([(), ("--json",), ("--csv",), ("--md",), ("--rows",)]))
def test_whatever_a_file_holds_the_report_ends_in_order_and_steers_no_terminal(
    content: bytes, form: tuple[str, ...]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        path.write_bytes(content)
        result = ask(path, *form)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in (0, 2)
    assert is_plain(result.stdout)
    assert is_plain(result.stderr)
    assert len(result.stderr.splitlines()) <= 1


def test_one_bad_row_costs_one_row(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    bad = [{**to_dict(RECORDS[0]), "at": at} for at in (1e300, 1e18, -1)]
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in bad) + to_json(RECORDS[0]) + b"\n")
    result = ask(path, "--json")
    assert (result.exit_code, json.loads(result.stdout)["requests"]) == (0, 1)
    assert result.stderr.startswith("3 lines are no records; left out (line 1: ")


def test_rows_that_cannot_be_printed_mean_the_same_and_can(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    row = {**to_dict(RECORDS[0]), "model": ESCAPE}
    path.write_text(json.dumps(row, ensure_ascii=False) + "\n", "utf-8")
    shown = ask(path, "--rows").stdout
    assert is_plain(shown)
    assert json.loads(shown) == json.loads(json.dumps(row))


@pytest.mark.parametrize(
    "words",
    [("--json", "--csv"), ("--rows", "--md"), ("--rows", "--window", 60), ("--config", "phasegate.toml")],
    ids=["two forms", "rows and a form", "windows of rows", "a file and settings"],
)
def test_what_would_be_ignored_is_a_usage_error(file: Path, words: tuple[object, ...]) -> None:
    """Of `--json --csv` the last one won, unsaid."""
    result = ask(file, *words)
    assert (result.exit_code, result.stdout, "not both" in result.stderr) == (2, "", True)


@pytest.mark.parametrize("window", ["nan", "inf", "0", "1e300", "-1"])
def test_a_window_is_a_number_of_seconds(file: Path, window: str) -> None:
    result = ask(file, "--window", window)
    assert (result.exit_code, "--window" in result.stderr) == (2, True)


@pytest.mark.parametrize("when", ["9" * 400, "9" * 400 + "d", "9" * 9999 + "d", "0001-01-01", "99999999-01-01", "nan"])
def test_a_time_beyond_all_calendars_is_refused_or_finds_nothing(file: Path, when: str) -> None:
    result = ask(file, "--since", when, "--rows")
    assert result.exit_code == (0 if when == "9" * 400 else 2)
    assert result.stdout == ""
