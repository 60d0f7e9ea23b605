"""Field cases that the vocabulary cannot express: what happens when one of the product's processes is not alone."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cases.case import Case
from tests.cases.product import series
from tests.cases.shipped import Shipped
from tests.support.client import Answer, SocketClient, simple_request
from tests.support.engine import SocketEngine
from tests.support.script import NOT_FOUND, OK, Call, Read, Script

BODY = b'{"model":"m1","messages":[{"role":"user","content":"Say hi"}]}'
SLOW = Script(headers=OK.headers, reads=(Read(6_000_000_000, OK.reads[0].data),))
RESTART_S = 15.0


def test_FC_130_more_than_one_worker_is_refused_at_start_with_the_reason() -> None:
    command = [sys.executable, "-m", "proxy", "serve", "--workers", "2"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert re.search(r"workers.*(one|all of an engine's traffic)", result.stderr, re.DOTALL | re.IGNORECASE)


def test_FC_131_counters_outlive_the_process_that_shows_them_and_the_gauge_does_not_lie(tmp_path: Path) -> None:
    """The office is killed with three requests in flight; its successor knows them, and the five before."""

    def choose(call: Call) -> Script:
        if not call.header("x-request-id"):
            return NOT_FOUND
        return SLOW if call.target.endswith("?slow") else OK

    async def main() -> None:
        engine = SocketEngine(choose)
        await engine.start()
        product = Shipped(Case("FC-131", {"steps": []}, ()), [f"http://{engine.name}"], tmp_path)
        await product.start()
        try:
            client = SocketClient("127.0.0.1", product.port)
            for _ in range(5):
                await client.ask(simple_request(BODY))
            slow = [asyncio.create_task(ask_slowly(client)) for _ in range(3)]
            await asyncio.sleep(1)
            os.kill(office_of(product), signal.SIGKILL)
            assert (await metric(product, "in_flight", 3)) == 3
            answers = await asyncio.gather(*slow)
            assert [answer.status for answer in answers] == [200, 200, 200]
            assert (await metric(product, "in_flight", 0)) == 0
            assert (await metric(product, "requests", 8)) == 8
        finally:
            await product.stop()
            await engine.stop()

    asyncio.run(main())


async def ask_slowly(client: SocketClient) -> Answer:
    return await client.ask(simple_request(BODY, "/v1/chat/completions?slow"))


def office_of(product: Shipped) -> int:
    """The one child of the data process."""
    children = Path(f"/proc/{product.pid}/task/{product.pid}/children").read_text().split()
    (office,) = map(int, children)
    return office


async def metric(product: Shipped, name: str, expected: float) -> float | None:
    """A number of the exposition, once it is what is expected or time is up; the office may just be starting."""
    end_s, value = time.monotonic() + RESTART_S, None
    while value != expected and time.monotonic() < end_s:
        try:
            value = series(await product.scrape(), name)
        except OSError:
            await asyncio.sleep(0.2)
    return value
