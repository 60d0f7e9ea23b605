import gzip
import json
import re
import socket
import tempfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.cli import UNREACHABLE, USAGE
from proxy.cli import audit as verb
from proxy.cli.audit import WANTS, WHERE, audit
from proxy.exporters.sqlite import SqliteExporter
from proxy.records import PrefixVerdict
from tests.prefixes.breakers.apps import rules
from tests.support.hostile import ESCAPE, is_plain, lines
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
    assert re.search(r"saves \d+\.\d s of prefill an hour \(\d+\.\d % of its prompt tokens\)", result.stdout)
    assert RULES[40:80] not in result.stdout
    assert "10 requests read" in result.stderr


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
    rows = [{"v": 1, "engine": "one", "prefix": prefix}, {"v": 1, "engine": "one"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    result = run(path)
    assert result.stdout.splitlines()[0] == "ideal 64.0 %, attainable 64.0 %, delivered 64.0 %"
    assert json.loads(run(path, "--json").stdout)["engines"][0]["bins"]["hit"] == 64


def test_the_families_that_a_proxy_named_are_in_its_records(tmp_path):
    path = tmp_path / "records.jsonl"
    bins = {"hit": 64, "structural": 6, "compulsory": 30}
    about = {"v": 1, "engine": "one", "model": "m"}
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


class Answering(BaseHTTPRequestHandler):
    body = b""
    token = None
    missing = 404

    def do_GET(self):
        if self.headers["authorization"] != self.token:
            self.send_error(401)
            return
        self.send_response(200 if self.path == "/api/prefixes" else self.missing)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def admin():
    server = HTTPServer(("127.0.0.1", 0), Answering)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_guarded_proxy_is_asked_with_its_token(admin, monkeypatch):
    report = {"totals": {"ideal": 0.5, "attainable": None, "delivered": 0.25}, "breakers": []}
    monkeypatch.setattr(Answering, "body", json.dumps(report).encode())
    monkeypatch.setattr(Answering, "token", "Bearer t0k")
    result = run(admin)
    assert (result.exit_code, "give it as --token or PHASEGATE_ADMIN_TOKEN" in result.stderr) == (USAGE, True)
    assert run(admin, "--token", "t0k").exit_code == 0


def test_a_running_proxy_is_asked(admin, monkeypatch):
    report = {"totals": {"ideal": 0.5, "attainable": None, "delivered": 0.25}, "breakers": []}
    report["families"] = [{"family": "F", "requests": 40, "prompt_tokens": 4_000, "reuse": 2_000}]
    monkeypatch.setattr(Answering, "body", json.dumps(report).encode())
    assert run(admin).stdout.splitlines()[0] == "ideal 50.0 %, delivered 25.0 %; nothing breaks the prefixes"


def test_what_is_no_proxy_is_said_to_be_none(admin, monkeypatch):
    monkeypatch.setattr(Answering, "body", b"hello")
    result = run(admin)
    assert result.exit_code == USAGE
    assert "no audit there" in result.stderr


def test_what_is_no_admin_listener_is_said_to_be_none(admin, monkeypatch):
    result = run(admin + "/elsewhere")
    assert (result.exit_code, len(result.stderr.splitlines())) == (USAGE, 1)
    assert "no admin listener of phasegate is there (404 Not Found); give http://HOST:PORT" in result.stderr
    monkeypatch.setattr(Answering, "missing", 503)
    assert run(admin + "/elsewhere").exit_code == UNREACHABLE


def test_a_proxy_that_is_not_there_cannot_be_reached():
    result = run("http://127.0.0.1:9")
    assert result.exit_code == UNREACHABLE
    assert result.stderr == f"phasegate: http://127.0.0.1:9: Connection refused; give {WHERE}\n"


@pytest.mark.parametrize(
    ("scheme", "greets", "says"),
    [
        ("http", b"SSH-2.0-OpenSSH_9.2\r\n", "what listens there speaks no HTTP"),
        ("http", b"", "Remote end closed connection without response"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "no TLS that can be trusted is spoken there"),
    ],
)
def test_what_speaks_something_else_is_said_to(scheme, greets, says):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=greet, args=(listener, greets))
        thread.start()
        address = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        result = run(address)
        thread.join()
    assert (result.exit_code, result.stderr) == (UNREACHABLE, f"phasegate: {address}: {says}; give {WHERE}\n")


def greet(listener, greets):
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(greets)


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
    **{"v": 1, "engine": "one"},
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


@pytest.mark.parametrize(
    "body", [b"[]", b"5", b"{}", b'{"totals": 1}', b'{"totals": {}, "breakers": [{}]}', b"[" * 100_000, b"\xff"]
)
def test_an_answer_of_another_shape_is_no_audit(admin, monkeypatch, body):
    monkeypatch.setattr(Answering, "body", body)
    result = run(admin)
    assert (result.exit_code, "no audit there" in result.stderr) == (USAGE, True)


def test_names_in_an_answer_steer_no_terminal(admin, monkeypatch):
    breaker = {
        **{"family": ESCAPE, "kind": ESCAPE, "fix": ESCAPE, "role": ESCAPE, "message": 0, "char": 1, "requests": 9},
        **{"tokens_saved": 5, "excerpts": [ESCAPE]},
    }
    report = {"totals": {"ideal": 0.5}, "breakers": [breaker]}
    monkeypatch.setattr(Answering, "body", json.dumps(report).encode())
    result = run(admin)
    assert (result.exit_code, is_plain(result.stdout)) == (0, True)
    assert len(result.stdout.splitlines()) == 3
    assert is_plain(run(admin, "--json").stdout)


@pytest.mark.parametrize("address", ["http://", "http://[::1", "http://u:secret@127.0.0.1:9", "http://a b/"])
def test_an_address_that_cannot_be_asked_is_said_in_one_line_without_its_password(address):
    result = run(address)
    assert result.exit_code in (USAGE, UNREACHABLE)
    assert len(result.stderr.splitlines()) == 1
    assert "secret" not in result.stderr


def test_a_token_that_cannot_be_sent_is_said(admin):
    result = run(admin, "--token", "a\nb")
    assert (result.exit_code, len(result.stderr.splitlines())) == (USAGE, 1)
