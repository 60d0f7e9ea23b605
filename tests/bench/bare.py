"""The bare relay: raw ASGI on uvicorn, and an aiohttp session. Nothing is observed, kept, limited or repaired.

python -m tests.bench.bare PORT ENGINE_URL
"""

import asyncio
import sys
from typing import Any

import aiohttp
import uvicorn
import uvloop
from yarl import URL

DROPPED = frozenset((b"host", b"connection", b"content-length", b"transfer-encoding"))


class Bare:
    """The application."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
            )
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        url = URL(self._engine + scope["raw_path"].decode(), encoded=True)
        headers = [(k.decode(), v.decode("latin-1")) for k, v in scope["headers"] if k not in DROPPED]
        async with self._session.request(scope["method"], url, headers=headers, data=body) as answer:
            back = [(k, v) for k, v in answer.raw_headers if k.lower() not in DROPPED]
            await send({"type": "http.response.start", "status": answer.status, "headers": back})
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def main(port: int, engine: str) -> None:
    config = uvicorn.Config(
        Bare(engine), port=port, http="httptools", ws="none", lifespan="off", access_log=False, log_level="error",
        proxy_headers=False, server_header=False, date_header=False,
    )  # fmt: skip
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]), sys.argv[2]))
