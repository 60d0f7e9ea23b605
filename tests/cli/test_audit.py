import gzip
import json
import re
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.cli import UNREACHABLE, USAGE
from proxy.cli import audit as verb
from proxy.cli.audit import WANTS, audit
from proxy.exporters.contract import to_json
from proxy.exporters.sqlite import SqliteExporter
from proxy.records import PrefixVerdict
from tests.prefixes.breakers.apps import rules
from tests.support.hostile import is_plain, lines
from tests.support.records import record

RULES = rules("command", 20)


def run(*arguments):
    return CliRunner().invoke(audit, list(map(str, arguments)))


def request(number):
    messages = [
        {"role": "system", "content": f"Now: 10:{number:02}\n{RULES}"},
        {"role": "user", "content": f"q{number}"},
    ]
    body = {"model": "m", "messages": messages}
    return {
        "id": f"r{number}",
        "t_s": 360.0 * number,
        "path": "/v1/chat/completions",
        "body": body,
        "output_text": "yes",
    }


@pytest.fixture
def requests(tmp_path):
    path = tmp_path / "requests.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps(request(k)) for k in range(12)).encode()))
    return path


def test_a_file_of_requests_is_audited_for_machines(requests):
    result = run(requests, "--capacity", 1_000, "--json")
    report = json.loads(result.stdout)
    assert [row["id"] for row in report["requests"]] == [f"r{k}" for k in range(12)]
    assert set(report["requests"][0]["reuse"]) == {"inf", "1000"}
    assert [(one["kind"], len(one["ids"])) for one in report["breakers"]] == [("timestamp", 12)]


def test_and_for_people_who_wait(requests, monkeypatch):
    monkeypatch.setattr(verb, "PROGRESS", 5)
    result = run(requests, "--prefill-rate", 1_000)
    assert "(a time stamp); moving it to the end saves" in result.stdout.splitlines()[0]
    assert re.search(r"saves \d+\.\d prefill seconds an hour \(\d+\.\d % of its prompt tokens\)", result.stdout)
    assert RULES[40:80] not in result.stdout
    assert "10 requests read" in result.stderr
    assert "no text" not in result.stderr


def test_lines_without_a_prompt_are_counted(tmp_path):
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join([json.dumps({"id": "x", "path": "/v1/models"}), json.dumps(request(1))]))
    result = run(path, "--json")
    assert "1 of 2 lines hold no prompt" in result.stderr
    assert len(json.loads(result.stdout)["requests"]) == 1


@pytest.mark.parametrize("text", ["{", "[1]"], ids=["broken", "no-object"])
def test_a_line_that_is_no_request_is_named(tmp_path, text):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    result = run(path)
    assert result.exit_code == USAGE
    assert "holds no requests (line 1: " in result.stderr
    assert result.stderr.endswith(f"; {WANTS}\n")


def test_a_file_without_a_prompt_is_no_file_of_requests(tmp_path):
    path = tmp_path / "one.json"
    path.write_text('{"a": 1}\n{"b": 2}\n')
    result = run(path)
    assert (result.exit_code, result.stdout) == (USAGE, "")
    assert result.stderr == f"phasegate: {path}: holds no requests (none of 2 lines has a prompt); {WANTS}\n"


def test_an_empty_file_holds_nothing_yet(tmp_path):
    path = tmp_path / "records.jsonl"
    path.touch()
    result = run(path)
    assert (result.exit_code, f"phasegate: {path}: holds nothing yet\n" in result.stderr) == (0, True)


@pytest.mark.parametrize(("name", "got"), [("", "Is a directory"), ("gone", "No such file or directory")])
def test_what_is_no_file_is_told_what_is_wanted(tmp_path, name, got):
    result = run(tmp_path / name)
    assert (result.exit_code, result.stderr) == (USAGE, f"phasegate: {tmp_path / name}: {got}; {WANTS}\n")


def test_a_store_is_read_as_the_records_that_it_keeps(tmp_path):
    bins = (("hit", 64), ("compulsory", 36))
    prefix = PrefixVerdict(block=16, tokens=100, expected=64, attainable=64, infinite=64, bins=bins)
    exporter = SqliteExporter(tmp_path / "s.db")
    exporter.export(record("a", prefix=prefix))
    exporter.close()
    report = json.loads(run(tmp_path / "s.db", "--json").stdout)
    assert report["engines"][0]["bins"]["hit"] == 64


def test_records_without_an_audit_are_said_to_have_none(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"v": 1, "engine": "one"}\n')
    assert "no prompt of these 1 records was audited (prefixes.audit)" in run(path).stderr


def test_a_trace_of_block_ids_is_audited(tmp_path):
    path = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 0, "input_length": 1_200, "output_length": 1, "hash_ids": [1, 2, 3]}] * 2
    path.write_text("\n".join(map(json.dumps, rows)))
    report = json.loads(run("--trace", path, "--capacity", 512, "--json").stdout)
    assert report["vllm_rule_infinite"] == round(1_024 / 2_400, 6)
    assert report["vllm_rule_lru"] == {"512": round(512 / 2_400, 6)}
    assert "unlimited" in run("--trace", path).stdout


def test_records_of_a_proxy_are_summed(tmp_path):
    path = tmp_path / "records.jsonl"
    bins = {"hit": 64, "structural": 6, "compulsory": 30}
    prefix = {"expected": 64, "reported": 64, "attainable": 64, "infinite": 64, "bins": bins}
    read = {"v": 1, "engine": "one", "tokens": {"prompt": 100}, "prefix": prefix}
    unsaid = {**read, "tokens": {"prompt": None}}  # a running proxy does not count it either
    rows = [read, unsaid, {"v": 1, "engine": "one"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    result = run(path)
    assert result.stdout.splitlines()[0] == "ideal 64.0 %, attainable 64.0 %, delivered 64.0 %"
    assert "records hold no text" in result.stderr
    (engine,) = json.loads(run(path, "--json").stdout)["engines"]
    assert (engine["requests"], engine["bins"]["hit"]) == (1, 64)


def test_the_families_that_a_proxy_named_are_in_its_records(tmp_path):
    path = tmp_path / "records.jsonl"
    bins = {"hit": 64, "structural": 6, "compulsory": 30}
    about = {"v": 1, "engine": "one", "model": "m", "tokens": {"prompt": 100}}
    known = {**about, "prefix": {"family": "f0a1", "infinite": 64, "bins": bins}}
    first = {**about, "prefix": {"family": "f0a1", "infinite": 0, "bins": {"compulsory": 100}}}
    rows = [first, known, {**about, "prefix": {"family": None, "infinite": 64, "bins": bins}}, about]
    path.write_text("\n".join(map(json.dumps, rows)))
    (family,) = json.loads(run(path, "--json").stdout)["families"]
    sums = {"requests": 2, "prompt_tokens": 200, "reuse": 64, "hit_requests": 1}
    assert family == {"family": "f0a1", "engine": "one", "model": "m", **sums}
    assert "f0a1    2         200            32.0 %" in run(path).stdout


def test_nothing_to_audit_is_a_mistake():
    for nothing in ((), ("",)):
        assert (run(*nothing).exit_code, WANTS in run(*nothing).stderr) == (USAGE, True)


def test_a_source_and_a_trace_are_not_audited_together(requests):
    result = run(requests, "--trace", requests)
    assert (result.exit_code, "not both" in result.stderr) == (USAGE, True)


@pytest.mark.parametrize("options", [("--block", 16), ("--capacity", 1_000)], ids=["block", "capacity"])
def test_a_size_of_ones_own_says_nothing_of_what_a_proxy_has_audited(tmp_path, options):
    """It was ignored, and its table was missing unsaid."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(to_json(record(prefix=PrefixVerdict(16, 9, bins=(("hit", 9),)))) + b"\n")
    assert run(path).exit_code == 0
    for source in (path, "http://127.0.0.1:9"):
        result = run(source, *options)
        assert (result.exit_code, f"{options[0]} says nothing" in result.stderr) == (USAGE, True)


def test_a_rate_is_for_people(requests):
    assert run(requests, "--prefill-rate", 1_000, "--json").exit_code == USAGE


def test_one_bad_line_costs_one_request(tmp_path):
    path = tmp_path / "some.jsonl"
    odd = [b"\xff\xfe", b'{"output_text": 5}', b'{"t_s": 1e308}', b"[]", b"", b"[" * 100_000]
    path.write_bytes(b"\n".join([json.dumps(request(1)).encode(), *odd, json.dumps(request(2)).encode()]))
    result = run(path, "--json")
    assert result.exit_code == 0
    assert [row["id"] for row in json.loads(result.stdout)["requests"]] == ["r1", "r2"]
    assert "5 lines are no requests; left out (line 2: " in result.stderr


TRACED = {"timestamp": 0, "input_length": 1_200, "output_length": 1, "hash_ids": [1, 2, 3]}
RECORDED = {
    **{"v": 1, "engine": "one", "tokens": {"prompt": 70}},
    "prefix": {"expected": 64, "reported": 64, "attainable": 64, "infinite": 64, "bins": {"hit": 64, "compulsory": 6}},
}


@settings(deadline=None)
@given(
    content=st.one_of(lines(request(1)), lines(RECORDED), lines(TRACED)),
    options=st.sampled_from([(), ("--json",), ("--block", 1), ("--capacity", 10**12, "--prefill-rate", 1e-9)]),
    source=st.sampled_from([(), ("--trace",)]),
)
def test_whatever_a_file_holds_the_audit_ends_in_order_and_steers_no_terminal(content, options, source):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.jsonl"
        path.write_bytes(content)
        result = run(*options, *source, path)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in (0, USAGE)
    assert is_plain(result.stdout)
    assert is_plain(result.stderr)


@pytest.mark.parametrize(
    "rows",
    [[{**TRACED, "input_length": -100}], [{**TRACED, "input_length": 10**13}], [{**TRACED, "input_length": 0}], []],
    ids=["negative", "absurd", "none", "empty"],
)
def test_a_trace_without_a_prompt_says_so(tmp_path, rows):
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    result = run("--trace", path)
    assert (result.exit_code, result.stdout) == (USAGE, "")
    assert result.stderr.startswith(f"phasegate: {path}: holds no ")


def test_a_trace_of_prompts_shorter_than_a_block_has_no_rate_of_blocks(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps({"input_length": 5, "hash_ids": []}))
    report = json.loads(run("--trace", path, "--json").stdout)
    assert (report["block_hit_rate"], report["hits_over_full_blocks"], report["vllm_rule_infinite"]) == (
        None,
        None,
        0.0,
    )


def test_requests_within_a_moment_tell_nothing_of_an_hour(tmp_path):
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(json.dumps({**request(k), "t_s": k * 1e-300}) for k in range(12)))
    report = json.loads(run(path, "--json").stdout)
    assert ["observed_s" in one or "tokens_per_hour" in one for one in report["breakers"]] == [False]


@pytest.mark.parametrize(
    "options",
    [
        ("--prefill-rate", "nan"), ("--prefill-rate", "inf"), ("--prefill-rate", "0"), ("--capacity", "0"),
        ("--capacity", "9" * 400), ("--block", "0"), ("--block", "9" * 20),
    ],
)  # fmt: skip
def test_an_absurd_option_is_a_usage_error(requests, options):
    result = run(requests, *options)
    assert (result.exit_code, options[0] in result.stderr) == (USAGE, True)


@pytest.mark.parametrize("address", ["http://", "http://[::1", "http://u:secret@127.0.0.1:9", "http://a b/"])
def test_an_address_that_cannot_be_asked_is_said_in_one_line_without_its_password(address):
    result = run(address)
    assert result.exit_code in (USAGE, UNREACHABLE)
    assert len(result.stderr.splitlines()) == 1
    assert "secret" not in result.stderr
