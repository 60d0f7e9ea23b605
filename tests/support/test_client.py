"""The scripted client against a few lines of ASGI."""

import asyncio
from typing import Any

from tests.support.client import Answer, App, Receive, Request, Scope, ScriptedClient, Send, simple_request
from tests.support.clock import START_NS, VirtualLoop, run

MS = 1_000_000


def ask(app: App, request: Request, **more: Any) -> Answer:
    async def main(loop: VirtualLoop) -> Answer:
        return await ScriptedClient(loop, app, **more).ask(request)

    return run(main)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body, one second after it is whole."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await asyncio.sleep(1)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"A", b"1"), (b"A", b"2")]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def test_an_answer_has_bytes_times_and_an_end() -> None:
    answer = ask(echo, simple_request(b"hello"))
    assert (answer.status, answer.body, answer.end) == (200, b"hello", "complete")
    assert answer.headers == [("a", "1"), ("a", "2")]
    assert answer.head_ns == START_NS + 1000 * MS


def test_a_body_in_pieces_arrives_with_its_last() -> None:
    request = Request(pieces=((0, b"he"), (40 * MS, b"llo")))
    answer = ask(echo, request)
    assert (answer.body, answer.arrived_ns - answer.began_ns) == (b"hello", 40 * MS)
    assert answer.head_ns == START_NS + 1040 * MS


def test_a_request_without_a_body_is_one_empty_message() -> None:
    assert ask(echo, simple_request()).body == b""


def test_a_client_that_leaves_hears_nothing_more() -> None:
    gone: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        gone.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    answer = ask(app, simple_request(b"x", leaves_ns=300 * MS))
    assert (gone, answer.status, answer.end) == (["http.disconnect"], None, None)
    assert answer.left_ns == START_NS + 300 * MS


def test_an_app_that_stops_in_the_middle_breaks_the_answer_off() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("bug")

    answer = ask(app, simple_request(b"x"))
    assert answer.end == "aborted"
    assert isinstance(answer.raised, RuntimeError)


def test_the_client_is_told_gone_after_its_answer() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await echo(scope, receive, send)
        seen.append((await receive())["type"])

    ask(app, simple_request(b"x"))
    assert seen == ["http.disconnect"]
