import asyncio
import json
from typing import Any

from proxy.sim.jobs import Truth
from proxy.sim.server import as_line, build
from tests.sim.asgi import CHAT, Exchange, HurriedClock, play, vllm


def test_two_requests_may_have_the_same_id() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        await asyncio.gather(*(Exchange(server, "POST", "/v1/chat/completions", CHAT, "same").run() for _ in "ab"))
        assert len({truth.id for truth in truths}) == 2
        assert {json.loads(as_line(truth))["request"] for truth in truths} == {"chatcmpl-same"}

    play(vllm(), scene)


def test_a_client_that_leaves_frees_the_engine() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        long = Exchange(server, "POST", "/v1/chat/completions", {**CHAT, "max_tokens": 900, "stream": True})
        running = asyncio.create_task(long.run())
        await long.begun.wait()
        long.left.set()
        await running
        await Exchange(server, "POST", "/v1/chat/completions", CHAT).run()
        assert [truth.aborted for truth in truths] == [True, False]
        page = b"".join((await Exchange(server, "GET", "/metrics").run()).writes).decode()
        assert 'num_requests_running{engine="0",model_name="m"} 0.0' in page
        assert 'request_queue_time_seconds_count{engine="0",model_name="m"} 1.0' in page

    play(vllm(), scene)


def test_a_truth_line_has_moments_and_durations() -> None:
    truth = Truth(
        id="a", arrived_ns=1, queued_ns=3, scheduled_ns=6, first_token_ns=10, last_token_ns=20, prompt_tokens=5
    )
    line = json.loads(as_line(truth))
    assert [line[f"{phase}_ns"] for phase in ("step_wait", "queue", "prefill", "decode")] == [2, 3, 4, 10]


def test_other_scopes_are_ignored() -> None:
    server = build(vllm(), HurriedClock())
    asyncio.run(server({"type": "websocket"}, None, None))  # type: ignore[arg-type]
