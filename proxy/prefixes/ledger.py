"""Every prompt token in exactly one bin, and the sums of an engine.

    hit            the engine took it from its cache, as it says; as we expect, where it does not say
    engine_gap     the cache should have had it, the engine computed it
    capacity       the engine had it once and evicted it, or has it in a slot that did not take the prompt
    other_replica  another replica has it
    text_break     the text was seen, but behind a beginning that differs
    structural     the partial last block, and the last token, which no cache gives
    compulsory     never seen

Unknown is not zero: a request whose engine does not say is counted apart, with our expectation for its hits.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proxy.records import PrefixVerdict

BINS = ("hit", "compulsory", "structural", "capacity", "other_replica", "text_break", "engine_gap")
"""Every bin, in the order of the record."""

ENOUGH = 10
"""Requests that could have reused whole blocks and reused none: fewer may be an engine that has just started. Requests
that contradict: of fewer it may be we who have, in front of an engine whose cache is warm."""

SUMS = (
    *("requests", "infinite", "sized", "sized_tokens", "attainable"),
    *("known", "known_tokens", "reported", "expected", "explained", "promising"),
)
"""What is added up when ledgers are put together."""

UNEXPLAINED = 0.1
"""Hits over what shared text explains, as a part of all tokens looked up, before the engine is contradicted: counters
are read a moment before or after ours."""

TEMPLATE = 64
"""Tokens of a request that other prompts share and our rendering does not have: what the engine's template writes by
itself (20 to 40 tokens of a system message that nobody sent, in Qwen's, SmolLM2's, Llama's). In whole blocks it may be
one more."""


class Sight(NamedTuple):
    """What is known of one prompt's tokens when it is dispatched."""

    tokens: int
    usable: int
    """Tokens in blocks that a cache can give at all."""
    resident: int
    """In this engine's cache now."""
    infinite: int
    """In this engine's cache, had it never evicted."""
    elsewhere: int
    """In another replica's cache."""
    repeated: int
    """Behind all of these, in text that was seen under another beginning. Looked for at dispatch."""


def split(sight: Sight, reported: int | None) -> tuple[tuple[str, int], ...]:
    """The bins of one prompt; they sum to its tokens and none is negative."""
    hit = sight.resident if reported is None else reported
    wanted = (
        ("hit", hit),
        ("engine_gap", sight.resident - hit),
        ("capacity", sight.infinite - max(hit, sight.resident)),
        ("other_replica", sight.elsewhere - max(hit, sight.infinite)),
        ("structural", sight.tokens - max(sight.usable, hit)),
        ("text_break", sight.repeated),
    )
    left, found = sight.tokens, dict.fromkeys(BINS, 0)
    for name, count in wanted:
        if count > 0:
            found[name] = min(count, left)
            left -= found[name]
    found["compulsory"] = left
    return tuple(found.items())


@dataclass(slots=True)
class Ledger:
    """The sums of one engine."""

    # State: tokens by bin, and what was expected and reported of requests whose engine says.

    bins: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    infinite: int = 0
    """Tokens that shared text explains."""
    sized: int = 0
    """Requests whose engine's size is known ..."""
    sized_tokens: int = 0
    """... their prompt tokens ..."""
    attainable: int = 0
    """... and those of them that a cache of this size has."""
    known: int = 0
    """Requests whose engine said what was cached ..."""
    known_tokens: int = 0
    """... their prompt tokens ..."""
    reported: int = 0
    """... the cached of them, as the engine says ..."""
    expected: int = 0
    """... and as we expected ..."""
    explained: int = 0
    """... and as shared text explains."""
    promising: int = 0
    """Requests of those known of which whole blocks were expected."""

    def add(self, verdict: PrefixVerdict) -> None:
        """Count one settled request."""
        self.bins.update(dict(verdict.bins))
        self.requests += 1
        self.infinite += verdict.infinite or 0
        if verdict.attainable is not None:
            self.sized += 1
            self.sized_tokens += verdict.tokens
            self.attainable += verdict.attainable
        if verdict.reported is not None:
            self.known += 1
            self.known_tokens += verdict.tokens
            self.reported += verdict.reported
            self.expected += verdict.expected or 0
            self.explained += verdict.infinite or 0
            self.promising += (verdict.expected or 0) >= verdict.block

    @property
    def tokens(self) -> int:
        """Prompt tokens of all requests."""
        return sum(self.bins.values())

    @property
    def verdict(self) -> str:
        """The engine's cache in one word, over all that was entered. `no_effect`, `contradicted`: by the rules of the
        findings, which are made over the latest records, or over the engine's counters. `healthy`: it gave of what
        prompts share. `unknown`: nothing was shared that it could have given, or too little was seen.
        """
        if without_effect(self.promising, self.reported):
            return "no_effect"
        if contradicted(self.reported, self.explained, self.known_tokens):
            return "contradicted" if self.known >= ENOUGH else "unknown"
        return "healthy" if self.reported and self.explained else "unknown"

    @property
    def ideal(self) -> int:
        """Tokens that a cache without limit gives: what shared text explains, and at least what was delivered."""
        return self.infinite + self._unexplained

    @property
    def known_ideal(self) -> int:
        """The same of the requests whose engine said what was cached."""
        return self.explained + self._unexplained

    @property
    def _unexplained(self) -> int:
        """Cached tokens that shared text does not explain: the template's own words are shared too. What is
        contradicted proves nothing."""
        return 0 if self.verdict == "contradicted" else max(0, self.reported - self.explained)

    def row(self) -> dict[str, Any]:
        """As JSON can say it; a rate that is not known is null."""
        return {
            "verdict": self.verdict,
            "requests": self.requests,
            "prompt_tokens": self.tokens,
            "ideal": _rate(self.ideal, self.tokens),
            "attainable": _rate(self.attainable, self.sized_tokens),
            "sized_requests": self.sized,
            "delivered": _rate(self.reported, self.known_tokens),
            "known_requests": self.known,
            "known_ideal": _rate(self.known_ideal, self.known_tokens),
            "expected_tokens": self.expected,
            "reported_tokens": self.reported,
            "bins": {name: self.bins[name] for name in BINS},
        }


class Books:
    """The ledgers of all engines."""

    # State: one ledger an engine.

    def __init__(self) -> None:
        self._ledgers: dict[str, Ledger] = {}

    def add(self, engine: str, verdict: PrefixVerdict) -> None:
        """Count one settled request of an engine."""
        self._ledgers.setdefault(engine, Ledger()).add(verdict)

    def report(self) -> dict[str, Any]:
        """The sums of each engine, and of all."""
        whole = Ledger()
        for ledger in self._ledgers.values():
            whole = _together(whole, ledger)
        engines = [{"engine": name, **ledger.row()} for name, ledger in self._ledgers.items()]
        totals = whole.row()
        totals["ideal"] = _rate(sum(one.ideal for one in self._ledgers.values()), whole.tokens)
        totals["known_ideal"] = _rate(sum(one.known_ideal for one in self._ledgers.values()), whole.known_tokens)
        del totals["verdict"]
        return {"totals": totals, "engines": engines}


def _together(one: Ledger, other: Ledger) -> Ledger:
    sums = {name: getattr(one, name) + getattr(other, name) for name in SUMS}
    return Ledger(bins=one.bins + other.bins, **sums)


def _rate(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def without_effect(promising: int, reported: int) -> bool:
    """So many requests could have reused whole blocks, and the engine says that nothing was reused, by any request."""
    return promising >= ENOUGH and not reported


def contradicted(hits: float, explained: float, looked_up: float) -> bool:
    """An engine counts more hits than shared text can explain."""
    return hits - explained > UNEXPLAINED * looked_up
