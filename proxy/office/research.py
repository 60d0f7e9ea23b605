"""The office's search for prefix breakers: in a thread of its own, one family at a time, at most so often.

The vocabulary is loaded when the first prompt comes: an office without an audit does not pay for it.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping
from statistics import median
from typing import Any

from proxy.exporters.contract import fresh_tokens
from proxy.messages import PromptSeen
from proxy.prefixes.search import Search
from proxy.records import RequestRecord
from proxy.tokens.pieces import pieces
from proxy.tokens.vocabularies import DEFAULT, load

STEP_S = 2.0
"""Between two searches of a family, each some tenths of a second of one core: a tenth of a core at most."""

WAITING = 240
"""Prompts that wait for the searcher; two minutes' sample. Older ones are dropped."""


LATEST = 101
"""Prefill rates of an engine that its median is taken of: the last minutes of a busy one."""

LONG = 64
"""Fresh tokens of a prompt whose prefill rate counts; a shorter one is all overhead."""


class Research:
    """Prompts in, a report out. An exporter too: records tell how fast each engine reads, and so what tokens cost."""

    lost = 0

    # State: prompts that wait, the search (None until the first prompt), its last report, and the engines' latest
    # prefill rates.
    def __init__(self, secret: bytes, capture_text: bool) -> None:
        self._secret = secret
        self._capture_text = capture_text
        self._waiting: deque[PromptSeen] = deque(maxlen=WAITING)
        self._search: Search | None = None
        self._rates: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=LATEST))
        self.report: dict[str, Any] = {"offered": 0, "sampled": 0, "families": [], "breakers": []}
        """What was found so far, as `/api/prefixes` shows it."""

    def take(self, seen: PromptSeen) -> None:
        """A sampled prompt."""
        self._waiting.append(seen)

    def export(self, record: RequestRecord) -> None:
        """How fast its engine read this prompt."""
        finished, rate = record.finished, record.breakdown.prefill_rate
        if rate and (fresh_tokens(finished.usage, finished.report) or 0) >= LONG:
            self._rates[finished.engine].append(rate)

    def tick(self, now_ns: int) -> None:
        """Nothing is buffered."""

    def reopen(self) -> None:
        """There is no file."""

    def close(self) -> None:
        """There is no file."""

    @property
    def rates(self) -> dict[str, float]:
        """Fresh tokens a second of each engine, usually; one that never said is absent."""
        return {engine: median(rates) for engine, rates in self._rates.items()}

    async def run(self) -> None:
        """Searches, for ever. A task of its own."""
        while True:
            await asyncio.sleep(STEP_S)
            await asyncio.to_thread(self.step, self.rates)

    def step(self, rates: Mapping[str, float] | None = None) -> None:
        """Files what waits, and searches one family."""
        if self._search is None and not self._waiting:
            return
        search = self._search = self._search or self._begun()
        while self._waiting:
            seen = self._waiting.popleft()
            search.offer(seen.id, seen.at_s, seen.engine, seen.model, seen.prompt, seen.answer)
        search.step()
        self.report = search.report(rates)

    def _begun(self) -> Search:
        encoding = load(DEFAULT)

        def encode(text: str) -> list[int]:
            return [token for piece in pieces(text) for token in encoding.encode_ordinary(piece)]

        return Search(encode, self._secret, capture_text=self._capture_text)
