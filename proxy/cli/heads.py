"""Heads of requests: what llhttp lets through and RFC 9112 does not, and how malformed HTTP is answered."""

import re

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.headers import Pair

_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+(%25[\w.~-]+)?\]|[\w.~!$&'()*+,;=%-]+)(:[0-9]{0,5})?", re.ASCII)
# RFC 9110 7.2: uri-host and an optional port.
_ABSOLUTE = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
WAITING = 256
"""Requests of one connection that may wait for their turn: a full read holds 9,000 heads, and each takes 10 us. Nobody
who means them has as many on the way; a client that pipelines must bear a close (RFC 9112 9.3.2)."""


class Denied(Exception):
    """This head is not let in."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def answer(self) -> bytes:
        """The whole response, in OpenAI's words: no dialect is known yet. The connection closes after it."""
        reason = str(self).encode("ascii", "replace").replace(b"\\", b"/").replace(b'"', b"'")
        body = b'{"error":{"message":"%b","type":"invalid_request_error","param":null,"code":null}}' % reason
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        return STATUS_LINE[self.status] + head + body


def check(version: str, method: bytes, headers: list[Pair], waiting: int = 0) -> None:
    """Raises Denied for a head that is not to be let in; names of `headers` are lower case, `waiting` is how many
    requests of this connection wait before it."""
    fields, names = dict(headers), [name for name, _ in headers]
    host, coding = fields.get(b"host", b"-" if version == "1.0" else b""), fields.get(b"transfer-encoding")
    if version not in ("1.0", "1.1"):
        raise Denied(505, f"HTTP/{version} is not spoken here")
    if names.count(b"host") > 1 or not _HOST.fullmatch(host):
        raise Denied(400, "exactly one well-formed Host is required")  # RFC 9112 3.2
    if method == b"CONNECT":
        raise Denied(501, "CONNECT is not served here")
    if coding is not None and version == "1.0":
        raise Denied(400, "HTTP/1.0 has no transfer-encoding")  # RFC 9112 6.1
    if coding is not None and (coding.lower() != b"chunked" or names.count(b"transfer-encoding") > 1):
        raise Denied(501, "no transfer-encoding but chunked is understood")
    if waiting >= WAITING:
        raise Denied(429, f"more than {WAITING} requests wait on this connection")


def expects_continue(headers: list[Pair]) -> bool:
    """The client waits for leave to send its body (RFC 9110 10.1.1)."""
    return any(value.lower() == b"100-continue" for name, value in headers if name == b"expect")


def origin_form(target: bytes) -> bytes:
    """The target without scheme and authority, which are ours (RFC 9112 3.2.2); every other byte as it came."""
    if target.startswith(b"/"):
        return target
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        return target  # `*`, or the authority of a CONNECT
    rest = target[absolute.end() :]
    return rest if rest.startswith(b"/") else b"/" + rest
