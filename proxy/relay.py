"""Calls to engines: one call, one `Answer`, errors of `proxy.errors`.

httpx is the joint: a `Relay` works with any `httpx.AsyncBaseTransport` (`transport.Wire`, or a scripted one), and its
errors become ours here.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence

import httpx

from proxy.errors import ConnectTimeout, EngineBroke, EngineTimeout, EngineUnreachable, Fault, ProxyError
from proxy.headers import Pair
from proxy.line import Taker

Body = bytes | AsyncIterable[bytes] | None
"""A request's body: whole, as it comes, or none."""

FETCH_LIMIT = 1024 * 1024
"""Bytes of a look-up's answer that are kept; a model list of thousands of names has less."""
BODILESS = frozenset(("GET", "HEAD", "DELETE", "OPTIONS", "TRACE"))
"""Methods whose empty body needs no content-length (RFC 9110 8.6)."""

ERRORS: Mapping[type[httpx.HTTPError], tuple[type[ProxyError], str]] = {
    httpx.ConnectTimeout: (ConnectTimeout, "no connection to the engine at {engine} in time"),
    httpx.ConnectError: (EngineUnreachable, "cannot reach the engine at {engine}: {error}"),
    httpx.TimeoutException: (EngineTimeout, "the engine at {engine} took too long"),
    httpx.RemoteProtocolError: (EngineBroke, "the answer of the engine at {engine} is not HTTP"),
    httpx.LocalProtocolError: (Fault, "the proxy could not write the request"),
    httpx.HTTPError: (EngineBroke, "the engine at {engine} broke the connection"),
}
"""First match counts. No text of the engine is repeated: it may quote the prompt."""


class Answer:
    """An engine's answer: its head, and its body as it comes. Who has one closes it."""

    def __init__(self, response: httpx.Response, body: httpx.AsyncByteStream, authority: str) -> None:
        self.status = response.status_code
        self.headers = response.headers.raw
        self._body = body
        self._chunks = body.__aiter__()
        self._authority = authority
        self._hand_to = response.extensions.get("hand_to")

    def hand_to(self, taker: Taker) -> None:
        """From now on `taker` is offered what comes while somebody waits for it here, as soon as it comes."""
        if self._hand_to is not None:
            self._hand_to(taker)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The bytes of the next socket read; EngineBroke where the framing breaks off."""
        try:
            return await self._chunks.__anext__()
        except httpx.HTTPError as error:
            raise _ours(error, self._authority) from error

    async def aclose(self) -> None:
        """Closes the engine's connection at once if the answer is not whole; harmless when it is, or done again."""
        await self._body.aclose()


class Relay:
    """Calls to engines, each one attempt (the transport's declared retry apart)."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def call(
        self,
        url: httpx.URL,
        method: str,
        target: bytes,
        headers: Sequence[Pair],
        body: Body,
        *,
        connect_timeout_s: float | None,
        sent: Callable[[], None] = lambda: None,
    ) -> Answer:
        """The head of the engine's answer to this request.

        `url` says where the engine is, and nothing else; `target` goes on the request line as it is. Bytes get a true
        `content-length`; a stream keeps the one in `headers`, or is chunked. `sent` is called when the operating system
        has the whole request. Raises EngineFailed's leaves; what `body` raises comes through.
        """
        request = httpx.Request(
            method,
            url,
            headers=_framed(method, headers, body),
            stream=httpx.ByteStream(body or b"") if body is None or isinstance(body, bytes) else _Upload(body),
            extensions={"target": target, "timeout": {"connect": connect_timeout_s}, "sent": sent},
        )
        authority = url.netloc.decode("ascii")
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.HTTPError as error:
            raise _ours(error, authority) from error
        assert isinstance(response.stream, httpx.AsyncByteStream)
        return Answer(response, response.stream, authority)

    async def fetch(
        self, url: httpx.URL, target: str, timeout_s: float, also: Sequence[Pair] = (), body: bytes | None = None
    ) -> tuple[int, list[Pair], bytes]:
        """A look-up of our own: status, headers, and at most `FETCH_LIMIT` bytes of the answer's body.

        GET, or POST with a JSON `body`. `also`: headers beside those that every look-up has (a key).

        Raises EngineFailed's leaves; EngineTimeout where all of it takes more than `timeout_s`.
        """
        ours = [(b"host", url.netloc), (b"accept", b"*/*"), (b"accept-encoding", b"identity"), *also]
        if body is not None:
            ours.append((b"content-type", b"application/json"))
        try:
            async with asyncio.timeout(timeout_s):
                method = "GET" if body is None else "POST"
                answer = await self.call(url, method, target.encode("latin-1"), ours, body, connect_timeout_s=timeout_s)
                try:
                    return answer.status, answer.headers, await _gathered(answer, FETCH_LIMIT)
                finally:
                    await answer.aclose()
        except TimeoutError as error:
            raise EngineTimeout(f"the engine at {url.netloc.decode('ascii')} took too long") from error

    async def aclose(self) -> None:
        """Closes idle connections."""
        await self._transport.aclose()


class _Upload(httpx.AsyncByteStream):
    """A streamed request body, in httpx's shape."""

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks.__aiter__()


def _framed(method: str, headers: Sequence[Pair], body: Body) -> list[Pair]:
    """The headers with exactly one true statement of the body's length, where there is a body."""
    others = [pair for pair in headers if pair[0] != b"content-length"]
    if not (body is None or isinstance(body, bytes)):  # asking for AsyncIterable takes ten times as long
        return [*headers] if len(others) < len(headers) else [*headers, (b"transfer-encoding", b"chunked")]
    if body or (body is not None and method not in BODILESS):
        others.append((b"content-length", b"%d" % len(body)))
    return others


async def _gathered(answer: Answer, limit: int) -> bytes:
    """The body's first bytes, `limit` at most; the rest is not read."""
    body = b""
    async for chunk in answer:
        body += chunk
        if len(body) >= limit:
            break
    return body[:limit]


def _ours(error: httpx.HTTPError, authority: str) -> ProxyError:
    kind, words = next(leaf for theirs, leaf in ERRORS.items() if isinstance(error, theirs))
    return kind(words.format(engine=authority, error=error))
