"""What the prefix audit is worth and what it costs.

    python -m tests.bench.prefixes BENCH_DIR [--json]

BENCH_DIR holds a set of the prefix-cache benchmark: `*.jsonl.gz` with its `*.truth.json.gz`. Its scorer is not run: the
numbers that matter are taken anew (reuse per column, breakers found, false alarms, tokens saved), a second opinion.

Costs are CPU time of this thread, the quickest of several rounds: microseconds a request on the loop, bytes a block of
the shadow, seconds of the search; each beside what the design allows, as a ratio.
"""

import argparse
import gc
import gzip
import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from proxy.events import Said
from proxy.prefixes.audit import Audit
from proxy.prefixes.caches import Blocks
from proxy.prefixes.offline import Offline
from proxy.prefixes.shadow import BlockShadow
from proxy.prefixes.texts import Texts
from proxy.records import Message, Part, Prompt, RequestFacts
from proxy.tokens.vocabularies import load
from proxy.wire.request import read_facts
from proxy.wire.routes import classify

CAPACITIES = (20_000, 100_000, 500_000)
NEAR_TOKENS = 64
"""A breaker's position may be off by so much."""

ROUNDS = 40
BLOCKS = 250_000
WORDS = "order parcel refund invoice customer window garden bicycle ticket station meeting manager policy".split()  # noqa: SIM905


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = [*quality(asked.folder), *costs()]
    if asked.json:
        print(json.dumps([dict(zip(("what", "value", "allowed"), row, strict=True)) for row in rows]))
        return
    for what, value, allowed in rows:
        print(f"{what:58} {value:12,.4f}  {'' if not allowed else f'{value / allowed:6.2f} of {allowed:,}'}")


# --- what it is worth -------------------------------------------------------------------------------------------------


def quality(folder: Path) -> Iterator[tuple[str, float, float]]:
    (requests,) = folder.glob("*.jsonl.gz")
    truth = json.loads(gzip.decompress(requests.with_name(requests.name.replace(".jsonl", ".truth.json")).read_bytes()))
    begin = time.thread_time()
    audit = Offline(load("cl100k_base").encode_ordinary, 16, CAPACITIES, b"bench")
    for line in map(json.loads, gzip.decompress(requests.read_bytes()).splitlines()):
        facts = read_facts(classify("POST", line["path"]), "application/json", json.dumps(line["body"]).encode())
        assert facts.prompt is not None
        audit.add(line["id"], line["t_s"], facts.model or "", facts.prompt, line.get("output_text"))
    read = time.thread_time()
    report = audit.report(list(audit.breakers()))
    yield "us a request, exact reuse at every capacity, off line", 1e6 * (read - begin) / len(truth["requests"]), 0
    yield "seconds of search, all families", time.thread_time() - read, 0
    for column in ("inf", *map(str, CAPACITIES)):
        yield f"reuse, WAPE, {column}", wape(truth, report, column), 0.01 if column == "inf" else 0.03
    yield from breakers(truth, report["breakers"])


def wape(truth: dict[str, Any], report: dict[str, Any], column: str) -> float:
    pairs = list(zip(truth["requests"], report["requests"], strict=True))
    wrong = sum(abs(true["reuse"][column] - mine["reuse"][column]) for true, mine in pairs)
    return float(wrong / sum(true["reuse"][column] for true, _ in pairs))


def breakers(truth: dict[str, Any], found: list[dict[str, Any]]) -> Iterator[tuple[str, float, float]]:
    fits = [[mine for mine in found if fit(true, mine)] for true in truth["breakers"]]
    hits = [(true, mine) for true, mine in zip(truth["breakers"], fits, strict=True) if mine]
    useful = {id(mine) for _, group in hits for mine in group}
    saved = sum(abs(true["tokens_saved"] - sum(one["tokens_saved"] for one in mine)) for true, mine in hits)
    yield "breakers, recall", len(hits) / len(fits), 0.9
    yield "breakers, precision", len(useful) / max(1, len(found)), 0.95
    yield "kind right", sum(mine[0]["kind"] == true["kind"] for true, mine in hits) / max(1, len(hits)), 0.85
    yield "tokens saved, WAPE", saved / sum(true["tokens_saved"] for true, _ in hits), 0.10


def fit(true: dict[str, Any], mine: dict[str, Any]) -> bool:
    low, high = true["position_tokens_p10"], true["position_tokens_p90"] + true.get("position_slack_tokens", 0)
    near = low - NEAR_TOKENS <= mine["position_tokens"] <= high + NEAR_TOKENS
    return near and 2 * len(set(true["ids"]) & set(mine["ids"])) >= len(true["ids"])


# --- what it costs ----------------------------------------------------------------------------------------------------


def costs() -> Iterator[tuple[str, float, float]]:
    draw = Random(1)
    yield "us on the loop, 2k tokens, a new question", on_loop(draw, chat(draw, 1_900), 80), 150
    yield "us on the loop, 2k tokens, a conversation of 40 messages", on_loop(draw, talk(draw, 40, 46), 40), 150
    yield "us on the loop, 100k tokens, a new question", on_loop(draw, chat(draw, 99_000), 80), 3_000
    yield "us on the loop, 100k tokens, all new, encoded elsewhere", all_new(draw), 3_000
    yield "bytes a shadow block", shadow_bytes(), 250


def words(draw: Random, count: int) -> str:
    return " ".join(draw.choices(WORDS, k=count))


def chat(draw: Random, tokens: int) -> list[Message]:
    return [Message("system", (Part("text", words(draw, tokens)),))]


def talk(draw: Random, count: int, tokens: int) -> list[Message]:
    return [Message(("user", "assistant")[k % 2], (Part("text", words(draw, tokens)),)) for k in range(count)]


def facts(messages: list[Message]) -> RequestFacts:
    return RequestFacts("openai", "chat", "inference", model="m", prompt=Prompt(messages=tuple(messages)))


def fresh_audit() -> Audit:
    texts = Texts(load("cl100k_base").encode_ordinary, b"bench")
    return Audit(texts, Blocks(texts, 16, BLOCKS))


def on_loop(draw: Random, head: list[Message], question: int) -> float:
    """Predicting and dispatching prompts that begin alike and end anew."""
    audit = fresh_audit()
    asked = [facts([*head, Message("user", (Part("text", words(draw, question)),))]) for _ in range(ROUNDS)]
    return quickest(audit, asked)


def all_new(draw: Random) -> float:
    audit = fresh_audit()
    asked = [facts(chat(draw, 99_000)) for _ in range(5)]
    encode = load("cl100k_base").encode_ordinary
    for one in asked:
        assert one.prompt is not None
        for text in audit.strange(one.prompt):
            audit.learn(text, encode(text))
    return quickest(audit, asked, skip=0)


def quickest(audit: Audit, asked: list[RequestFacts], skip: int = 1) -> float:
    spent = []
    for number, one in enumerate(asked):
        begin = time.thread_time_ns()
        audit.predict(str(number), one, 0)
        audit.dispatched(str(number), one, 0)
        spent.append(time.thread_time_ns() - begin)
        audit.ended(str(number), Said(), None)
    later = sorted(spent[skip:])
    return later[len(later) // 4] / 1e3


def shadow_bytes() -> float:
    shadow = BlockShadow(BLOCKS)
    gc.collect()
    tracemalloc.start()
    shadow.hold([hash((block, "bench")) for block in range(BLOCKS)])
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / BLOCKS


if __name__ == "__main__":
    main()
