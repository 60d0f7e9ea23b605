"""How wrong the calibrated count is on a real engine: `python -m tests.bench.count_error http://127.0.0.1:8000`.

Chats of many kinds (`corpus`) are counted, the engine is asked for the truth, the truth is learnt; then the next.
Prints the error's p50 and p90 over answers 30-200 and from 200 on, and how often the band held the truth. It comes from
vLLM's `/tokenize`, llama.cpp's `/v1/chat/completions/input_tokens`, or, where there is neither, from the usage of an
answer of one token. `--record FILE` keeps samples and truth (numbers only) as the unit test's fixture.
"""

import argparse
import asyncio
import gzip
import json
from typing import Any

import httpx

from proxy.config import Tokens
from proxy.counting import Desks
from proxy.records import Call, Message, Part, Prompt, RequestFacts, TokenCount, Usage
from tests.bench import corpus
from tests.support.desks import nobody

ROUTES = ("/tokenize", "/v1/chat/completions/input_tokens", "/v1/chat/completions")


def facts(body: dict[str, Any]) -> RequestFacts:
    messages = tuple(
        Message(
            message["role"],
            (Part("text", message["content"]),),
            tuple(Call(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", ())),
        )
        for message in body["messages"]
    )
    tools = tuple(json.dumps(tool, ensure_ascii=False) for tool in body.get("tools", ()))
    return RequestFacts("openai", "chat", "inference", model="m", prompt=Prompt(messages=messages, tools=tools))


def truth(client: httpx.Client, body: dict[str, Any]) -> int | None:
    for route in ROUTES:
        answer = client.post(route, json=body | ({"max_tokens": 1} if route == ROUTES[-1] else {}))
        said = answer.json() if answer.status_code == 200 else {}
        found = said.get("count") or said.get("input_tokens") or said.get("usage", {}).get("prompt_tokens")
        if found:
            return int(found)
    return None


async def play(client: httpx.Client, model: str, seed: int, n: int) -> list[tuple[TokenCount, int]]:
    desk = Desks(Tokens()).desk(nobody)
    played = []
    for body in corpus.chats(seed, n):
        count = await desk.count(facts(body))
        said = truth(client, {"model": model, **body})
        if count is not None and said is not None:
            played.append((count, said))
            desk.learn(facts(body), count, Usage(prompt_tokens=said))
    return played


def report(name: str, played: list[tuple[TokenCount, int]]) -> None:
    errors = sorted(abs(count.n - said) / said for count, said in played)
    inside = sum(count.low <= said <= count.high for count, said in played) / len(played)
    width = sorted((count.high - count.low) / 2 / said for count, said in played)[len(played) // 2]
    p50, p90 = (errors[int(len(errors) * q)] for q in (0.5, 0.9))
    print(
        f"{name:12} {len(played):5} prompts  |error| p50 {p50:6.2%}  p90 {p90:6.2%}  "
        f"band holds {inside:6.1%}, is +-{width:.1%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.count_error", description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--record")
    options = parser.parse_args()
    with httpx.Client(base_url=options.url, timeout=60) as client:
        runs = [asyncio.run(play(client, options.model, seed, 300)) for seed in range(options.seeds)]
    report("first 30", [row for run in runs for row in run[:30]])
    report("30 to 200", [row for run in runs for row in run[30:200]])
    report("from 200", [row for run in runs for row in run[200:]])
    if options.record:
        with gzip.open(options.record, "wt") as file:
            json.dump([[*count.sample, said] for count, said in runs[0]], file, separators=(",", ":"))


if __name__ == "__main__":
    main()
