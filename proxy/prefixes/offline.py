"""The audit of a file: exact reuse of every request, families, breakers, and the curve, in one pass and a search.

Requests are served one at a time in file order. Every model is an engine of its own; salts share its room, not its
blocks. Block-id traces (Mooncake's form) come with their chains made: only reuse and the curve can be said of them.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.prefixes.breakers.cost import cost
from proxy.prefixes.breakers.documents import Document, latest
from proxy.prefixes.breakers.families import OTHER, Families, Family
from proxy.prefixes.breakers.finder import LEAST_REQUESTS, Breaker, Finder
from proxy.prefixes.canon import Encode, render
from proxy.prefixes.chains import Chain, Chains, root_of
from proxy.prefixes.curve import INFINITE, Curve, Stack, reach, reuse
from proxy.records import Prompt

SAMPLE = 512
"""Prompts of one family that are searched for breakers: the latest."""

AT_ONCE = 16_000_000
"""Characters of them, at most: four million tokens."""

SIZES = (0.25, 0.5, 1, 2, 4)
"""Points of the curve, as multiples of the capacity asked for."""


@dataclass(slots=True)
class Column:
    """Reuse under one way of counting: with answers kept, or prompts alone."""

    # State: a stack of blocks per engine.

    block: int
    capacities: Sequence[int]
    stacks: dict[str, Stack] = field(default_factory=dict)
    totals: list[int] = field(default_factory=list)

    def count(self, engine: str, chain: Chain, kept: Sequence[int]) -> list[int]:
        """Tokens reused: without a limit, then at each capacity. The blocks are kept afterwards."""
        stack = self.stacks.setdefault(engine, Stack())
        reached = reach(stack, chain.keys, chain.usable(self.block))
        sizes = (INFINITE, *(capacity // self.block for capacity in self.capacities))
        found = [reuse(reached, size) * self.block for size in sizes]
        stack.touch(reversed(kept))
        self.totals = [a + b for a, b in zip(self.totals or [0] * len(found), found, strict=True)]
        return found


class Offline:
    """Audits requests one after the other; `report` says the whole."""

    # State: stacks per engine, the curve, families with their latest prompts, one row a request.

    def __init__(self, encode: Encode, block: int, capacities: Sequence[int], secret: bytes) -> None:
        self.block = block
        self._capacities = tuple(capacities)
        self._secret = secret
        self._chains = Chains(encode, block)
        self._finder = Finder(encode, block)
        self._columns = {"reuse": Column(block, capacities), "reuse_prompt_only": Column(block, capacities)}
        self._curves = {"rate": Curve(), "rate_prompt_only": Curve()}
        self._families = Families(secret)
        self._samples: OrderedDict[str, deque[Document]] = OrderedDict()
        self._names: dict[str, str] = {}
        self._known: dict[str, Family] = {}
        self._rows: list[dict[str, Any]] = []
        self._tokens = 0
        self._span_s = [float("inf"), float("-inf")]

    def add(self, name: str, at_s: float, model: str, prompt: Prompt, answer: str | None) -> None:
        """One request, in order of arrival."""
        segments = render(prompt)
        root = root_of(self._secret, model, prompt.salt)
        chain = self._chains.of_ids(root, prompt.ids[0]) if prompt.ids else self._chains.chain(root, segments)
        whole = self._chains.extend(root, chain, answer or "")
        labels = ("inf", *map(str, self._capacities))
        row: dict[str, Any] = {"id": name}
        for mode, kept in (("reuse", whole.keys), ("reuse_prompt_only", chain.keys)):
            row[mode] = dict(zip(labels, self._columns[mode].count(model, chain, kept), strict=True))
        for curve, kept in zip(self._curves.values(), (whole.keys, chain.keys), strict=True):
            curve.add(chain.keys, chain.usable(self.block), kept)
        self._tokens += chain.tokens
        self._span_s = [min(self._span_s[0], at_s), max(self._span_s[1], at_s)]
        row["family"] = self._file(Document(name, at_s, root, segments, answer), chain, row["reuse"]["inf"])
        self._rows.append(row)

    def _file(self, document: Document, chain: Chain, hit: int) -> str:
        family = self._families.assign(document.root, document.segments)
        family.requests += 1
        family.tokens += chain.tokens
        family.hits += hit
        family.shared += hit > 0
        self._known[family.name] = family
        self._samples.setdefault(family.name, deque(maxlen=SAMPLE)).append(document)
        return self._names.setdefault(family.name, f"F{len(self._names) + 1}")

    def breakers(self) -> Iterator[tuple[str, Breaker, float]]:
        """The breakers of all families, with the family's name, and the seconds of the file in which they were looked
        for; the slow part."""
        strays: dict[int, list[Document]] = defaultdict(list)
        for name, documents in self._samples.items():
            if len(documents) < LEAST_REQUESTS:
                strays[documents[0].root] += documents
            yield from self._search(self._names[name], documents, self._known[name].requests)
        for pool in strays.values():
            pool.sort(key=lambda document: document.at_s)
            yield from self._search(OTHER, pool[-SAMPLE:], len(pool))

    def _search(self, name: str, documents: Sequence[Document], known: int) -> Iterator[tuple[str, Breaker, float]]:
        """Of prompts of which `known` are in the file: where those are more, only the time of the latest counts."""
        searched = latest(documents, AT_ONCE)
        begin, end = self._span_s
        observed_s = end - (begin if len(searched) == known else searched[0].at_s)
        for breaker in self._finder.breakers(searched):
            yield name, breaker, observed_s

    def report(self, found: Sequence[tuple[str, Breaker, float]]) -> dict[str, Any]:
        """All that is known, as JSON can say it."""
        return {
            "block": self.block,
            "totals": self._totals(),
            "curve": self._points(),
            "families": [self._family(name) for name in self._samples],
            "breakers": [
                {"family": family, **breaker.row(), **cost(breaker, observed_s)}
                for family, breaker, observed_s in found
            ],
            "requests": self._rows,
        }

    def _totals(self) -> dict[str, Any]:
        labels = ("inf", *map(str, self._capacities))
        totals: dict[str, Any] = {"requests": len(self._rows), "prompt_tokens": self._tokens}
        for mode, column in self._columns.items():
            totals[mode] = {
                label: {"tokens": tokens, "rate": round(tokens / max(1, self._tokens), 4)}
                for label, tokens in zip(labels, column.totals, strict=False)
            }
        return totals

    def _points(self) -> list[dict[str, Any]]:
        """The curves around each capacity asked for, all engines as one cache."""
        sizes = sorted({int(capacity * times) // self.block for capacity in self._capacities for times in SIZES})
        return [
            {
                "capacity_tokens": size * self.block,
                **{name: round(curve.rate(size), 4) for name, curve in self._curves.items()},
                "sampled": self._curves["rate"].every,
            }
            for size in sizes
        ]

    def _family(self, name: str) -> dict[str, Any]:
        family = self._known[name]
        return {
            "family": self._names[name],
            "requests": family.requests,
            "prompt_tokens": family.tokens,
            "reuse": family.hits,
            "hit_requests": family.shared,
        }


class Trace:
    """Audits a trace of block ids: leading run of known full blocks, at most (n - 1) // block of them."""

    # State: one stack, tokens and blocks counted.

    def __init__(self, block: int, capacities: Sequence[int]) -> None:
        self._column = Column(block, capacities)
        self._block = block
        self._capacities = tuple(capacities)
        self._seen: set[int] = set()
        self._counts: dict[str, int] = defaultdict(int)
        self._shares = 0.0

    def add(self, tokens: int, ids: Sequence[int]) -> None:
        """One request: its prompt tokens and the ids of its blocks, the last of which may be partial."""
        full = ids[: tokens // self._block]
        self._column.count("", Chain(full, tokens, b""), full)
        run = next((k for k, one in enumerate(ids) if one not in self._seen), len(ids))
        self._seen.update(ids)
        found = {"requests": 1, "input_tokens": tokens, "blocks": len(ids), "full_blocks": len(full)}
        for name, count in {**found, "hit_blocks_infinite": run, "hit_tokens": min(run * self._block, tokens)}.items():
            self._counts[name] += count
        self._shares += min(run * self._block, tokens) / max(1, tokens)

    @property
    def tokens(self) -> int:
        """Prompt tokens of all requests; without one there is nothing to report."""
        return self._counts["input_tokens"]

    def report(self) -> dict[str, Any]:
        """Hit rates under the engine's rules, and those that count every id; null where there is none."""
        counts = dict(self._counts)
        tokens = counts["input_tokens"]
        infinite, *limited = (round(hit / tokens, 6) for hit in self._column.totals)
        hits = counts["hit_blocks_infinite"]
        return {
            **{name: counts[name] for name in ("requests", "input_tokens", "blocks", "full_blocks")},
            "unique_blocks": len(self._seen),
            "hit_blocks_infinite": hits,
            "block_hit_rate": _rate(hits, counts["blocks"]),
            "token_hit_rate_all_blocks": round(counts["hit_tokens"] / tokens, 6),
            "mean_request_hit_fraction": round(self._shares / counts["requests"], 6),
            "hits_over_full_blocks": _rate(hits, counts["full_blocks"]),
            "vllm_rule_infinite": infinite,
            "vllm_rule_lru": dict(zip(map(str, self._capacities), limited, strict=True)),
        }


def _rate(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
