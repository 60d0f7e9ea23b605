"""A mixed load as clients make it, with their own clock: what was asked, what was heard and when.

The clients are plain sockets, and the openai library with a stamp at its socket: its own work before the first byte
leaves and after it came takes 5 to 10 ms on a slow machine.
"""

import asyncio
import contextlib
import gc
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import httpx
from openai import AsyncOpenAI

from tests.support.http1 import Body, End, Head, Messages, answer_length, encode_head

LOAD_S = 300.0
"""For one request of a load; waiting at overload included."""

WORDS = ("ship", "left", "harbour", "before", "dawn", "nobody", "on", "quay", "knew", "why", "lamps", "were", "dark")

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of a load."""

    id: str
    path: str
    body: dict[str, Any]
    after_s: float = 0.0
    """When it is sent, from the start of the load."""
    library: bool = False
    """The openai library asks, not plain HTTP."""

    @property
    def streams(self) -> bool:
        """It asks for a stream; Ollama's native routes stream unless told not to."""
        return bool(self.body.get("stream", self.path.startswith("/api/")))


@dataclass(slots=True)
class Heard:
    """What the client got. Times are nanoseconds of the monotonic clock."""

    ask: Ask
    sent_ns: int = 0
    status: int = 0
    first_ns: int | None = None
    """The first token event of a stream."""
    ended_ns: int = 0
    events: list[Event] = field(default_factory=list)

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_ns is None else (self.first_ns - self.sent_ns) / 1e9

    def last(self, key: str) -> Any:
        """The last statement of this key, at the top level of an event."""
        return next((event[key] for event in reversed(self.events) if event.get(key) is not None), None)


def prompt(rng: random.Random, words: int) -> str:
    """A prompt that no cache knows."""
    return " ".join([f"{rng.randrange(10**6)}:", *rng.choices(WORDS, k=words)])


def poisson(rng: random.Random, count: int, per_second: float) -> Iterator[float]:
    """Times of arrival."""
    at = 0.0
    for _ in range(count):
        yield at
        at += rng.expovariate(per_second)


class Wire(httpx.AsyncHTTPTransport):
    """Knows when each of the library's requests was sent, and when the latest bytes of its answer came."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_ns: dict[str, int] = {}
        self.read_ns: dict[str, int] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        id = request.headers["x-request-id"]

        async def trace(event: str, _: object) -> None:
            if event == "http11.send_request_headers.started":
                self.sent_ns[id] = time.monotonic_ns()

        request.extensions["trace"] = trace
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = Stamped(response.stream, partial(self._read, id))
        return response

    def _read(self, id: str) -> None:
        self.read_ns[id] = time.monotonic_ns()


class Stamped(httpx.AsyncByteStream):
    """A body that tells when something came."""

    def __init__(self, stream: httpx.AsyncByteStream, read: Callable[[], None]) -> None:
        self._stream = stream
        self._read = read

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            self._read()
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


def run(url: str, asks: Sequence[Ask], begins: Callable[[], None] = lambda: None) -> list[Heard]:
    """Sends each at its time; what each heard, in the order of `asks`. `begins` is called before the first.

    The library's share runs in a process of its own: what it does with one answer must not delay a stamp of another.
    """
    plain = [ask for ask in asks if not ask.library]
    library = [ask for ask in asks if ask.library]
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        if library:
            # Its first call, and the first of each kind, take it 10 to 100 ms of set-up.
            first = [replace(ask, id=f"first-{ask.id}") for ask in {ask.path: ask for ask in library}.values()]
            other.submit(_by_library, url, first, time.monotonic()).result()
        begins()
        start = time.monotonic() + 0.2
        there = other.submit(_by_library, url, library, start)
        heard = [*_by_socket(url, plain, start), *(there.result() if library else ())]
    by_id = {one.ask.id: one for one in heard}
    return [by_id[ask.id] for ask in asks]


def _by_socket(url: str, asks: Sequence[Ask], start: float) -> list[Heard]:
    async def all_of_them() -> list[Heard]:
        return await asyncio.gather(*(_plainly(url, ask, start) for ask in asks))

    with _undisturbed():
        return asyncio.run(all_of_them())


def _by_library(url: str, asks: Sequence[Ask], start: float) -> list[Heard]:
    async def all_of_them() -> list[Heard]:
        wire = Wire()
        through = httpx.AsyncClient(transport=wire, timeout=LOAD_S)
        async with AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0, http_client=through) as client:
            return await asyncio.gather(*(_created(client, wire, ask, start) for ask in asks))

    with _undisturbed():
        return asyncio.run(all_of_them())


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No collection of garbage: a full one takes tens of milliseconds here."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _at(start: float, ask: Ask) -> None:
    await asyncio.sleep(start + ask.after_s - asyncio.get_running_loop().time())


async def _plainly(url: str, ask: Ask, start: float) -> Heard:
    """A socket: nothing stands between the bytes and the clock."""
    await _at(start, ask)
    place = httpx.URL(url)
    content = json.dumps(ask.body).encode()
    headers = [("host", place.netloc.decode()), ("content-type", "application/json")]
    headers += [("content-length", str(len(content))), ("x-request-id", ask.id)]
    request = encode_head(f"POST {ask.path} HTTP/1.1", headers) + content
    reader, writer = await asyncio.open_connection(place.host, place.port)
    heard = Heard(ask, sent_ns=time.monotonic_ns())
    writer.write(request)
    answer, rest = Messages(partial(answer_length, method="POST")), b""
    try:
        async with asyncio.timeout(LOAD_S):
            while not heard.ended_ns and (data := await reader.read(65536)):
                now = time.monotonic_ns()
                for part in answer.feed(data):
                    rest = _hear(heard, now, part, rest)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return heard


def _hear(heard: Heard, now: int, part: Head | Body | End, rest: bytes) -> bytes:
    """Takes a part of the answer in; what is left of it is an incomplete line."""
    if isinstance(part, Head):
        heard.status = part.status
    elif isinstance(part, Body):
        *lines, rest = (rest + part.data).split(b"\n")
        for line in lines:
            _take(heard, now, _parsed(line))
    else:
        _take(heard, now, _parsed(rest))
        heard.ended_ns = now
    return rest


async def _created(client: AsyncOpenAI, wire: Wire, ask: Ask, start: float) -> Heard:
    create = client.chat.completions.create if ask.path.endswith("chat/completions") else client.completions.create
    heard = Heard(ask)
    await _at(start, ask)
    answer = await create(**ask.body, extra_headers={"x-request-id": ask.id})
    heard.status = 200
    if ask.streams:
        async for chunk in answer:
            _take(heard, wire.read_ns[ask.id], chunk.to_dict())
    else:
        heard.events.append(answer.to_dict())
    heard.sent_ns, heard.ended_ns = wire.sent_ns[ask.id], wire.read_ns[ask.id]
    return heard


def _parsed(line: bytes) -> Event | None:
    line = line.removeprefix(b"data: ").strip()
    return json.loads(line) if line.startswith(b"{") else None


def _take(heard: Heard, now: int, event: Event | None) -> None:
    if event is None:
        return
    heard.events.append(event)
    if heard.first_ns is None and heard.ask.streams and says_something(event):
        heard.first_ns = now


def says_something(event: Event) -> bool:
    """Text, thoughts or a tool call in an event of any dialect."""
    places: list[Event] = [event, event.get("message") or {}]
    for choice in event.get("choices") or []:
        places += [choice, choice.get("delta") or {}]
    keys = ("text", "content", "response", "thinking", "reasoning_content", "reasoning", "tool_calls")
    return any(place.get(key) for place in places for key in keys)
