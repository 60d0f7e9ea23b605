"""Nothing of a prompt's text is in what phasegate writes or shows: two processes, before `phasegate sim`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.processes import Child, status, until
from tests.support.loopback import free_port

START_S = 40.0
MODEL = "llama-3.1-8b"
SECRET = "quokka"
"""Planted wherever a client can put text of its own."""

RULES = "You answer questions about the railway. Be brief, be kind, and never promise a refund. " * 12


def chat(number: int) -> dict[str, Any]:
    """A prompt that breaks the cache early, by a secret, with secrets in all parts."""
    call = {"name": f"find_{SECRET}", "arguments": json.dumps({"who": f"{SECRET}-argument"})}
    return {
        "model": MODEL,
        "max_tokens": 4,
        "stream": number % 2 == 0,
        "tools": [{"type": "function", "function": {"name": f"find_{SECRET}", "description": f"{SECRET}-tool"}}],
        "messages": [
            {"role": "system", "content": f"Ticket {SECRET}-{number * 7919:08x}. {RULES}"},
            {"role": "user", "content": [{"type": "text", "text": f"{SECRET}-question {number}"}]},
            {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": "1", "content": f"{SECRET}-result"},
        ],
    }


def wrong() -> Iterator[tuple[str, bytes]]:
    """What engines and readers complain about."""
    yield "/v1/chat/completions", b'{"messages": [{"role": "user", "content": "' + SECRET.encode()
    yield "/v1/chat/completions", json.dumps({"model": MODEL, "messages": f"{SECRET}-messages"}).encode()
    yield "/v1/completions", json.dumps({"model": MODEL, "prompt": {SECRET: SECRET}}).encode()
    yield "/v1/completions", json.dumps({"model": MODEL, "prompt": f"{SECRET} " * 200_000}).encode()
    yield "/v1/nowhere", json.dumps({"prompt": SECRET}).encode()


class Product:
    """phasegate, logging all it can, before the embedded engine; stopped by `stop`."""

    def __init__(self, folder: Path) -> None:
        engine, listen, self.admin_port = free_port(), free_port(), free_port()
        self.url, self.admin = f"http://127.0.0.1:{listen}", f"http://127.0.0.1:{self.admin_port}"
        self.records, self.store, self.state = folder / "r.jsonl", folder / "r.db", folder / "state.json"
        settings = folder / "phasegate.toml"
        settings.write_text(
            f'log_level = "debug"\nrecords = "{self.records}"\nstore = "{self.store}"\nstate = "{self.state}"\n'
        )
        run = [sys.executable, "-m", "proxy"]
        self.sim = Child([*run, "sim", "--port", str(engine), "--speed", "100"])
        where = ["--upstream", f"http://127.0.0.1:{engine}", "--listen", f"127.0.0.1:{listen}"]
        self.gate = Child([*run, "serve", *where, "--admin", f"127.0.0.1:{self.admin_port}", "--config", str(settings)])

    def wait(self) -> None:
        until(lambda: status(self.admin + "/readyz") == 200, START_S, lambda: self.sim.said + self.gate.said)

    def stop(self) -> None:
        self.gate.stop()
        self.sim.stop()

    def page(self, path: str) -> str:
        return httpx.get(self.admin + path, timeout=START_S).text

    def pages(self) -> dict[str, str]:
        """All that the admin listener shows."""
        listed = [line for line in self.page("/").split() if line.startswith("/")]
        return {path: self.page(path) for path in [*listed, "/api/requests?limit=1000"]}


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    started = Product(tmp_path)
    try:
        started.wait()
        yield started
    finally:
        started.stop()


@pytest.mark.timeout(120)
def test_no_text_of_a_prompt_is_written_or_shown(product: Product, tmp_path: Path) -> None:
    with httpx.Client(base_url=product.url, timeout=START_S) as client:
        for number in range(30):
            assert client.post("/v1/chat/completions", json=chat(number), headers={"x-request-id": f"r{number}"}).text
        answers = [
            client.post(path, content=body, headers={"content-type": "application/json"}) for path, body in wrong()
        ]
        assert max(answer.status_code for answer in answers) >= 400
        with client.stream("POST", "/v1/completions", json={"model": MODEL, "prompt": SECRET, "stream": True}) as left:
            next(left.iter_raw())
    until(
        lambda: bool(json.loads(product.page("/api/prefixes"))["breakers"]),
        START_S,
        lambda: product.page("/api/prefixes"),
    )
    pages = product.pages()
    product.gate.stop()
    written = {path.name: path.read_bytes().decode("utf-8", "replace") for path in tmp_path.iterdir() if path.is_file()}
    assert {"r.jsonl", "r.db", "state.json"} <= written.keys()
    for name in ("r.jsonl", "r.db"):
        assert "r29" in written[name], "what is looked through must hold what it is for"
    assert {
        "/metrics",
        "/api/requests",
        "/api/prefixes",
        "/api/config",
        "/api/engines",
        "/api/findings",
    } <= pages.keys()
    assert "r29" in pages["/api/requests?limit=1000"]
    for name, text in {**pages, **written, "log": product.gate.said}.items():
        assert SECRET not in text.lower(), f"{name}: {text[max(0, text.lower().find(SECRET) - 200) :][:400]}"
        assert "railway" not in text, name
