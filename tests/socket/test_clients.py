"""Real client libraries at the front door: what they do when they are refused, and that they get their answers."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import ollama
import openai
import pytest

from proxy.app import DataApp
from proxy.cli.listener import Listener
from proxy.clock import SystemClock
from proxy.config import Settings
from proxy.messages import Message
from proxy.records import Finished, Outcome
from proxy.transport import Wire
from tests.support.loopback import Peer, engine

PER_MINUTE = 20
"""So that the one after the last waits for a second, as it is told."""

HANG_UP_S = 0.05
"""For the engine to see that nobody will ask it any more."""

ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": None}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"}


async def answering(peer: Peer) -> None:
    """An engine that answers every chat in one piece."""
    while True:
        head = (await peer.head()).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        await peer.reader.readexactly(length)
        body = json.dumps({**ANSWER, "choices": [CHOICE]}).encode()
        status = b"200 OK" if length else b"404 Not Found"
        peer.say(b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body)))
        peer.say(body)


@contextlib.asynccontextmanager
async def phasegate(**limits: Any) -> AsyncIterator[tuple[str, list[Finished]]]:
    """Its address, and the records that leave it."""
    left: list[Finished] = []

    def took(message: Message) -> None:
        if isinstance(message, Finished):
            left.append(message)

    async with engine(answering) as port:
        tree = {"upstream": [{"url": f"http://127.0.0.1:{port}"}], "limit": [{"name": "trial", **limits}]}
        app = DataApp(msgspec.convert(tree, Settings), clock=SystemClock(), transport=Wire(), send=took)
        listener = Listener(app, "127.0.0.1", 0)
        await listener.start()
        try:
            yield f"http://127.0.0.1:{listener.addresses[0][1]}", left
        finally:
            listener.stop_accepting()
            listener.abort()
            await app.aclose()
            await asyncio.sleep(HANG_UP_S)


def test_the_openai_client_backs_off_as_told_and_succeeds():
    async def main() -> None:
        async with (
            phasegate(requests_per_minute=PER_MINUTE) as (address, left),
            openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k") as client,
        ):

            async def ask() -> str | None:
                question = [{"role": "user", "content": "The capital of France?"}]
                answer = await client.chat.completions.create(model="m", messages=question)
                return answer.choices[0].message.content

            start = time.monotonic()
            for _ in range(PER_MINUTE):
                assert await ask() == "Paris."
            assert await ask() == "Paris."
            assert 3.0 <= time.monotonic() - start < 20.0, "a place comes free three seconds after the first was taken"
            assert [one.outcome for one in left[-2:]] == [Outcome.SHED, Outcome.COMPLETED]
            refused = left[-2]
            assert (refused.status, refused.admission.rule, refused.admission.reason) == (
                429,
                "trial.requests_per_minute",
                "rate_requests",
            )

    asyncio.run(main())


def test_the_openai_client_shows_why_a_prompt_is_too_long():
    async def main() -> None:
        async with (
            phasegate(max_prompt_tokens=100) as (address, _),
            openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k") as client,
        ):
            question = [{"role": "user", "content": "Why? " * 2000}]
            with pytest.raises(openai.BadRequestError) as caught:
                await client.chat.completions.create(model="m", messages=question)
            assert caught.value.code == "context_length_exceeded"
            assert "trial" in caught.value.message
            assert "100" in caught.value.message

    asyncio.run(main())


def test_the_ollama_client_shows_the_message():
    async def main() -> None:
        async with phasegate(max_prompt_tokens=100) as (address, left), ollama.AsyncClient(host=address) as client:
            with pytest.raises(ollama.ResponseError) as caught:
                await client.chat(model="m", messages=[{"role": "user", "content": "Why? " * 2000}])
            assert caught.value.status_code == 400
            assert "trial" in caught.value.error
            assert left[-1].outcome is Outcome.REFUSED or left[-1].admission.reason == "prompt_too_long"

    asyncio.run(main())


REASON = {"observe": "prompt_too_long", "off": None}


def test_observing_changes_not_one_byte():
    async def main() -> None:
        bodies = []
        for mode in ("observe", "off"):
            async with (
                phasegate(max_prompt_tokens=1, requests_per_minute=1, max_output_tokens=1, mode=mode) as (
                    address,
                    left,
                ),
                openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k") as client,
            ):
                for _ in range(3):
                    answer = await client.chat.completions.with_raw_response.create(
                        model="m", messages=[{"role": "user", "content": "x" * 400}], max_tokens=9
                    )
                    named = {name.lower(): value for name, value in answer.headers.items() if name != "x-request-id"}
                    bodies.append((answer.status_code, answer.content, named))
                assert all(one.outcome is Outcome.COMPLETED for one in left)
                assert [one.admission.reason for one in left[1:]] == [REASON[mode]] * 2
        assert all(body == bodies[0] for body in bodies)

    asyncio.run(main())
