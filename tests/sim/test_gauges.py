import asyncio
from typing import Any

import pytest

from proxy.sim.jobs import Truth
from tests.sim.asgi import CHAT, Exchange, play, vllm


def test_metrics_agree_with_the_truth() -> None:
    async def scene(server: Any, truths: list[Truth]) -> None:
        runs = [Exchange(server, "POST", "/v1/chat/completions", CHAT, str(index)).run() for index in range(5)]
        await asyncio.gather(*runs)
        page = b"".join((await Exchange(server, "GET", "/metrics").run()).writes).decode()
        values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        labels = '{engine="0",model_name="m"}'
        for phase in ("queue", "prefill", "decode"):
            said = float(values[f"vllm:request_{phase}_time_seconds_sum{labels}"])
            assert said == pytest.approx(sum(getattr(truth, f"{phase}_ns") for truth in truths) / 1e9)
        assert float(values[f"vllm:generation_tokens_total{labels}"]) == 20
        assert float(values[f"vllm:prefix_cache_queries_total{labels}"]) == sum(t.prompt_tokens for t in truths)
        assert float(values[f'vllm:time_to_first_token_seconds_bucket{labels[:-1]},le="+Inf"}}']) == 5

    play(vllm(sequences=1), scene)
