"""Record what a real vLLM schedules in each step, for `tests/sim/test_steplog.py`.

    python tests/bench/steplog.py logging > logging.json
    VLLM_LOGGING_CONFIG_PATH=logging.json vllm serve MODEL ... > engine.log
    python tests/bench/steplog.py http://127.0.0.1:8000 MODEL engine.log OUT.json.gz

The engine runs with `--max-num-batched-tokens 512 --max-num-seqs 4 --block-size 32 --enable-prefix-caching
--enable-logging-iteration-details`; its log carries precise times. About sixty requests come faster than it can serve:
long and short prompts, shared prefixes, exact repeats, and second turns that repeat an answer.

A prompt is stored as segments `[seed, tokens]`, which `tokens_of` unfolds, or `["answer", request]`.
"""

import asyncio
import gzip
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import httpx

LOGGING = {
    "version": 1,
    "formatters": {"precise": {"format": "%(created).6f %(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "precise", "stream": "ext://sys.stdout"}},
    "loggers": {"vllm": {"handlers": ["out"], "level": "INFO", "propagate": False}},
}
"""Logging configuration for the engine: its own format rounds to seconds."""

STEP = re.compile(
    r"^(?P<at>\d+\.\d+) .*Iteration\((?P<index>\d+)\): (?P<ctx>\d+) context requests, (?P<ctx_tokens>\d+) context "
    r"tokens, (?P<gen>\d+) generation requests, (?P<gen_tokens>\d+) generation tokens, "
    r"iteration elapsed time: (?P<ms>[\d.]+) ms"
)


def tokens_of(seed: int, n: int) -> list[int]:
    """The same `n` token ids for the same seed, on every machine."""
    source = random.Random(seed)
    return [source.randrange(1_000, 40_000) for _ in range(n)]


def workload(seed: int, n: int) -> list[dict[str, Any]]:
    """`n` requests: when to send, prompt segments, output tokens, and whether a second turn follows."""
    source = random.Random(seed)
    at = 0.0
    rows: list[dict[str, Any]] = []
    for i in range(n):
        at += source.expovariate(6.0)
        shared = [[source.choice((11, 12, 13)), source.choice((96, 256, 400))]] if source.random() < 0.5 else []
        own = [[1_000 + i, source.choice((9, 40, 130, 300, 700, 1_400))]]
        repeat = rows[-7]["prompt"] if i % 9 == 8 else None
        rows.append({"at": at, "prompt": repeat or shared + own, "output": source.randrange(4, 90), "turn": i % 6 == 0})
    return rows


def unfold(prompt: list[Any], answers: dict[int, list[int]]) -> list[int]:
    """Token ids of a stored prompt."""
    ids: list[int] = []
    for head, tail in prompt:
        ids += answers[tail] if head == "answer" else tokens_of(head, tail)
    return ids


class Recorder:
    """Sends the workload and notes, per request, when the engine took it and what it answered."""

    def __init__(self, client: httpx.AsyncClient, model: str) -> None:
        self.client, self.model = client, model
        self.answers: dict[int, list[int]] = {}
        self.rows: list[dict[str, Any]] = []

    async def send(self, index: int, row: dict[str, Any]) -> None:
        body = {
            "model": self.model,
            "prompt": unfold(row["prompt"], self.answers),
            "max_tokens": row["output"],
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "return_token_ids": True,
            "stream_options": {"include_usage": True},
        }
        answer: list[int] = []
        said: dict[str, Any] = {}
        async with self.client.stream("POST", "/v1/completions", json=body) as response:
            taken = time.time()
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    said = json.loads(line[6:])
                    answer += [token for choice in said["choices"] for token in choice.get("token_ids") or []]
        self.answers[index] = answer
        self.rows.append(
            {
                "index": index,
                "taken": taken,
                "prompt": row["prompt"],
                "answer": answer,
                "cached": said["usage"]["prompt_tokens_details"]["cached_tokens"],
                "metrics": said["metrics"],
            }
        )

    async def play(self, index: int, row: dict[str, Any]) -> None:
        await asyncio.sleep(row["at"])
        await self.send(index, row)
        if row["turn"]:
            prompt = [*row["prompt"], ["answer", index], [5_000 + index, 30]]
            await self.send(1_000 + index, {"prompt": prompt, "output": 20, "turn": False})


def read_steps(log: str, since: float) -> list[list[float]]:
    """Each step after `since`: end, milliseconds, context requests and tokens, generation requests and tokens."""
    found = (STEP.match(line) for line in log.splitlines())
    steps = [m for m in found if m and float(m["at"]) > since]
    return [
        [float(m["at"]), float(m["ms"]), *(int(m[k]) for k in ("ctx", "ctx_tokens", "gen", "gen_tokens"))]
        for m in steps
    ]


async def record(base: str, model: str) -> tuple[list[dict[str, Any]], int]:
    """Play the workload; the requests as the engine took them, and its number of KV blocks."""
    async with httpx.AsyncClient(base_url=base, timeout=600, limits=httpx.Limits(max_connections=200)) as client:
        recorder = Recorder(client, model)
        await asyncio.gather(*(recorder.play(i, row) for i, row in enumerate(workload(7, 60))))
        await asyncio.sleep(1)
        metrics = (await client.get("/metrics")).text
    rows = sorted(recorder.rows, key=lambda row: row["taken"])
    return rows, int(re.findall(r'num_gpu_blocks="(\d+)"', metrics)[-1])


def main(base: str, model: str, log: str, out: str) -> None:
    began = time.time()
    rows, blocks = asyncio.run(record(base, model))
    data = {
        "source": "vLLM 0.32.0 on a CPU, SmolLM2-135M-Instruct",
        "limits": {"budget": 512, "sequences": 4, "block": 32, "blocks": blocks},
        "requests": rows,
        "steps": read_steps(Path(log).read_text(), began),
    }
    Path(out).write_bytes(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0))
    print(f"{len(data['requests'])} requests, {len(data['steps'])} steps")


if __name__ == "__main__":
    if sys.argv[1:] == ["logging"]:
        print(json.dumps(LOGGING))
    else:
        main(*sys.argv[1:])
