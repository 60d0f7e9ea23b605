"""Every prompt token in exactly one bin, and the sums of an engine.

    hit            the engine took it from its cache, as it says; as we expect, where it does not say
    engine_gap     the cache should have had it, the engine computed it
    capacity       the engine had it once and evicted it
    other_replica  another replica has it
    text_break     the text was seen, but behind a beginning that differs
    structural     the partial last block, and the last token, which no cache gives
    compulsory     never seen

Unknown is not zero: a request whose engine does not say is counted apart, with our expectation for its hits.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

BINS = ("hit", "compulsory", "structural", "capacity", "other_replica", "text_break", "engine_gap")
"""Every bin, in the order of the record."""

ENOUGH = 8
"""Requests from which on a cache without effect is said to be so."""

UNEXPLAINED = 0.05
"""Hits over what shared text explains, as a part of all tokens looked up, before the engine is contradicted: counters
are read a moment before or after ours."""


@dataclass(frozen=True, slots=True)
class Sight:
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
    """Behind all of these, in text that was seen under another beginning."""


def split(sight: Sight, reported: int | None) -> tuple[tuple[str, int], ...]:
    """The bins of one prompt; they sum to its tokens and none is negative."""
    hit = sight.resident if reported is None else reported
    wanted = {
        "hit": hit,
        "engine_gap": sight.resident - hit,
        "capacity": sight.infinite - max(hit, sight.resident),
        "other_replica": sight.elsewhere - max(hit, sight.infinite),
        "structural": sight.tokens - max(sight.usable, hit),
        "text_break": sight.repeated,
    }
    left, found = sight.tokens, dict.fromkeys(BINS, 0)
    for name, count in wanted.items():
        found[name] = min(max(count, 0), left)
        left -= found[name]
    found["compulsory"] = left
    return tuple(found.items())


@dataclass(slots=True)
class Ledger:
    """The sums of one engine."""

    # State: tokens by bin, and what was expected and reported of requests whose engine says.

    bins: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    known: int = 0
    """Requests whose engine said what was cached ..."""
    known_tokens: int = 0
    """... their prompt tokens ..."""
    reported: int = 0
    """... the cached of them, as the engine says ..."""
    expected: int = 0
    """... and as we expected."""
    infinite: int = 0
    """Tokens that shared text explains, of all requests."""
    promising: int = 0
    """Requests of those known of which whole blocks were expected."""

    def add(self, sight: Sight, bins: Iterable[tuple[str, int]], reported: int | None) -> None:
        """Count one settled request."""
        self.bins.update(dict(bins))
        self.requests += 1
        self.infinite += max(sight.infinite, sight.elsewhere)
        if reported is not None:
            self.known += 1
            self.known_tokens += sight.tokens
            self.reported += reported
            self.expected += sight.resident
            self.promising += sight.resident > 0

    @property
    def tokens(self) -> int:
        """Prompt tokens of all requests."""
        return sum(self.bins.values())

    def verdict(self) -> str:
        """The engine's cache in one word: `unknown`, `no_effect`, `contradicted` or `healthy`."""
        if not self.known:
            return "unknown"
        if self.promising >= ENOUGH and not self.reported:
            return "no_effect"
        if contradicted(self.reported, self.infinite, self.known_tokens):
            return "contradicted"
        return "healthy"


def contradicted(hits: int, explained: int, looked_up: int) -> bool:
    """An engine counts more hits than shared text can explain."""
    return hits - explained > UNEXPLAINED * looked_up
