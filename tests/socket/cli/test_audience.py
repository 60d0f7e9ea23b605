import asyncio
import json
from collections.abc import Sequence

import pytest

from proxy.cli.audience import Audience, Call, Heard, Unanswered

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
WORD = b'data: {"choices":[{"delta":{"content":" word"}}]}\n\n'
DONE = b"data: [DONE]\n\n"

CALL = Call("one", "short", "hello", 5, system="be brief")


class CountingClock:
    """Every look is a second later."""

    def __init__(self) -> None:
        self.looks = 0

    def now_ns(self) -> int:
        self.looks += 1
        return self.looks * 1_000_000_000

    def wall_s(self) -> float:
        return 0.0


async def heard_from(answer: Sequence[bytes], asked: list[bytes], gate: asyncio.Semaphore | None = None) -> Heard:
    """What an audience of one hears from an engine that writes `answer`, piece by piece, and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        asked.append(head + await reader.readexactly(length))
        for piece in answer:
            writer.write(piece)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        audience = Audience(server.sockets[0].getsockname()[1], "m", CountingClock())
        return await audience.call(CALL, gate)


def hear(*answer: bytes) -> tuple[Heard, bytes]:
    asked: list[bytes] = []
    return asyncio.run(heard_from(answer, asked)), asked[0]


def test_every_token_gets_a_stamp_and_the_role_none() -> None:
    heard, _ = hear(HEAD + ROLE + WORD + WORD, WORD + DONE)
    assert len(heard.stamps) == 3
    assert heard.done
    assert heard.ttft_s is not None
    assert heard.ttft_s > 0


def test_the_request_is_a_streamed_chat_with_its_id() -> None:
    _, asked = hear(HEAD + WORD + DONE)
    head, _, body = asked.partition(b"\r\n\r\n")
    said = json.loads(body)
    assert b"x-request-id: one" in head
    assert said["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    assert (said["model"], said["max_tokens"], said["stream"]) == ("m", 5, True)


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 503 Service Unavailable\r\n\r\n", HEAD + WORD, b""],
    ids=["refused", "broken off", "silent"],
)
def test_an_answer_without_its_end_is_none(answer: bytes) -> None:
    with pytest.raises(Unanswered, match="one: "):
        hear(answer)


def test_a_gate_is_held_until_the_first_token_and_no_longer() -> None:
    async def scene() -> None:
        gate = asyncio.Semaphore(1)
        heard = await heard_from([HEAD + WORD, WORD + DONE], [], gate)
        assert not gate.locked()
        assert len(heard.stamps) == 2

    asyncio.run(scene())


def test_gaps_are_those_that_end_in_the_interval() -> None:
    heard = Heard(CALL, 0, [1_000_000_000, 2_000_000_000, 4_000_000_000, 9_000_000_000])
    assert heard.gaps(2_000_000_001, 9_000_000_000) == [2.0]
    assert Heard(CALL, 0).ttft_s is None
