"""An engine as limits see it, of which nothing is known but what a test says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from proxy.names import Listed
from proxy.records import RequestFacts


@dataclass
class Known:
    name: str = "gpu-1"
    given: Mapping[str, int] = field(default_factory=dict)
    """Windows by listed name; the empty one stands for all others."""
    longest: int | None = None
    models: Sequence[str] = ()
    any_name: bool = False
    heeding: bool = True

    def __post_init__(self) -> None:
        self.listed = Listed(lambda: self.models)

    def served(self, model: str | None) -> Sequence[str]:
        return self.listed.behind(model) if self.any_name else ()

    def windows(self, model: str | None) -> tuple[int | None, int | None]:
        return self.given.get(model or "", self.given.get("")), self.longest

    def heeds(self, facts: RequestFacts) -> bool:
        return self.heeding
