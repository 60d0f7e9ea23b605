"""The office's search for prefix breakers: in a thread of its own, one family at a time, a tenth of a core at most.

The vocabulary is loaded when the first prompt comes: an office without an audit does not pay for it.
"""

import asyncio
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from statistics import median
from typing import Any

from proxy.clock import Clock
from proxy.exporters.contract import SECOND_NS, fresh_tokens
from proxy.exporters.exporter import InMemory
from proxy.messages import PromptSeen
from proxy.prefixes.canon import Encode
from proxy.prefixes.search import Search
from proxy.records import Finished, RequestRecord
from proxy.tokens.pieces import pieces
from proxy.tokens.vocabularies import DEFAULT, load

REST_S = 2.0
"""Between two searches of a family, at least: each takes some tenths of a second of one core."""

REST = 9
"""Times as long as a search took, at least, that it rests: some take seconds."""

Arrival = tuple[str, float, str]
"""Id, arrival and engine of a request: an id alone may be a client's own word, said of many."""

NAMED = 1_024
"""Families' names that wait for the record of their request, which comes right behind its prompt; the oldest go."""

LATEST = 101
"""Prefill rates of an engine that its median is taken of: the last minutes of a busy one."""

LONG = 64
"""Fresh tokens of a prompt whose prefill rate counts; a shorter one is all overhead."""


class Research(InMemory):
    """Prompts in, a report out. An exporter too: records tell how fast each engine reads, and so what tokens cost."""

    # State: the search, its last report, names of families that wait for their records, and the engines' latest prefill
    # rates.
    def __init__(self, secret: bytes, capture_text: bool) -> None:
        self._search = Search(_Vocabulary(), secret, capture_text=capture_text)
        self._names: OrderedDict[Arrival, str] = OrderedDict()
        self._rates: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=LATEST))
        self.report: dict[str, Any] = {"offered": 0, "sampled": 0, "breakers": []}
        """What was found so far, as `/api/prefixes` shows it beside the books."""

    def take(self, seen: PromptSeen) -> None:
        """A sampled prompt; its record comes next."""
        family = self._search.offer(
            seen.id, seen.at_s, seen.engine, seen.model, seen.prompt, seen.answer, seen.stands_for
        )
        if family is not None:
            self._names[seen.id, seen.at_s, seen.engine] = family
            if len(self._names) > NAMED:
                self._names.popitem(last=False)

    def named(self, finished: Finished) -> Finished:
        """The same with the name of its prompt's family, where that is known: the one in the report."""
        family = self._names.pop((finished.id, finished.timeline.at_s, finished.engine), None)
        if family is None or finished.prefix is None:
            return finished
        return finished._replace(prefix=finished.prefix._replace(family=family))

    def export(self, record: RequestRecord) -> None:
        """How fast its engine read this prompt."""
        finished, rate = record.finished, record.breakdown.prefill_rate
        if rate and (fresh_tokens(finished.usage, finished.report) or 0) >= LONG:
            self._rates[finished.engine].append(rate * _ours(finished))

    @property
    def rates(self) -> dict[str, float]:
        """Fresh tokens a second of each engine, usually, in tokens of ours; one that never said is absent."""
        return {engine: median(rates) for engine, rates in self._rates.items()}

    async def run(self, clock: Clock, guarding: Callable[[str], AbstractContextManager[None]]) -> None:
        """Searches, for ever, whatever becomes of one search. A task of its own."""
        took_s = 0.0
        while True:
            await asyncio.sleep(max(REST_S, REST * took_s))
            began_ns = clock.now_ns()
            with guarding("research"):
                await asyncio.to_thread(self.step, self.rates)
            took_s = (clock.now_ns() - began_ns) / SECOND_NS

    def step(self, rates: Mapping[str, float] | None = None) -> None:
        """Files what waits, and searches one family."""
        self._search.step()
        self.report = self._search.report(rates)


def _ours(finished: Finished) -> float:
    """Tokens of ours to one of the engine's: the search counts in ours, the engine says its speed in its own."""
    prefix, usage = finished.prefix, finished.usage
    if prefix is None or not prefix.rendered or usage is None or not usage.prompt_tokens:
        return 1.0
    return prefix.rendered / usage.prompt_tokens


class _Vocabulary:
    """Text to tokens. State: the vocabulary, once a text has come."""

    def __init__(self) -> None:
        self._encode: Encode | None = None

    def __call__(self, text: str) -> list[int]:
        encode = self._encode = self._encode or load(DEFAULT).encode_ordinary
        return [token for piece in pieces(text) for token in encode(piece)]
