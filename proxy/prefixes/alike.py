"""The sums of families, as records name them: in the engine's own tokens, as the books have them."""

from collections import Counter, OrderedDict
from typing import Any

from proxy.records import PrefixVerdict

OTHER = "other"
"""The row of all families that have none of their own."""

SUMS = ("requests", "prompt_tokens", "reuse", "hit_requests")
"""What is added up: `reuse` are tokens that a cache without limit gives, `hit_requests` those of which it gives any."""

KNOWN = 512
"""Families kept apart, as many as the search does; the one seen least recently is told among the others."""

MOST = 40
"""Families in the report, the largest; the rest is one line."""


class Alike:
    """The families of the prompts that were audited."""

    # State: what each is called, and its sums, from the least to the most recently seen; the sums of those forgotten.

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[dict[str, Any], Counter[str]]] = OrderedDict()
        self._forgotten: Counter[str] = Counter()

    def add(self, engine: str, model: str | None, verdict: PrefixVerdict) -> None:
        """Count one settled request; without a name it is of no family that is known."""
        if (name := verdict.family) is None:
            return
        new: tuple[dict[str, Any], Counter[str]] = {"family": name, "engine": engine, "model": model}, Counter()
        reuse = verdict.infinite or 0
        _, sums = self._known.setdefault(name, new)
        sums.update(requests=1, prompt_tokens=verdict.tokens, reuse=reuse, hit_requests=int(reuse > 0))
        self._known.move_to_end(name)
        if len(self._known) > KNOWN:
            _, (_, gone) = self._known.popitem(last=False)
            self._forgotten.update(gone, families=1)

    def rows(self) -> list[dict[str, Any]]:
        """The largest first, as JSON can say them."""
        largest = sorted(self._known.values(), key=lambda one: -one[1]["prompt_tokens"])
        rest = self._forgotten.copy()
        for _, sums in largest[MOST:]:
            rest.update(sums, families=1)
        rows = [({"family": OTHER, "families": rest["families"]}, rest)] if rest else []
        return [{**about, **{name: sums[name] for name in SUMS}} for about, sums in (*largest[:MOST], *rows)]
