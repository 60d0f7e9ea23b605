"""What `phasegate audit` reads, as it must be: a line of requests or of records, a line of a trace, a proxy's answer.

Every number is bounded, so that nothing that is computed of them is without end.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Tokens = Annotated[int, Meta(ge=0, le=10**12)]
"""A terabyte of the shortest words."""
Moment = Annotated[float, Meta(ge=-1e12, le=1e12)]
"""Seconds since whenever a log begins."""
Clock = Annotated[float, Meta(ge=0, le=1e11)]
"""Seconds since the epoch, that a date can be made of."""
Share = Annotated[float, Meta(ge=0, le=1e6)]
"""A part of the whole; an engine that contradicts itself says more than one."""
Cost = Annotated[float, Meta(ge=0, le=1e15)]

NOTHING = msgspec.Raw(b"null")
CHAT = "/v1/chat/completions"
"""The path of a request that does not say its own."""


class Prefix(msgspec.Struct, frozen=True):
    """A record's `prefix`, as the contract has it."""

    bins: dict[str, Tokens] = {}
    expected: Tokens | None = None
    attainable: Tokens | None = None
    infinite: Tokens | None = None
    reported: Tokens | None = None
    family: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError where a part is more than the whole: the figures count different tokens."""
        parts = (self.attainable, self.infinite, self.reported)
        if self.bins and max(part or 0 for part in parts) > sum(self.bins.values()):
            raise ValueError("its prefix has more cached tokens than tokens")


class Counts(msgspec.Struct, frozen=True):
    """A record's `tokens`, as the contract has it."""

    prompt: Tokens | None = None


class Line(msgspec.Struct, frozen=True):
    """A request as somebody logged it; or, where it has a version, a record of ours."""

    id: str | int | float | None = None
    t_s: Moment | None = None
    path: str = CHAT
    body: msgspec.Raw = NOTHING
    output_text: str | None = None
    v: int | None = None
    engine: str = ""
    model: str | None = None
    tokens: Counts = Counts()
    prefix: Prefix | None = None


class Blocks(msgspec.Struct, frozen=True):
    """A request of a trace."""

    input_length: Tokens
    hash_ids: list[int]


class Bins(msgspec.Struct, frozen=True):
    """Every bin of the ledger."""

    hit: Tokens
    compulsory: Tokens
    structural: Tokens
    capacity: Tokens
    other_replica: Tokens
    text_break: Tokens
    engine_gap: Tokens

    def holds(self, tokens: int) -> None:
        """Raises ValueError unless they are these tokens, each in one bin."""
        if sum(msgspec.structs.astuple(self)) != tokens:
            raise ValueError("its bins do not sum to its prompt tokens")


class Totals(msgspec.Struct, frozen=True):
    """Of all engines; what is not there is not told."""

    requests: Tokens = 0
    prompt_tokens: Tokens = 0
    sized_requests: Tokens = 0
    known_requests: Tokens = 0
    known_ideal: Share | None = None
    bins: Bins | msgspec.UnsetType = msgspec.UNSET
    ideal: Share | None = None
    attainable: Share | None = None
    delivered: Share | None = None

    def __post_init__(self) -> None:
        """Raises ValueError where the parts are not the whole."""
        if max(self.sized_requests, self.known_requests) > self.requests:
            raise ValueError("more is known of its requests than it has")
        if self.bins is not msgspec.UNSET:
            self.bins.holds(self.prompt_tokens)


class Engine(msgspec.Struct, frozen=True):
    """The sums of one engine."""

    engine: str
    verdict: str
    requests: Tokens
    prompt_tokens: Tokens
    bins: Bins

    def __post_init__(self) -> None:
        """Raises ValueError where the parts are not the whole."""
        self.bins.holds(self.prompt_tokens)


class Broken(msgspec.Struct, frozen=True):
    """One breaker."""

    family: str
    kind: str
    fix: str
    role: str
    message: Tokens
    char: Tokens
    requests: Tokens
    tokens_saved: Tokens
    excerpts: list[str]
    share_saved: Share | None = None
    observed_s: Cost | None = None
    tokens_observed: Cost | None = None
    seconds_observed: Cost | None = None
    tokens_per_hour: Cost | None = None
    seconds_per_hour: Cost | None = None


class Alike(msgspec.Struct, frozen=True):
    """One family."""

    family: str
    requests: Tokens
    prompt_tokens: Tokens
    reuse: Tokens

    def __post_init__(self) -> None:
        """Raises ValueError where a part is more than the whole."""
        if self.reuse > self.prompt_tokens:
            raise ValueError("more of it is reusable than it has")


class Point(msgspec.Struct, frozen=True):
    """One size of a cache, and what it gives."""

    capacity_tokens: Tokens
    rate: Share
    engine: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What `/api/prefixes` says, as far as it is shown."""

    totals: Totals
    since: Clock | None = None
    engines: list[Engine] = []
    breakers: list[Broken] = []
    families: list[Alike] = []
    curve: list[Point] = []


line = msgspec.json.Decoder(Line).decode
blocks = msgspec.json.Decoder(Blocks).decode


def answer(body: bytes) -> dict[str, Any]:
    """A running proxy's report. Raises msgspec.DecodeError, RecursionError for what is none, as another audit's is."""
    found: dict[str, Any] = msgspec.json.decode(body)
    msgspec.convert(found, Answer)
    if "vllm_rule_infinite" in found or "reuse" in found["totals"]:
        raise msgspec.DecodeError("of a trace, or of requests")
    return found
