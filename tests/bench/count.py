"""What counting costs, and whom: `python -m tests.bench.count`.

Costs of a 2 KB chat, warm (texts known) and cold, beside tiktoken alone in the same run. Then a loop that ticks each
millisecond while large prompts are counted beside it: its worst lateness is what another stream's chunk would wait.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable

from proxy.config import Tokens
from proxy.counting import Desks
from proxy.interpreter import calm
from proxy.parts import Desk
from proxy.records import Message, Part, Prompt, RequestFacts
from proxy.tokens.vocabularies import DEFAULT, load
from tests.bench import corpus
from tests.support.desks import nobody

RUNS = 300


def facts(*texts: str) -> RequestFacts:
    messages = tuple(Message("user" if n % 2 else "system", (Part("text", text),)) for n, text in enumerate(texts))
    return RequestFacts("openai", "chat", "inference", model="m", prompt=Prompt(messages=messages))


def prose(seed: int, size: int) -> str:
    rng, text = random.Random(seed), ""
    while len(text) < size:
        text += rng.choice(list(corpus.KINDS.values())[:6])(rng) + "\n"
    return text[:size]


async def median_us(work: Callable[[int], Awaitable[object]]) -> float:
    times = []
    for run in range(RUNS):
        start = time.perf_counter()
        await work(run)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


async def small_chat(desk: Desk) -> None:
    texts = [prose(run, 2048) for run in range(RUNS)]
    encode = load(DEFAULT).encode_ordinary

    async def alone(run: int) -> None:
        encode(texts[run])

    async def count(run: int) -> None:
        await desk.count(facts(*(texts[run][start : start + 512] for start in range(0, 2048, 512))))

    tiktoken, cold, warm = await median_us(alone), await median_us(count), await median_us(count)
    ratio = cold / tiktoken
    print(f"2 KB chat: tiktoken alone {tiktoken:.1f} us, cold {cold:.1f} us ({ratio:.2f} times), warm {warm:.1f} us")


async def lateness(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Worst lateness of a 1 ms ticker beside this work, and how long the work took; both in ms."""
    worst = 0.0
    done = asyncio.Event()

    async def tick() -> None:
        nonlocal worst
        while not done.is_set():
            start = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - start - 0.001)

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0.02)
    start = time.perf_counter()
    await work()
    took = time.perf_counter() - start
    await asyncio.sleep(0.02)
    done.set()
    await ticker
    return worst * 1e3, took * 1e3


async def large_prompts(desk: Desk) -> None:
    history = [prose(1000 + n, 4096) for n in range(100)]
    await desk.count(facts(*history))
    base64, letters, blanks, chinese = (
        "QUJDREVGRw9x" * 1_400_000,
        "a" * 10**6,
        " " * 10**6,
        "研究结果甚至让专家们感到惊讶" * 25_000,
    )
    tiny = facts(*(f"word {n}" for n in range(50_000)))
    megabyte, eight = prose(1, 1_000_000), [prose(n, 300_000) for n in range(8)]
    cases: dict[str, Callable[[], Awaitable[object]]] = {
        "nothing": lambda: asyncio.sleep(0.3),
        "1 MB of text": lambda: desk.count(facts(megabyte)),
        "the same again": lambda: desk.count(facts(megabyte)),
        "400 KB history, one message new": lambda: desk.count(facts(*history, eight[0][:4096])),
        "eight prompts of 300 KB at once": lambda: asyncio.gather(*(desk.count(facts(text)) for text in eight)),
        "16 MB of base64": lambda: desk.count(facts(base64)),
        "1 MB of one letter": lambda: desk.count(facts(letters)),
        "1 MB of blanks": lambda: desk.count(facts(blanks)),
        "50,000 messages of two words": lambda: desk.count(tiny),
        "1 MB of Chinese": lambda: desk.count(facts(chinese)),
    }
    for name, work in cases.items():
        made = await lateness(work)
        print(f"{name:34} worst lateness of a chunk {made[0]:5.2f} ms   counted in {made[1]:7.1f} ms")


async def main() -> None:
    start = time.perf_counter()
    load(DEFAULT)
    print(f"loading {DEFAULT} {time.perf_counter() - start:.2f} s")
    calm()  # as `serve` does
    desk = Desks(Tokens()).desk(nobody)
    await small_chat(desk)
    await large_prompts(desk)


if __name__ == "__main__":
    asyncio.run(main())
