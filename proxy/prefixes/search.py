"""The office's search: a bounded sample of prompts, filed by family and looked through for breakers a family at a time.

Prompts are taken as they come while there are few (`pace`), so that conversations stay whole; where they are many, one
stands for several, and costs as much. A prompt that is taken has its family's name at once; it is filed, and searched,
at the next step, which may run in a thread of its own. Prompts live here in memory only, at most `MEMORY` characters of
them; nothing of their text leaves but masked excerpts, unless the text may be shown.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any, NamedTuple

from proxy.prefixes.breakers.cost import cost, dearest
from proxy.prefixes.breakers.documents import Document, latest
from proxy.prefixes.breakers.families import OTHER, Families, Family, Sketch
from proxy.prefixes.breakers.finder import LEAST_REQUESTS, Breaker, Finder
from proxy.prefixes.canon import Encode, render
from proxy.prefixes.chains import Chains, root_of
from proxy.prefixes.curve import Curve
from proxy.records import Prompt

LONGEST = 200_000
"""Characters of a prompt that is taken: about 50k tokens."""

WAITING = 240
"""Prompts that wait to be filed; a minute's share beside those taken at once. Older ones are dropped."""

MEMORY = 32_000_000
"""Characters of prompts kept."""

KEPT = 96
"""Prompts kept of a family, the latest: a search of them takes a moment, and seconds where little but figures or
marks stands in them."""

SIZES = tuple(1_024 << octave for octave in range(11))
"""Points of the curve in blocks: 16k tokens to 16 million, each twice the one before."""

WHOLE = 0.9
"""Part of an engine's prompts that is in the sample, at least, where its curve is told: of conversations of which some
turns are missing a cache of any size seems to give less."""

AT_ONCE = 1_000_000
"""Characters of prompts that one search looks at, the latest: a quarter of a million tokens."""

STRAYS = 8
"""Pools of small families of which is told what was found, the latest: each salt that a client sends makes one."""


@dataclass(slots=True)
class Filed:
    """The sample of one family. State: all of it."""

    family: Family
    engine: str
    model: str
    documents: deque[Document] = field(default_factory=lambda: deque(maxlen=KEPT))
    fresh: float = 0.0
    """What the prompts stand for that came since it was last searched."""
    searched: float = 0.0
    """What those stand for that it was searched in ..."""
    breakers: tuple[Breaker, ...] = ()
    """... and its breakers."""
    known_s: float | None = None
    """From then on its prompts are known; None: from the first moment on."""
    since_s: float = 0.0
    """From then on the prompts are known in which its breakers were found."""

    @property
    def grown(self) -> float:
        """How many times the prompts searched there are by now; those that came since are taken to be like them."""
        return 1.0 + self.fresh / self.searched if self.searched else 1.0


@dataclass(slots=True)
class Counted:
    """The curve of one engine. State: all of it."""

    curve: Curve = field(default_factory=Curve)
    prompts: int = 0
    stand_for: float = 0.0
    """What they stand for."""


class Offered(NamedTuple):
    """A prompt that was taken."""

    document: Document
    family: Family
    engine: str
    model: str


class Search:
    """Takes prompts, finds breakers, reports."""

    # State of who offers: the families. Of who steps: families with their samples, from the least to the most recently
    # seen, and when one was last forgotten; small families searched together; a curve per engine; how many were filed;
    # characters kept. Between them: the prompts that wait, the first moment and the last, what all stand for.

    def __init__(self, encode: Encode, secret: bytes, block: int = 16, capture_text: bool = False) -> None:
        self._secret = secret
        self._finder = Finder(encode, block, capture_text)
        self._families = Families(secret)
        self._waiting: deque[Offered] = deque(maxlen=WAITING)
        self._chains = Chains(encode, block)
        self._curves: defaultdict[str, Counted] = defaultdict(Counted)
        self._filed: OrderedDict[str, Filed] = OrderedDict()
        self._stray: dict[int, Filed] = {}
        self._offered = 0.0
        self._entered = 0
        self._forgot_s: float | None = None
        self._memory = 0
        self._span_s = (float("inf"), float("-inf"))

    def offer(
        self, id: str, at_s: float, engine: str, model: str, prompt: Prompt, answer: str | None, stands_for: float = 1.0
    ) -> str | None:
        """A prompt, as they end, with what the engine wrote. The name of its family; None: it was not taken. A new head
        of `LONGEST_HEAD` characters takes longest, the shorter its words the more.

        `stands_for`: so many prompts, all but one of which are not in the sample.
        """
        segments = render(prompt)
        root = root_of(self._secret, engine, model, prompt.salt)
        document = Document(id, at_s, root, segments, answer, stands_for)
        if not segments or document.size > LONGEST:
            return None
        self._offered += stands_for
        self._span_s = min(self._span_s[0], at_s), max(self._span_s[1], at_s)
        family = self._families.assign(document.root, segments)
        self._waiting.append(Offered(document, family, engine, model))
        return family.name

    def file(self) -> None:
        """Take what waits into the samples of its families."""
        while self._waiting:
            self._file(self._waiting.popleft())
            self._make_room()

    def step(self) -> bool:
        """File what waits, and search one family, that with most new prompts; whether there was one. Takes as
        long as `KEPT` says."""
        self.file()
        due = [one for one in self._filed.values() if one.fresh and len(one.documents) >= LEAST_REQUESTS]
        filed = max(due, key=lambda one: one.fresh, default=None) or self._strays()
        if filed is None:
            return False
        documents = latest(filed.documents, AT_ONCE)
        if filed.family.name == OTHER:
            filed.documents.clear()  # its families have them, while there is room
        filed.breakers = tuple(self._finder.breakers(documents))
        filed.fresh, filed.searched = 0.0, fsum(document.stands_for for document in documents)
        if len(documents) < filed.family.requests:
            filed.since_s = documents[0].at_s
        else:
            filed.since_s = self._span_s[0] if filed.known_s is None else filed.known_s
        return True

    def _strays(self) -> Filed | None:
        """The prompts of small families, of the model that has most new ones: they may break so early that nothing
        tells that they belong together."""
        pools: dict[int, list[Filed]] = defaultdict(list)
        for one in self._filed.values():
            if len(one.documents) < LEAST_REQUESTS:
                pools[one.family.root].append(one)
        pool = max(pools.values(), key=lambda found: sum(one.fresh for one in found), default=[])
        if sum(one.fresh for one in pool) < LEAST_REQUESTS:
            return None
        for one in pool:
            one.fresh = 0.0
        first = pool[0]
        documents = sorted((document for one in pool for document in one.documents), key=lambda one: one.at_s)
        family = Family(OTHER, first.family.root, Sketch(), len(documents))
        kept = deque(documents, maxlen=KEPT)
        self._stray.pop(family.root, None)
        self._stray[family.root] = Filed(family, first.engine, first.model, kept, known_s=self._forgot_s)
        if len(self._stray) > STRAYS:
            del self._stray[next(iter(self._stray))]
        return self._stray[family.root]

    def report(self, prefill_rates: Mapping[str, float] | None = None) -> dict[str, Any]:
        """Breakers and the curve, in tokens of ours, as JSON can say them; no text of a prompt.

        `prefill_rates`: fresh tokens a second of each engine, where known; then costs are told in seconds too.
        """
        rates = prefill_rates or {}
        searched = (*self._filed.values(), *self._stray.values())
        found = [
            {
                **_place(one),
                **breaker.row(),
                **cost(breaker, self._span_s[1] - one.since_s, breaker.stands_for * one.grown, rates.get(one.engine)),
            }
            for one in searched
            for breaker in one.breakers
        ]
        return {
            "offered": round(self._offered),
            "sampled": self._entered,
            "curve": self._points(),
            "breakers": dearest(found),
        }

    def _count(self, engine: str, document: Document) -> None:
        chain = self._chains.chain(document.root, document.segments)
        whole = self._chains.extend(document.root, chain, document.answer or "")
        counted = self._curves[engine]
        counted.prompts += 1
        counted.stand_for += document.stands_for
        counted.curve.add(chain.keys, chain.usable(self._chains.block), whole.keys)

    def _points(self) -> list[dict[str, Any]]:
        """What caches of these sizes would give each engine whose prompts are known, in tokens."""
        block = self._chains.block
        return [
            {
                "engine": engine,
                "block": block,
                "capacity_tokens": size * block,
                "rate": round(rate, 4),
                "sampled": one.curve.every,
            }
            for engine, one in self._curves.items()
            if one.prompts >= WHOLE * one.stand_for
            for size, rate in one.curve.points(SIZES)
        ]

    def _file(self, offered: Offered) -> None:
        document, family = offered.document, offered.family
        self._entered += 1
        filed = self._filed.get(family.name)
        if filed is None:
            filed = self._filed[family.name] = Filed(family, offered.engine, offered.model, known_s=self._forgot_s)
        self._filed.move_to_end(family.name)
        self._count(offered.engine, document)
        filed.family.requests += 1
        if len(filed.documents) == KEPT:
            self._memory -= filed.documents[0].size
        filed.documents.append(document)
        filed.fresh += document.stands_for
        self._memory += document.size

    def _make_room(self) -> None:
        while self._memory > MEMORY or len(self._filed) > self._families.most:
            _, gone = self._filed.popitem(last=False)
            self._memory -= sum(document.size for document in gone.documents)
            self._forgot_s = self._span_s[1]


def _place(filed: Filed) -> dict[str, Any]:
    return {"engine": filed.engine, "model": filed.model, "family": filed.family.name}
