"""The front door: uvicorn's httptools protocol, stricter about heads and truer about endings.

What uvicorn leaves open and this closes: a head that never ends (time, size, count), a missing or odd `Host`, framing
that two parsers could read differently, trailers that turn into headers, HTTP/1.0 clients that are sent chunks, a
pipelined request whose client left, an unread body that is taken for the next request, `Upgrade: h2c` that eats the
body. Malformed HTTP never reaches the application: it is answered here and counted in `Gate.malformed`.

What the application finds in `scope["extensions"]`:

    phasegate.target  the exact bytes of the request target, in origin form
    phasegate.gone    takes a function, and calls it when the client leaves before it was answered whole
    phasegate.abort   breaks the response off so that the client can tell: chunks stay without the last one, a length
                      stays unmet, and a body that only the connection's end delimits is reset
    phasegate.room    gives what writes a piece of the body at once, or None while the client must be waited for

A WebSocket upgrade reaches it as the plain request that it begins as, to be refused; an offer of h2c is ignored.
"""

import asyncio
import urllib.parse
from enum import Enum
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from proxy.cli.cycle import LINGER_S, Cycle
from proxy.cli.heads import Denied, check, expects_continue, origin_form

HEAD_S = 10.0
"""Seconds from a connection's beginning, or a head's first byte, to the head's end: nginx waits 60, for clients on the
internet; ours are near."""
HEAD_BYTES = 64 * 1024
"""Largest head, in bytes: three times the keys that people complain about; Node's limit is 16 KiB, hyper's 400 KiB."""
HEAD_FIELDS = 100
"""Header lines in a head: Apache's limit."""
PIPELINE = 16
"""Requests of one connection that wait for their turn before reading pauses: a paused socket hides a leaving client."""


class Place(Enum):
    """Where in a connection's bytes the parser is."""

    BETWEEN = "between requests"
    HEAD = "in a head"
    BODY = "in a body"


class Gate(ServerState):
    """What the connections of one listener share."""

    def __init__(self) -> None:
        super().__init__()
        self.malformed = 0
        """Requests answered here because they are no good HTTP: no exchange, no record."""


class FrontDoor(HttpToolsProtocol):
    """One connection of a client.

    Mutable state beside uvicorn's: where the parser is (`_place`), how large the head is as read (`_head_read`) and as
    parsed (`_head_size`), its timer, the cycle that runs now, that nothing more is read (`_deaf`), what is still to be
    said (`_denied`), an h2c upgrade that is being ignored (`_h2c`, `_replaying`).
    """

    server_state: Gate
    pipeline: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._place = Place.BETWEEN
        self._head_read = 0
        self._head_size = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._running: Cycle | None = None
        self._deaf = False
        self._denied: Denied | None = None
        self._h2c = False
        self._replaying = False

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connects: its first head is due."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        if self._deaf:
            return
        self._unset_keepalive_if_required()
        if self._place is not Place.BODY:
            self._head_read += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            self._upgraded(data[stop.args[0] :])
        except httptools.HttpParserError as error:
            self._deny(self._denied or Denied(400, f"malformed HTTP: {error}"))
        else:
            if self._place is Place.HEAD or self._head_read:
                self._head_grows()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left: every exchange of this connection hears of it, also those that are not the newest."""
        self._stop_head_timer()
        self._unset_keepalive_if_required()  # uvicorn does so for a close alone: a reset left all of this for 75 s
        cycles = [cycle for cycle, _ in self.pipeline]
        self.pipeline.clear()
        if self._running is not None:
            cycles.append(self._running)
        for cycle in cycles:
            cycle.gone()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Takes no more requests: closes now, or when the running exchange has ended."""
        self.pipeline.clear()
        if self._running is None:
            self.transport.close()
        else:
            self._running.keep_alive = False

    # --- the parser's callbacks ---

    def on_message_begin(self) -> None:
        """A head begins."""
        if not self._replaying:
            self._place = Place.HEAD
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        if not self._replaying:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header line, whole; or a trailer's, which is dropped: it must not become a header."""
        if self._place is not Place.HEAD or self._replaying:
            return
        headers = self.headers
        self._head_size += len(name) + len(value) + 4
        if len(headers) == HEAD_FIELDS or self._head_size + len(self.url) > HEAD_BYTES:
            self._denied = Denied(431, f"the head is over {HEAD_FIELDS} fields or {HEAD_BYTES} bytes")
            raise self._denied
        headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is here: it is let in, or denied."""
        if self._replaying:
            return
        version = self.parser.get_http_version()
        try:
            check(version, self.parser.get_method(), self.headers, len(self.pipeline))
        except Denied as denied:
            self._denied = denied
            raise
        self._place = Place.BODY
        self._head_read = self._head_size = 0
        self._stop_head_timer()
        cycle = self.cycle = self._cycle(version)
        if self._running is None:
            self._start_asgi_task(cycle, self.app)
        else:
            self.pipeline.appendleft((cycle, self.app))
            if len(self.pipeline) > PIPELINE:
                self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """The request is whole; the next one may begin. An upgrade that is ignored completes when its body does."""
        if self._h2c and not self._replaying:
            return
        super().on_message_complete()
        self._place = Place.BETWEEN

    def on_response_complete(self) -> None:
        """The running exchange has answered: the connection closes, or the next exchange begins."""
        done, self._running = self._running, None
        if done is not None:
            done.forget()
        if done is not None and not done.keep_alive:
            self._part(unread=done.more_body)
        super().on_response_complete()
        if self._denied is not None and self._running is None:
            self._say(self._denied)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        assert isinstance(cycle, Cycle)
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    # --- heads ---

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._head_late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_grows(self) -> None:
        """A part of a head has come, and not its end."""
        if self._head_read > HEAD_BYTES:
            self._deny(Denied(431, f"the head is over {HEAD_BYTES} bytes"))
        else:
            self._expect_head()

    def _head_late(self) -> None:
        self._head_timer = None
        if self._running is not None:
            self._expect_head()
        elif self._head_read or self._place is Place.HEAD:
            self._deny(Denied(408, f"the head was not complete within {HEAD_S:g} s"))
        else:
            self.transport.close()

    def _cycle(self, version: str) -> "Cycle":
        target = origin_form(self.url)
        path, _, query = target.partition(b"?")
        upgrade = self.parser.should_upgrade()
        if upgrade and self._get_upgrade() == b"h2c":
            # RFC 9110 7.8: an upgrade may be ignored. Java's HttpClient offers h2c with its first request.
            self._h2c, upgrade = True, False
        scope: Any = self.scope
        cycle = Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=version == "1.1" and expects_continue(self.headers),
            keep_alive=version == "1.1" and not upgrade and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        scope.update(
            method=self.parser.get_method().decode("ascii"),
            http_version=version,
            path=urllib.parse.unquote(path.partition(b"#")[0].decode("latin-1")),
            raw_path=path,
            query_string=query,
            extensions={"phasegate.target": target, **cycle.extensions()},
        )
        return cycle

    def _upgraded(self, rest: bytes) -> None:
        """llhttp stops behind the head of an upgrade. Nothing that follows is HTTP, save when the upgrade is ignored:
        then another parser, told of the same framing, reads the body and goes on."""
        if not self._h2c:
            self._deaf = True
            return
        framing = [
            b"%b: %b\r\n" % pair for pair in self.headers if pair[0] in (b"content-length", b"transfer-encoding")
        ]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._replaying = True
        self.parser.feed_data(b"".join((b"POST / HTTP/1.1\r\n", *framing, b"\r\n")))
        self._h2c = self._replaying = False
        if rest:
            self.data_received(rest)

    # --- denials and endings ---

    def _deny(self, denied: Denied) -> None:
        """Answers malformed HTTP, after the exchanges before it; a request whose body breaks is told that its client
        is gone."""
        self._deaf = True
        self._denied = denied
        self.server_state.malformed += 1
        if self.pipeline and self.pipeline[0][0].more_body:
            self.pipeline.popleft()
        running = self._running
        if running is None:
            self._say(denied)
        elif running.more_body and running.response_started:
            running.abort()
        elif running.more_body:
            running.disconnected = True
            running.message_event.set()
            self._say(denied)

    def _say(self, denied: Denied) -> None:
        self.transport.write(denied.answer())
        self._part(unread=True)

    def _part(self, *, unread: bool) -> None:
        """Closes when all is written; where the client may still be sending, first our side alone."""
        self._deaf = True
        self._denied = None
        self.pipeline.clear()
        self._stop_head_timer()
        if unread and self.transport.can_write_eof():
            self.transport.write_eof()
            self.loop.call_later(LINGER_S, self.transport.close)
        else:
            self.transport.close()
