"""The audit of a running proxy, and of what is none."""

import json
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from click.testing import CliRunner

from proxy.cli import UNREACHABLE, USAGE
from proxy.cli.audit import WHERE, audit
from tests.support.hostile import ESCAPE, is_plain


def run(*arguments):
    return CliRunner().invoke(audit, list(map(str, arguments)))


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


def test_what_is_wrong_with_an_answer_is_said(admin, monkeypatch):
    breaker = {"family": "F", "kind": "date", "fix": "move", "role": "system", "message": 0, "char": 9, "requests": 9}
    breaker |= {"tokens_saved": 900, "excerpts": [], "observed_s": -5.0}
    report = {"totals": {"ideal": 0.5}, "breakers": [breaker]}
    monkeypatch.setattr(Answering, "body", json.dumps(report).encode())
    result = run(admin)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (USAGE, "", 1)
    assert "no audit there (Expected `float` >= 0.0 - at `$.breakers[0].observed_s`); give" in result.stderr


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


def test_a_token_that_cannot_be_sent_is_said(admin):
    result = run(admin, "--token", "a\nb")
    assert (result.exit_code, len(result.stderr.splitlines())) == (USAGE, 1)
