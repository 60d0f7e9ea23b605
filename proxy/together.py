"""All engines as one, for a list of their models."""

import asyncio
from collections.abc import Sequence

import httpx

from proxy.config import Upstream
from proxy.engine import Engine, Sent
from proxy.engines.lists import merge
from proxy.errors import EngineUnreachable
from proxy.headers import KEYS, REQUEST_ID, Pair
from proxy.relay import Answer, Body

ASKING = (REQUEST_ID, b"origin")
"""What engines are told of who asks for a list, beside the key: whose request it is, and for which page."""

LIST_S = 5.0
"""How long one engine may take to list its models, before the others are told without it."""


class Together(Engine):
    """All engines that count as one, for a list of their models."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        first = engines[0]
        super().__init__(
            Upstream(url=first.upstream.url, name="all"), first.relay, lambda _: first.door, lambda _: first.desk
        )
        self._engines = engines

    async def call(
        self, method: str, target: bytes, headers: Sequence[Pair], body: Body, connect_s: float, sent: Sent
    ) -> Answer:
        """One list from all that have one, else what the first said instead. Raises EngineUnreachable where none
        answers. What asks for no list (a browser's preflight) goes to the first engine."""
        engines = [engine for engine in self._engines if engine.counts]
        if method not in ("GET", "HEAD"):
            return await engines[0].call(method, target, headers, body, connect_s, sent)
        also = [pair for pair in headers if pair[0] in KEYS or pair[0] in ASKING]
        asked = (engine.fetch(target.decode("latin-1"), LIST_S, also) for engine in engines)
        answers = [answer for answer in await asyncio.gather(*asked) if answer is not None]
        sent()
        if not answers:
            raise EngineUnreachable("no engine answers with a list of its models")
        lists = [answer for answer in answers if answer[0] == 200]
        status, said, refusal = (lists or answers)[0]
        whole = merge(each[2] for each in lists) if lists else refusal
        response = httpx.Response(status, headers=[pair for pair in said if _of_list(pair[0].lower())])
        return Answer(response, httpx.ByteStream(b"" if method == "HEAD" else whole), self.name)


def _of_list(name: bytes) -> bool:
    """A field that is true of all lists told as one: its length or its tag would not be."""
    return name in (b"content-type", b"vary", b"www-authenticate") or name.startswith(b"access-control-")
