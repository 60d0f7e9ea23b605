"""What stands beside an engine, as exchanges know it: its door, its desk, its prefix audit. Protocols alone."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from proxy.events import Said
from proxy.headers import Pair
from proxy.records import AdmissionVerdict, Inferred, PrefixVerdict, RequestFacts, TokenCount, Usage


class Permit(Protocol):
    """Leave to be at the engine."""

    @property
    def verdict(self) -> AdmissionVerdict:
        """What the door decided."""
        ...

    @property
    def output_cap(self) -> tuple[int, str] | None:
        """Output tokens to write into the request as its limit, and for which rule; None: leave it as it is."""
        ...

    def first_token(self) -> None:
        """The prompt has been read."""
        ...

    def ended(self, how: str, usage: Usage | None, written: int = 0) -> None:
        """`success`, `ignore`, `dropped`, `rejected` or `withdrawn`; `written`: output tokens that were seen at least.
        The first call counts."""
        ...


class Door(Protocol):
    """Who may go to the engine now."""

    @property
    def waiting(self) -> int:
        """Exchanges that wait for this engine."""
        ...

    async def admit(
        self, facts: RequestFacts, count: TokenCount | None, prefix: PrefixVerdict | None, tenant: str | None
    ) -> Permit:
        """A permit, perhaps after a wait. Raises Shed, Refused."""
        ...

    def headers(self, facts: RequestFacts, tenant: str | None) -> list[Pair]:
        """What is left of this client's limits, as headers of its answer."""
        ...


class Desk(Protocol):
    """Counts prompts for one engine."""

    def serves(self, kind: str) -> None:
        """The engine is of this kind, as was found out."""
        ...

    async def count(
        self, facts: RequestFacts, body: bytes = b"", spell: Callable[[bytes], None] = ...
    ) -> TokenCount | None:
        """The prompt's size; None where there is none, or it is not counted. `spell` is told the prompt's token ids, in
        JSON, where the engine was asked."""
        ...

    def learn(self, facts: RequestFacts, count: TokenCount | None, usage: Usage | None) -> None:
        """What the engine said of a prompt that was counted."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """By model: answers learnt from, and the drift of the count against them."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """What was learnt, as JSON."""
        ...

    def restore(self, kept: object) -> int:
        """Go on from what `to_dict` gave. Returns how many things were odd, and left out."""
        ...


class Audit(Protocol):
    """The prefix audit of one engine."""

    def predict(self, id: str, facts: RequestFacts, now_ns: int, ids: Sequence[int] = ()) -> PrefixVerdict | None:
        """What the engine's cache could give; changes nothing. `ids`: the prompt in the engine's own tokens."""
        ...

    def dispatched(self, id: str, facts: RequestFacts, now_ns: int) -> PrefixVerdict | None:
        """The engine has the prompt: its blocks are in the cache."""
        ...

    def ended(
        self,
        id: str,
        said: Said,
        usage: Usage | None,
        ids: Sequence[int] = (),
        loaded_s: float | None = None,
        cut: bool = False,
    ) -> PrefixVerdict | None:
        """The verdict, settled with what the engine says. `loaded_s`: when it had loaded the model for this request, by
        the wall clock. `cut`: it left some of the prompt out."""
        ...

    def unread(self, id: str) -> None:
        """The engine has refused the request: it read no prompt."""
        ...

    def restarted(self) -> None:
        """The engine was started anew: its cache is empty."""
        ...

    def inferred(self, model: str, tokens: int, prefill_ns: int, known: int, there: int) -> Inferred | None:
        """Cached tokens of a prompt that took this long, of which so many tokens were seen before, and so many of these
        are there as we believe."""
        ...
