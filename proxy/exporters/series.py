"""Records folded into sums and distributions: plain numbers, ready to be shown to whoever asks."""

from collections.abc import Callable, Iterable, Iterator

from proxy.claims import OF_ONE
from proxy.exporters.definitions import (
    COUNT_ERROR,
    COUNTER_SERIES,
    COUNTERS,
    ERROR_EDGES,
    HISTOGRAM_SERIES,
    LABEL_CHARS,
    SECOND_NS,
    STALL_MEDIANS,
    STALL_NS,
    TIMES,
)
from proxy.exporters.exporter import InMemory
from proxy.exporters.histogram import OTHER, Budget, Histograms, Labels, Sums
from proxy.exporters.stamps import engine_gaps, token_gaps
from proxy.messages import Pulse
from proxy.names import as_it_is, shortest
from proxy.records import Outcome, RequestRecord, Timeline, Usage

Exemplar = tuple[str, float]


def untold(label: str) -> None:
    """Nobody need hear that a name has lost its label."""


class Names:
    """Which names have a label of their own: known ones, at most `limit`; the rest are `other`, none is empty.

    A name is known when an engine lists it or has served it: what a client makes up never gets a series. Some engines
    serve whatever name they are asked for, so names that an engine lists come first: where all labels are given, the
    last name that none lists loses its own, and `lost` hears of it. All spellings of a name, for which `one` is the
    same, have the label of the first. State: by this one the names that were granted a label, and those that engines
    list.
    """

    def __init__(self, limit: int, lost: Callable[[str], None] = untold, one: Callable[[str], str] = as_it_is) -> None:
        self._limit = limit
        self._lost = lost
        self._one = one
        self._granted: dict[str, str] = {}
        self._listed: frozenset[str] = frozenset()

    def lists(self, names: Iterable[str]) -> None:
        """Engines list these."""
        self._listed = frozenset(map(self._one, names))

    def granted(self) -> list[str]:
        """Names that have a label of their own."""
        return [*self._granted.values()]

    def grant(self, names: Iterable[str]) -> None:
        """These have served before."""
        for name in names:
            self.label(name, served=True)

    def label(self, name: str | None, *, served: bool) -> str:
        """The label's value, at most LABEL_CHARS characters, encodable."""
        if not name or name == OTHER:
            return name or ""
        one = self._one(name)
        granted = self._granted.get(one)
        if granted is not None:
            return _label(granted)
        listed = one in self._listed
        if len(self._granted) >= self._limit and listed:
            self.push_out()
        if len(self._granted) >= self._limit or not (served or listed):
            return OTHER
        self._granted[one] = name
        return _label(name)

    def yields(self, label: str) -> bool:
        """For a label whose name is listed, the last name that is not has to go; False where nobody has to."""
        granted = self._granted.items()
        return any(label == _label(name) and one in self._listed for one, name in granted) and self.push_out()

    def push_out(self) -> bool:
        """The last name that no engine lists loses its label; False where all are listed."""
        guest = next((one for one in reversed(self._granted) if one not in self._listed), None)
        if guest is None:
            return False
        self._lost(_label(self._granted.pop(guest)))
        return True


def _label(name: str) -> str:
    return name[:LABEL_CHARS].encode("utf-8", "replace").decode()


class Series(InMemory):
    """The exporter behind `/metrics`; its memory is handed on. State: the families, and the names that have a label of
    their own."""

    def __init__(self, *, models: int = 40, tenants: int = 20) -> None:
        self.models = Names(models, self._give_back, shortest)
        self.tenants = Names(tenants)
        budget, counts = (Budget(series, self.models.yields) for series in (HISTOGRAM_SERIES, COUNTER_SERIES))
        self.times = {name: Histograms(it.labels, it.edges, budget, it.spare) for name, it in TIMES.items()}
        self.counters = {name: Sums(it.labels, counts, it.spare) for name, it in COUNTERS.items()}
        self.count_error = Histograms(COUNT_ERROR.labels, ERROR_EDGES, budget, COUNT_ERROR.spare)

    def histograms(self) -> Iterator[tuple[str, Histograms]]:
        """Every family of distributions, by name."""
        yield from self.times.items()
        yield "count_error", self.count_error

    def pulse(self, pulse: Pulse) -> None:
        """Takes loop lag, and the models that engines list."""
        self.models.lists(model for engine in pulse.engines for model in engine.models)
        for lag_ns in pulse.lag_ns:
            self.times["loop_lag"].observe((), lag_ns)

    def export(self, record: RequestRecord) -> None:
        """Folds one record in."""
        finished = record.finished
        completed = finished.outcome is Outcome.COMPLETED
        served = completed or finished.timeline.token_events > 0
        model = self.models.label(finished.facts.model, served=served)
        labels = (finished.engine, model)
        self._endings(record, labels)
        self._usage(record, labels)
        self._prefixes(record, labels[:1])
        if finished.facts.route == "inference":
            exemplar = (finished.id, finished.timeline.at_s)
            self._tokens_seen(record, labels, exemplar)
            if completed:
                self._durations(record, labels, exemplar)

    def _give_back(self, model: str) -> None:
        """What was counted under a label that is lost goes to `other`, so that no sum over labels falls."""
        families: tuple[Histograms | Sums, ...] = (*self.times.values(), *self.counters.values())
        for family in families:
            family.give_back(model)

    def _add(self, name: str, labels: Labels, amount: float = 1) -> None:
        if amount:
            self.counters[name].add(labels, amount)

    def _endings(self, record: RequestRecord, labels: Labels) -> None:
        """How it ended, and what the door said."""
        finished = record.finished
        outcome, verdict = finished.outcome.value, finished.admission
        self._add("requests", (*labels, finished.facts.route, outcome))
        if finished.tenant is not None:
            self._add("tenant_requests", (self.tenants.label(finished.tenant, served=True), outcome))
        if verdict.mode != "off":
            self._add("admission_decisions", (verdict.decision, verdict.reason or "", verdict.mode))
        engine = labels[:1]
        self._add("cold_loads", engine, "cold_load" in record.findings)
        self._add("blocked_seconds", engine, finished.timeline.blocked_ns / SECOND_NS)
        self._add("unreadable_events", engine, finished.timeline.unreadable_events)
        if finished.outcome is Outcome.CLIENT_GONE:
            said = _of_all(record).output_tokens
            self._add("left_tokens", engine, finished.timeline.token_events if said is None else said)

    def _usage(self, record: RequestRecord, labels: Labels) -> None:
        """Tokens: sums of what engines said, and of whom they said nothing."""
        finished = record.finished
        prompt, output, cached, _ = _of_all(record)
        self._add("prompt_tokens", labels, prompt or 0)
        self._add("output_tokens", labels, output or 0)
        if cached is not None and prompt is not None:
            self._add("cached_tokens", labels, cached)
            self._add("cache_known_prompt_tokens", labels, prompt)
        if finished.counted is not None and prompt and "context_truncated" not in record.findings:
            self.count_error.observe((finished.counted.how,), abs(finished.counted.n - prompt) / prompt)
        if finished.outcome is Outcome.COMPLETED and finished.facts.route == "inference":
            engine = labels[:1]
            self._add("cache_unknown_requests", engine, cached is None)
            self._add("prompt_unknown_requests", engine, prompt is None)
            self._add("usage_known_requests", engine, prompt is not None and output is not None)

    def _prefixes(self, record: RequestRecord, engine: Labels) -> None:
        """Where prompt tokens came from, of requests that the engine says it has read."""
        prefix, usage = record.finished.prefix, record.finished.usage
        if prefix is None or not prefix.bins or usage is None or usage.prompt_tokens is None:
            return
        for name, tokens in prefix.bins:
            self._add("prefix_tokens", (*engine, name), tokens)
        if prefix.reported is not None:
            self._add("prefix_expected_tokens", engine, prefix.expected or 0)
            self._add("prefix_reported_tokens", engine, prefix.reported)

    def _tokens_seen(self, record: RequestRecord, labels: Labels, exemplar: Exemplar) -> None:
        """Times that need a token, or the engine's ear, but no good end."""
        timeline = record.finished.timeline
        if timeline.dispatched_ns is not None:
            own = max(0, timeline.dispatched_ns - timeline.admission_ns)
            self.times["overhead"].observe((), own, exemplar)
        if timeline.first_token_ns is not None:
            self.times["ttft"].observe(labels, timeline.first_token_ns, exemplar)
        if engine_gaps(timeline):
            gaps = token_gaps(timeline)
            self.times["itl"].observe_many(labels, gaps)
            self._add("stalls", labels[:1], _stalls(timeline, gaps))
        if record.breakdown.tpot_ns is not None:
            self.times["tpot"].observe(labels, record.breakdown.tpot_ns, exemplar)

    def _durations(self, record: RequestRecord, labels: Labels, exemplar: Exemplar) -> None:
        """Times of requests that ended well."""
        timeline = record.finished.timeline
        self.times["request_duration"].observe(labels, timeline.total_ns, exemplar)
        if timeline.first_byte_ns is not None:
            self.times["ttfb"].observe((), timeline.first_byte_ns, exemplar)
        for phase in record.breakdown.phases:
            self.times["phase"].observe((labels[0], phase.name, phase.klass.value), phase.ns, exemplar)


def _of_all(record: RequestRecord) -> Usage:
    """What the engine says, without what it says of one prompt or choice of several: that is no part of a sum."""
    usage = record.finished.usage or Usage()
    parts = [name.removeprefix(OF_ONE) for name in record.findings if name.startswith(OF_ONE)]
    return usage._replace(**dict.fromkeys(parts)) if parts else usage


def _stalls(timeline: Timeline, gaps: list[tuple[int, int]]) -> int:
    over = max(STALL_NS, STALL_MEDIANS * max(choice.p50_ns for choice in timeline.gaps))
    return sum(times for gap, times in gaps if gap > over)
