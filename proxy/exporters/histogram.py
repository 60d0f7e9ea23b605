"""Distributions and sums by label set, with a bound on how many there are. No library: plain numbers.

Prometheus pays per series, so all families draw on one `Budget`. When it is spent a new label set is folded: its model
becomes `other`, and the last of several models of its engine gives its series for that set. Where there are no several,
all labels that the outside can invent (engine, model, tenant) become `other`, the rest stay. Each family may hold
`reserve` sets of those; beyond them there is one last set, in which every label is `other`. So the bound holds whatever
comes. A model may have a better right than another and take its series: what they held goes to `other`, so that no sum
ever falls.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

OTHER = "other"
MODEL = "model"
FOLDABLE = frozenset({"engine", MODEL, "tenant"})
"""Labels whose values come from outside."""

Labels = tuple[str, ...]
Value = TypeVar("Value")


def nobody(model: str) -> bool:
    """No model has a better right than another."""
    return False


class Budget:
    """Series that may still be created. State: that number.

    `yields`: makes one model give its series back for this one; False where none has to.
    """

    def __init__(self, series: int, yields: Callable[[str], bool] = nobody) -> None:
        self.left = series
        self.yields = yields

    def take(self, cost: int) -> bool:
        """Takes `cost` series if there are so many."""
        if cost > self.left:
            return False
        self.left -= cost
        return True


class Family(Generic[Value]):
    """Values by label set. State: the sets, and those among them for which no series were taken."""

    cost = 1
    """Series a label set."""

    def __init__(self, names: Sequence[str], budget: Budget, reserve: int = 1) -> None:
        self.names = tuple(names)
        self.sets: dict[Labels, Value] = {}
        self._model = self.names.index(MODEL) if MODEL in self.names else None
        self._budget = budget
        self._reserve = reserve
        self._free: set[Labels] = set()

    def place(self, labels: Labels) -> Labels:
        """The label set under which a value for `labels` is kept."""
        if labels in self.sets or self._budget.take(self.cost):
            return labels
        while self._model is not None and self._budget.yields(labels[self._model]):
            if self._budget.take(self.cost):
                return labels
        beside = self._beside(labels)
        return beside if beside in self.sets or self._gathered(beside) else self._fold(labels)

    def put_back(self, labels: Labels, value: Value, free: bool) -> None:
        """A set as it stood in another process."""
        self.sets[labels] = value
        if free:
            self._free.add(labels)
        else:
            self._budget.left -= self.cost

    def free(self, labels: Labels) -> bool:
        """Whether no series were taken for this set."""
        return labels in self._free

    def given_back(self, model: str) -> Iterator[tuple[Labels, Value]]:
        """Takes this model's sets out, gives their series back, and says where each value goes: beside its engine where
        one series is left for that and one for whom the model yields to."""
        for labels in [labels for labels in self.sets if self._model is not None and labels[self._model] == model]:
            value = self.sets.pop(labels)
            self._budget.left += self.cost
            beside = self._beside(labels)
            room = beside in self.sets or (self._budget.left >= 2 * self.cost and self._budget.take(self.cost))
            yield beside if room else self._fold(labels), value

    def _fold(self, labels: Labels) -> Labels:
        folded = tuple(OTHER if name in FOLDABLE else value for name, value in zip(self.names, labels, strict=True))
        if folded not in self.sets and len(self._free) >= self._reserve:
            folded = (OTHER,) * len(self.names)
        if folded not in self.sets:
            self._free.add(folded)
        return folded

    def _beside(self, labels: Labels) -> Labels:
        """The same of any other model."""
        return tuple(OTHER if at == self._model else label for at, label in enumerate(labels))

    def _gathered(self, beside: Labels) -> bool:
        """The last of the sets that differ from this one by their model becomes it; False where there are no two."""
        last = [labels for labels in reversed(self.sets) if self._beside(labels) == beside]
        if len(last) < 2:
            return False
        self.sets[beside] = self.sets.pop(last[0])
        return True

    def __iter__(self) -> Iterator[tuple[Labels, Value]]:
        return iter(self.sets.items())


class Sums(Family[float]):
    """Sums that only grow."""

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Adds `amount`."""
        labels = self.place(labels)
        self.sets[labels] = self.sets.get(labels, 0) + amount

    def give_back(self, model: str) -> None:
        """The model has no label any more."""
        for labels, amount in self.given_back(model):
            self.sets[labels] = self.sets.get(labels, 0) + amount


class Histogram:
    """One distribution.

    State: observations per bucket (the last is above every edge), their sum, and the newest exemplar per bucket.
    """

    __slots__ = ("counts", "exemplars", "total")

    def __init__(self, counts: Sequence[int], total: float = 0) -> None:
        self.counts = list(counts)
        self.total = total
        self.exemplars: dict[int, tuple[str, float, float]] = {}
        """Bucket -> (request id, value, seconds since the epoch)."""

    def add(self, counts: Sequence[int], total: float) -> None:
        """Adds a distribution over the same edges."""
        self.counts = [own + more for own, more in zip(self.counts, counts, strict=True)]
        self.total += total


class Histograms(Family[Histogram]):
    """Distributions over one list of edges; a value equal to an edge is under it. Values and edges share a unit."""

    def __init__(self, names: Sequence[str], edges: Sequence[float], budget: Budget, reserve: int = 1) -> None:
        super().__init__(names, budget, reserve)
        self.edges = tuple(edges)
        self.cost = len(edges) + 3  # buckets, the one above, sum and count

    def at(self, labels: Labels) -> Histogram:
        """The distribution for these labels."""
        histogram = self.sets.get(labels)
        if histogram is None:
            histogram = self.sets.setdefault(self.place(labels), Histogram([0] * (len(self.edges) + 1)))
        return histogram

    def observe(self, labels: Labels, value: float, exemplar: tuple[str, float] | None = None) -> None:
        """One value, with the request id and the time that stand for it."""
        histogram = self.at(labels)
        bucket = bisect_left(self.edges, value)
        histogram.counts[bucket] += 1
        histogram.total += value
        if exemplar is not None:
            histogram.exemplars[bucket] = (exemplar[0], value, exemplar[1])

    def observe_many(self, labels: Labels, values: Sequence[tuple[float, int]]) -> None:
        """Several values, each with how often it came."""
        histogram = self.at(labels)
        counts, edges = histogram.counts, self.edges
        for value, times in values:
            counts[bisect_left(edges, value)] += times
            histogram.total += value * times

    def give_back(self, model: str) -> None:
        """The model has no label any more."""
        for labels, held in self.given_back(model):
            self.sets.setdefault(labels, Histogram([0] * (len(self.edges) + 1))).add(held.counts, held.total)
