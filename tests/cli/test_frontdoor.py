"""Heads are let in or denied, whatever parser stands behind us; nothing malformed reaches the application."""

import asyncio
from typing import Any

import pytest

from proxy.cli import frontdoor
from proxy.cli.heads import WAITING
from tests.support.clock import VirtualLoop, run
from tests.support.pipe import Visit, turns

GET = b"GET /a HTTP/1.1\r\nHost: p\r\n\r\n"


class Echo:
    """Answers with the body it got; keeps every scope, and whether its client left."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.left = 0
        self.hold: asyncio.Event | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left += 1
                return
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        if self.hold is not None:
            await self.hold.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


def visit(*parts: bytes) -> tuple[bytes, Echo, Visit]:
    """What a client that sends these parts gets back."""
    app = Echo()

    async def main(loop: VirtualLoop) -> tuple[bytes, Echo, Visit]:
        it = Visit(app, loop)
        return await it.send(*parts), app, it

    return run(main)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, id="two hosts"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: \r\n\r\n", 400, id="empty host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, id="host with a space"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, id="host with a path"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, id="host with userinfo"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a:x\r\n\r\n", 400, id="host with an odd port"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, id="host with half a literal"),
        pytest.param(b"GET / HTTP/1.0\r\nHost: a b\r\n\r\n", 400, id="odd host in HTTP/1.0"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
                     id="length and chunked"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400,
                     id="chunked and length"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", 400,
                     id="two lengths"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\n", 400, id="a list of lengths"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\n", 400, id="a signed length"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, id="gzip first"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400, id="gzip last"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                     400, id="chunked twice"),
        pytest.param(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, id="chunked in HTTP/1.0"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", 400, id="obs-fold"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n\r\n", 400, id="bare CR"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n", 400, id="NUL"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n", 400, id="space before the colon"),
        pytest.param(b"GET / HTTP/1.1\nHost: a\n\n", 400, id="bare LF"),
        pytest.param(b"GET /\r\n\r\n", 505, id="HTTP/0.9"),
        pytest.param(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, id="HTTP/2 spoken as 1"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, id="HTTP/2"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", 400, id="TLS"),
        pytest.param(b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n", 501, id="CONNECT"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 100 + b"\r\n", 431, id="too many fields"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", 431, id="too large"),
        pytest.param(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431, id="target too large"),
    ],
)  # fmt: skip
def test_a_head_that_is_not_let_in_is_answered_here_counted_and_the_connection_closes(head: bytes, status: int) -> None:
    for parts in ([head], [head[i : i + 1024] for i in range(0, len(head), 1024)]):
        out, app, it = visit(*parts, GET)
        assert out.startswith(b"HTTP/1.1 %d " % status)
        assert b'{"error":{"message":"' in out
        assert b"connection: close" in out
        assert out.count(b"HTTP/1.1") == 1
        assert (app.scopes, it.gate.malformed) == ([], 1)
        assert "eof" in it.pipe.events


@pytest.mark.parametrize(
    "host", [b"a", b"a:80", b"[::1]:80", b"a.b-c_d", b"127.0.0.1:8800", b"[fe80::1%25eth0]", b"a:"]
)
def test_any_well_formed_host_is_let_in(host: bytes) -> None:
    out, _, _ = visit(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
    assert out.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("target", "exact", "path", "query"),
    [
        (b"/a%2Fb?c=%20&d", b"/a%2Fb?c=%20&d", "/a/b", b"c=%20&d"),
        (b"//a//b", b"//a//b", "//a//b", b""),
        (b"/a#b?c", b"/a#b?c", "/a", b"c"),
        (b"/%E4%BD%A0\\\"<>{}|^`'", b"/%E4%BD%A0\\\"<>{}|^`'", "/你\\\"<>{}|^`'", b""),
        (b"/?", b"/?", "/", b""),
        (b"*", b"*", "*", b""),
        (b"http://x:80/a?b", b"/a?b", "/a", b"b"),
        (b"http://x?b", b"/?b", "/", b"b"),
        (b"http://x", b"/", "/", b""),
    ],
)
def test_the_target_reaches_the_application_byte_for_byte(target: bytes, exact: bytes, path: str, query: bytes) -> None:
    _, app, _ = visit(b"OPTIONS %b HTTP/1.1\r\nHost: p\r\n\r\n" % target)
    (scope,) = app.scopes
    assert scope["extensions"]["phasegate.target"] == exact
    assert (scope["path"], scope["query_string"]) == (path, query)


def test_header_values_keep_their_bytes_and_lose_only_white_space_around_them() -> None:
    _, app, _ = visit(b"GET / HTTP/1.1\r\nHost: p\r\nA:  \xc3\xa9\xff b \t\r\nA: c\r\n\r\n")
    assert app.scopes[0]["headers"] == [(b"host", b"p"), (b"a", b"\xc3\xa9\xff b"), (b"a", b"c")]


def test_a_trailer_does_not_become_a_header() -> None:
    _, app, _ = visit(
        b"POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"2;x=y\r\nhi\r\n0\r\nAuthorization: x\r\n\r\n",
    )
    assert app.bodies == [b"hi"]
    assert [name for name, _ in app.scopes[0]["headers"]] == [b"host", b"transfer-encoding"]


def test_pipelined_requests_are_answered_in_order_and_the_idle_timer_does_not_run_meanwhile() -> None:
    post = b"POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 1\r\n\r\n"

    async def main(loop: VirtualLoop) -> None:
        app = Echo()
        app.hold = asyncio.Event()
        it = Visit(app, loop)
        assert await it.send(post + b"1" + post + b"2" + post + b"3") == b""
        await asyncio.sleep(100)
        assert it.pipe.events == []
        app.hold.set()
        out = await it.send()
        assert [answer[-1:] for answer in out.split(b"HTTP/1.1 200 OK")[1:]] == [b"1", b"2", b"3"]
        await asyncio.sleep(74)
        assert it.pipe.events == []
        await asyncio.sleep(2)
        assert it.pipe.events == ["close"]

    run(main)


def test_of_thousands_of_pipelined_requests_the_first_are_answered_and_the_rest_denied_at_once() -> None:
    app = Echo()

    async def main(loop: VirtualLoop) -> tuple[bytes, Visit]:
        it = Visit(app, loop)
        begun = await it.send(GET * 9_000)
        await asyncio.sleep(1)
        return begun + await it.send(), it

    out, it = run(main)
    assert len(app.scopes) == 1 + WAITING
    assert out.count(b"HTTP/1.1 200 OK") == 1 + WAITING
    *_, last = out.split(b"HTTP/1.1 ")
    assert last.startswith(b"429 ")
    assert it.pipe.events[-1:] == ["close"] or "eof" in it.pipe.events
    assert it.gate.malformed == 1


def test_a_client_that_leaves_is_missed_by_the_running_exchange_also_when_another_request_waits() -> None:
    async def main(loop: VirtualLoop) -> None:
        left = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            left.append(scope["path"])

        it = Visit(app, loop)
        await it.send(GET + GET)
        assert "pause" not in it.pipe.events
        await it.leave()
        assert left == ["/a"]

    run(main)


@pytest.mark.parametrize("before", [False, True], ids=["while it is watched", "before it is watched"])
def test_a_client_that_leaves_is_told_of_once_to_whoever_asked(before: bool) -> None:
    async def main(loop: VirtualLoop) -> None:
        left: list[str] = []
        asks, ends = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await asks.wait()
            scope["extensions"]["phasegate.gone"](lambda: left.append(scope["path"]))
            await ends.wait()

        it = Visit(app, loop)
        await it.send(GET)
        if before:
            await it.leave()
        asks.set()
        await turns()
        await it.leave()
        assert left == ["/a"]
        ends.set()

    run(main)


@pytest.mark.parametrize("lost", [None, ConnectionResetError()], ids=["closed", "reset"])
def test_nothing_is_kept_of_a_client_that_is_gone(lost: Exception | None) -> None:
    async def main(loop: VirtualLoop) -> None:
        it = Visit(Echo(), loop)
        assert await it.send(GET)
        assert it.door.timeout_keep_alive_task is not None
        it.door.connection_lost(lost)
        assert it.door.timeout_keep_alive_task is None

    run(main)


@pytest.mark.parametrize(
    ("stated", "sent", "missed"), [(b"2", b"hi", []), (b"3", b"hi", ["/a"])], ids=["all of it", "less"]
)
def test_a_client_that_has_all_that_the_length_states_does_not_leave_early(
    stated: bytes, sent: bytes, missed: list[str]
) -> None:
    async def main(loop: VirtualLoop) -> None:
        left: list[str] = []
        ends, ended = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scope["extensions"]["phasegate.gone"](lambda: left.append(scope["path"]))
            head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", stated)]}
            await send(head)
            await send({"type": "http.response.body", "body": sent, "more_body": True})
            await ends.wait()  # the copy is looked at
            await send({"type": "http.response.body", "body": b""})
            ended.set()

        it = Visit(app, loop)
        await it.send(GET)
        await it.leave()
        assert left == missed
        ends.set()
        await ended.wait()

    run(main)


def test_a_client_that_leaves_after_its_answer_is_told_of_to_nobody() -> None:
    async def main(loop: VirtualLoop) -> None:
        left: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scope["extensions"]["phasegate.gone"](lambda: left.append(scope["path"]))
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            assert "phasegate.gone" not in scope["extensions"]

        it = Visit(app, loop)
        await it.send(GET)
        await it.leave()
        assert left == []

    run(main)


def test_many_waiting_requests_pause_reading() -> None:
    async def main(loop: VirtualLoop) -> None:
        app = Echo()
        app.hold = asyncio.Event()
        it = Visit(app, loop)
        await it.send(GET * 17)
        assert it.pipe.events == []
        await it.send(GET)
        assert it.pipe.events == ["pause"]
        app.hold.set()
        await turns(200)
        assert (await it.send()).count(b"200 OK") == 18
        assert it.pipe.events == ["pause", "resume"]

    run(main)


def test_malformed_bytes_behind_a_good_request_are_answered_after_it() -> None:
    async def main(loop: VirtualLoop) -> None:
        app = Echo()
        app.hold = asyncio.Event()
        it = Visit(app, loop)
        assert await it.send(GET + b"\x00\x00") == b""
        app.hold.set()
        out = await it.send()
        assert [line[:12] for line in out.split(b"\r\n") if line.startswith(b"HTTP")] == [
            b"HTTP/1.1 200",
            b"HTTP/1.1 400",
        ]
        assert it.pipe.events == ["eof"]

    run(main)


def test_a_waiting_request_whose_body_breaks_is_denied_and_never_begins() -> None:
    async def main(loop: VirtualLoop) -> None:
        app = Echo()
        app.hold = asyncio.Event()
        it = Visit(app, loop)
        await it.send(GET + b"POST /b HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        app.hold.set()
        out = await it.send()
        assert out.count(b"HTTP/1.1 400") == 1
        assert [scope["path"] for scope in app.scopes] == ["/a"]

    run(main)


def test_an_exchange_whose_body_breaks_is_told_that_its_client_is_gone() -> None:
    out, app, it = visit(b"POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", b"zz\r\n")
    assert out.startswith(b"HTTP/1.1 400 ")
    assert (app.left, it.gate.malformed) == (1, 1)


def test_a_response_under_way_is_broken_off_when_the_request_body_breaks() -> None:
    async def main(loop: VirtualLoop) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass

        it = Visit(app, loop)
        out = await it.send(b"POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n", b"zz\r\n")
        assert out.endswith(b"\r\n\r\n1\r\nx\r\n")
        assert it.pipe.events == ["close"]

    run(main)


@pytest.mark.parametrize(
    ("first", "status"), [(b"", b""), (b"GET / HT", b"HTTP/1.1 408 "), (GET + b"G", b"HTTP/1.1 408 ")]
)
def test_a_head_that_does_not_end_in_time_ends_the_connection(first: bytes, status: bytes) -> None:
    async def main(loop: VirtualLoop) -> None:
        it = Visit(Echo(), loop)
        await it.send(first)
        await asyncio.sleep(frontdoor.HEAD_S - 1)
        assert await it.send() == b""
        await asyncio.sleep(2)
        assert (await it.send()).startswith(status)
        await asyncio.sleep(frontdoor.HEAD_S)
        assert "close" in it.pipe.events

    run(main)


def test_a_slow_next_head_does_not_end_the_exchange_before_it() -> None:
    async def main(loop: VirtualLoop) -> None:
        app = Echo()
        app.hold = asyncio.Event()
        it = Visit(app, loop)
        await it.send(GET + b"G")
        await asyncio.sleep(frontdoor.HEAD_S * 3.5)
        assert it.pipe.events == []
        app.hold.set()
        assert (await it.send()).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(frontdoor.HEAD_S)
        assert (await it.send()).startswith(b"HTTP/1.1 408")

    run(main)


def test_a_head_in_many_small_pieces_is_let_in() -> None:
    head = b"GET / HTTP/1.1\r\nHost: p\r\nA: " + b"b" * 40_000 + b"\r\n\r\n"
    out, _, _ = visit(*[head[i : i + 1000] for i in range(0, len(head), 1000)])
    assert out.startswith(b"HTTP/1.1 200")


def test_an_upgrade_reaches_the_application_as_a_request_and_nothing_behind_it_is_http() -> None:
    head = b"GET /v1/realtime HTTP/1.1\r\nHost: p\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    out, app, it = visit(head + GET, GET)
    assert out.count(b"HTTP/1.1") == 1
    assert (b"upgrade", b"websocket") in app.scopes[0]["headers"]
    assert b"connection: close" in out
    assert it.pipe.events == ["close"]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(
    "framing", [b"Content-Length: 2\r\n\r\nhi", b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"]
)
def test_an_offer_of_h2c_is_ignored_and_the_body_is_read(framing: bytes, split: bool) -> None:
    head = b"POST / HTTP/1.1\r\nHost: p\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n"
    whole = head + framing + GET
    parts = [whole[i : i + 1] for i in range(len(whole))] if split else [whole]
    out, app, it = visit(*parts)
    assert app.bodies == [b"hi", b""]
    assert out.count(b"HTTP/1.1 200 OK") == 2
    assert it.pipe.events == []


def test_an_offer_of_h2c_without_a_body_is_a_plain_request() -> None:
    out, app, _ = visit(
        b"GET / HTTP/1.1\r\nHost: p\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n\r\n"
        + GET
    )
    assert (out.count(b"HTTP/1.1 200 OK"), app.bodies) == (2, [b"", b""])


def test_shutting_down_closes_an_idle_connection_and_lets_a_running_exchange_end() -> None:
    async def main(loop: VirtualLoop) -> None:
        idle = Visit(Echo(), loop)
        idle.door.shutdown()
        assert idle.pipe.events == ["close"]
        app = Echo()
        busy = Visit(app, loop)
        await busy.send(b"POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 2\r\n\r\nh")
        busy.door.shutdown()
        out = await busy.send(b"i")
        assert out.endswith(b"hi")
        assert busy.pipe.events == ["close"]

    run(main)
