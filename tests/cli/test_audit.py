import gzip
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from click.testing import CliRunner

from proxy.cli import UNREACHABLE, USAGE
from proxy.cli import audit as verb
from proxy.cli.audit import audit
from tests.prefixes.breakers.apps import rules

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
    assert "prefill seconds an hour" in result.stdout
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
    assert "line 1" in result.stderr


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


def test_nothing_to_audit_is_a_mistake(tmp_path):
    assert run().exit_code == USAGE
    assert run(tmp_path / "missing.jsonl").exit_code == USAGE


class Answering(BaseHTTPRequestHandler):
    body = b""
    token = None

    def do_GET(self):
        if self.headers["authorization"] != self.token:
            self.send_error(401)
            return
        self.send_response(200 if self.path == "/api/prefixes" else 404)
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
    assert run(admin).exit_code == UNREACHABLE
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


def test_a_proxy_that_is_not_there_cannot_be_reached(admin):
    assert run(admin + "/elsewhere").exit_code == UNREACHABLE
    assert run("http://127.0.0.1:9").exit_code == UNREACHABLE
