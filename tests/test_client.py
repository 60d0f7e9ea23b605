"""One ASGI connection as an exchange uses it."""

import asyncio
from typing import Any

import pytest

from proxy.client import Client, Scope, Watch
from proxy.errors import BodyTooLarge, ClientGone

Message = dict[str, Any]

LEAVES: Message = {"type": "http.disconnect"}


def piece(body: bytes, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def scope(**changes: Any) -> Scope:
    made = {
        "type": "http",
        "method": "POST",
        "path": "/v1/é",
        "raw_path": b"/v1/%C3%A9",
        "query_string": b"",
        **changes,
    }
    return {"headers": [], **made}


class Server:
    """The server's half: what it has received, one message after the other, and what it was given to send."""

    def __init__(self, *messages: Message) -> None:
        # All state: messages not yet taken, and those that were sent.
        self._messages = list(messages)
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        return self._messages.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)


def client(*messages: Message, headers: tuple[tuple[bytes, bytes], ...] = (), **changes: Any) -> Client:
    server = Server(*messages)
    return Client(scope(headers=list(headers), **changes), server.receive, server.send)


def test_the_target_is_the_exact_bytes_where_the_listener_gives_them() -> None:
    exact = {"extensions": {"phasegate.target": bytearray(b"/v1/%c3%a9?a=%2F")}}
    assert client(**exact).target == b"/v1/%c3%a9?a=%2F"


@pytest.mark.parametrize(
    ("changes", "target"),
    [
        ({}, b"/v1/%C3%A9"),
        ({"query_string": b"a=1"}, b"/v1/%C3%A9?a=1"),
        ({"raw_path": None}, "/v1/é".encode()),
    ],
    ids=["path", "query", "no_raw_path"],
)
def test_under_another_server_the_target_is_put_together(changes: Message, target: bytes) -> None:
    assert client(**changes).target == target


def test_a_header_is_its_first_line() -> None:
    one = client(headers=((b"a", b"1"), (b"a", b"2")))
    assert one.header(b"a") == b"1"
    assert one.header(b"b") is None


@pytest.mark.parametrize("name", [b"content-length", b"transfer-encoding"])
def test_a_body_is_announced_by_its_framing(name: bytes) -> None:
    assert client(headers=((name, b"0"),)).has_body
    assert not client().has_body


@pytest.mark.parametrize(
    ("value", "wanted"), [(b" WebSocket ", "WebSocket"), (b"h2c", None), (b"H2C", None), (b"", None)]
)
def test_an_upgrade_is_wanted_except_the_one_that_may_be_ignored(value: bytes, wanted: str | None) -> None:
    assert client(headers=((b"upgrade", value),)).upgrade == wanted
    assert client().upgrade is None


def test_a_preflight_is_an_options_that_names_the_method_to_come() -> None:
    asks = ((b"access-control-request-method", b"POST"),)
    assert client(headers=asks, method="OPTIONS").preflight
    assert not client(headers=asks).preflight
    assert not client(method="OPTIONS").preflight


def test_the_address_is_the_peers_and_unknown_without_one() -> None:
    assert client(client=("10.0.0.7", 4)).address == "10.0.0.7"
    assert client().address is None
    assert client(client=None).address is None


def test_a_body_in_pieces_is_put_together_and_a_whole_one_is_not_copied() -> None:
    whole = b"x" * 1000
    assert asyncio.run(client(piece(b"a", True), piece(b"", True), piece(b"b")).body(2)) == b"ab"
    assert asyncio.run(client(piece(whole)).body(1000)) is whole
    assert asyncio.run(client({"type": "http.request"}).body(0)) == b""


def test_a_body_that_is_announced_as_too_large_is_not_read() -> None:
    announced = client(headers=((b"content-length", b"11"),))
    with pytest.raises(BodyTooLarge, match=r"11 bytes, over the limit of 10 \(body_limit_bytes\)"):
        asyncio.run(announced.body(10))


def test_zeros_in_front_of_a_length_change_nothing_and_each_piece_is_heard() -> None:
    heard: list[None] = []
    padded = client(piece(b"a", True), piece(b"b"), headers=((b"content-length", b"0" * 5_000 + b"2"),))
    assert asyncio.run(padded.body(2, lambda: heard.append(None))) == b"ab"
    assert len(heard) == 2


@pytest.mark.parametrize("announced", [b"10", b"nonsense", b"-1"])
def test_a_body_that_grows_too_large_is_read_no_further(announced: bytes) -> None:
    one = client(piece(b"x" * 10, True), piece(b"x", True), headers=((b"content-length", announced),))
    with pytest.raises(BodyTooLarge, match="more than 10 bytes"):
        asyncio.run(one.body(10))


def test_a_body_of_the_limit_is_taken() -> None:
    assert len(asyncio.run(client(piece(b"x" * 10)).body(10))) == 10


def test_a_client_that_leaves_while_it_sends_is_gone() -> None:
    one = client(piece(b"a", True), LEAVES)
    with pytest.raises(ClientGone):
        asyncio.run(one.body(100))
    assert one.gone


def test_left_returns_when_the_client_has_left() -> None:
    one = client(piece(b""), LEAVES)
    asyncio.run(one.left())
    assert one.gone


def test_a_response_is_start_pieces_end() -> None:
    server = Server()
    one = Client(scope(), server.receive, server.send)

    async def respond() -> None:
        await one.start(200, [(b"a", b"1")])
        assert (one.status, one.ended) == (200, False)
        await one.send(b"x")
        await one.end()

    asyncio.run(respond())
    assert one.ended
    assert server.sent == [
        {"type": "http.response.start", "status": 200, "headers": [(b"a", b"1")]},
        {"type": "http.response.body", "body": b"x", "more_body": True},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ]


def test_an_end_that_the_client_does_not_take_is_none() -> None:
    async def main() -> None:
        one = Client(scope(), Server().receive, lambda message: asyncio.get_running_loop().create_future())
        ending = asyncio.ensure_future(one.end())
        await asyncio.sleep(0)
        ending.cancel()
        await asyncio.wait((ending,))
        assert not one.ended

    asyncio.run(main())


def test_an_answer_of_our_own_is_whole() -> None:
    server = Server()
    one = Client(scope(), server.receive, server.send)
    asyncio.run(one.answer(503, [], b"no"))
    assert (one.status, one.ended) == (503, True)
    assert [message.get("body") for message in server.sent] == [None, b"no"]
    assert server.sent[-1]["more_body"] is False


def test_an_abort_is_the_listeners_and_nothing_elsewhere() -> None:
    broken: list[str] = []
    client(extensions={"phasegate.abort": lambda: broken.append("off")}).abort()
    client().abort()
    assert broken == ["off"]


def test_a_listener_may_write_at_once_and_elsewhere_what_is_sent_may_always_wait() -> None:
    written: list[bytes] = []
    rooms = iter((written.append, None))
    one = client(extensions={"phasegate.room": lambda: next(rooms)})
    write = one.room()
    assert write is not None
    write(b"x")
    assert (written, one.room(), client().room()) == ([b"x"], None, None)


def test_a_watch_asks_the_listener_where_it_can_tell_and_needs_no_task() -> None:
    told: list[str] = []
    asked: list[Any] = []
    one = client(extensions={"phasegate.gone": asked.append})
    watch = Watch(one, lambda: told.append("left"))
    asked[0]()
    assert (told, one.gone) == (["left"], True)
    watch.close()
    asked[0]()
    assert told == ["left"]


def test_a_watch_tells_of_the_leaving_once_and_not_after_it_was_closed() -> None:
    told: list[str] = []

    async def watched(close: bool) -> None:
        watch = Watch(client(LEAVES), lambda: told.append("left"))
        if close:
            watch.close()
        for _ in range(3):
            await asyncio.sleep(0)

    asyncio.run(watched(close=False))
    asyncio.run(watched(close=True))
    assert told == ["left"]
