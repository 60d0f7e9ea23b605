"""The exposition: what `Series` and the data process know, in Prometheus' words. The one home of its client library.

A scrape pulls plain numbers; nothing is computed while requests run. Exemplars carry the request id, and are shown in
the OpenMetrics format only.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from proxy.engines.inside import Inside
from proxy.exporters.definitions import COUNT_ERROR, COUNTERS, SECOND_NS, TIMES
from proxy.exporters.histogram import Histogram, Histograms, Sums
from proxy.exporters.series import Series
from proxy.messages import EngineState, Pulse

Bucket = tuple[str, float] | tuple[str, float, Exemplar]

PREFIX = "phasegate_"
EXEMPLAR_CHARS = 100
"""OpenMetrics allows an exemplar's labels 128 characters, names included."""


Says = Callable[[str], Inside]
"""What an engine says of its inside, by its name."""


def silent(engine: str) -> Inside:
    """Nothing is known of any engine's inside."""
    return Inside()


class Exposition:
    """What a scrape gets."""

    def __init__(
        self,
        series: Series,
        pulse: Callable[[], Pulse],
        lost: Callable[[], Mapping[str, int]],
        failures: Mapping[str, int],
        inside: Says = silent,
        waiting: Callable[[], Mapping[str, int]] = dict,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._registry = CollectorRegistry() if registry is None else registry
        self._registry.register(SeriesCollector(series))
        self._registry.register(StateCollector(pulse, lost, failures, waiting))
        self._registry.register(EngineCollector(pulse, inside))

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition and its content type: OpenMetrics where `accept` asks for it, else Prometheus text."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self._registry), content_type


class SeriesCollector(Collector):
    """Shows what was folded from records."""

    def __init__(self, series: Series) -> None:
        self._series = series

    def describe(self) -> list[Metric]:
        """Nothing beforehand: names are fixed in `definitions`."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every family, as it stands."""
        for name, times in self._series.times.items():
            yield _histogram(f"{PREFIX}{name}_seconds", TIMES[name].help, times, SECOND_NS)
        yield _histogram(f"{PREFIX}count_error_ratio", COUNT_ERROR.help, self._series.count_error, 1)
        for name, sums in self._series.counters.items():
            yield _counter(PREFIX + name, COUNTERS[name].help, sums)


class StateCollector(Collector):
    """Shows the state of the data process, as of its last pulse, and what was lost on the way."""

    def __init__(
        self,
        pulse: Callable[[], Pulse],
        lost: Callable[[], Mapping[str, int]],
        failures: Mapping[str, int],
        waiting: Callable[[], Mapping[str, int]],
    ) -> None:
        self._pulse = pulse
        self._waiting = waiting
        self._lost = lost
        self._failures = failures

    def describe(self) -> list[Metric]:
        """Nothing beforehand."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Gauges and counters of the data process and of the office."""
        pulse = self._pulse()
        yield _gauge("in_flight", "Exchanges that have arrived and not ended.", pulse.in_flight)
        if pulse.memory_bytes is not None:
            yield _gauge("memory_bytes", "Resident memory of the data process.", pulse.memory_bytes)
        for name, (text, read) in ENGINE_GAUGES.items():
            family = GaugeMetricFamily(PREFIX + name, text, labels=("engine",))
            for engine in pulse.engines:
                family.add_metric((engine.name,), read(engine))
            yield family
        waiting = GaugeMetricFamily(f"{PREFIX}records_waiting", "Records that wait to be written.", labels=("by",))
        for name, count in self._waiting().items():
            waiting.add_metric((name,), count)
        yield waiting
        malformed = CounterMetricFamily(f"{PREFIX}malformed_requests", "HTTP too broken to be an exchange.")
        malformed.add_metric((), pulse.malformed)
        yield malformed
        yield _counts("records_lost", "Records that did not get where they belong.", "by", self._lost())
        yield _counts("exporter_failures", "Exceptions of exporters, and of attribution.", "exporter", self._failures)


class EngineCollector(Collector):
    """Shows what engines say of their inside; what one does not say is absent."""

    def __init__(self, pulse: Callable[[], Pulse], inside: Says) -> None:
        self._pulse = pulse
        self._inside = inside

    def describe(self) -> list[Metric]:
        """Nothing beforehand."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every gauge, of the engines that say it."""
        said = [(engine.name, self._inside(engine.name)) for engine in self._pulse().engines]
        for name, (text, read) in INSIDE_GAUGES.items():
            family = GaugeMetricFamily(PREFIX + name, text, labels=("engine",))
            for engine, inside in said:
                if (value := read(inside)) is not None:
                    family.add_metric((engine,), value)
            yield family


def _beside_vram(inside: Inside) -> int | None:
    """Bytes of models that are not in video memory; None where one of them does not say."""
    if inside.loaded is None:
        return None
    sizes = [(model.size, model.size_vram) for model in inside.loaded]
    known = [max(0, size - vram) for size, vram in sizes if size is not None and vram is not None]
    return sum(known) if len(known) == len(sizes) else None


INSIDE_GAUGES: dict[str, tuple[str, Callable[[Inside], float | None]]] = {
    "engine_running": ("Requests that the engine works on, as it says.", lambda inside: inside.running),
    "engine_waiting": ("Requests that wait inside the engine, as it says.", lambda inside: inside.waiting),
    "engine_slots": ("Requests that the engine can work on at once, as it says.", lambda inside: inside.slots),
    "engine_kv_usage_ratio": (
        "Share of the KV cache in use, 0 to 1, as the engine says; llama.cpp: of its own window, the fullest slot's.",
        lambda inside: inside.kv_usage,
    ),
    "engine_outside_vram_bytes": (
        "Bytes of models in memory that are not in video memory, as Ollama says: what makes a model slow.",
        _beside_vram,
    ),
}
"""Gauges per engine, of what it says itself."""

ENGINE_GAUGES: dict[str, tuple[str, Callable[[EngineState], int]]] = {
    "engine_up": ("1 while the engine answers.", lambda engine: int(engine.answers)),
    "engine_in_flight": ("Exchanges dispatched to the engine and not ended.", lambda engine: engine.in_flight),
    "engine_queued": ("Exchanges that wait in our queue for the engine.", lambda engine: engine.queued),
}
"""Gauges per engine."""


def _histogram(name: str, text: str, histograms: Histograms, unit: float) -> Metric:
    family = HistogramMetricFamily(name, text, labels=histograms.names)
    bounds = [*(repr(edge / unit) for edge in histograms.edges), "+Inf"]
    for labels, histogram in histograms:
        family.add_metric(labels, _buckets(bounds, histogram, unit), sum_value=histogram.total / unit)
    return family


def _buckets(bounds: list[str], histogram: Histogram, unit: float) -> list[Bucket]:
    """Cumulative counts, each with the exemplar of its own bucket."""
    below = 0
    buckets: list[Bucket] = []
    for index, (bound, count) in enumerate(zip(bounds, histogram.counts, strict=True)):
        below += count
        seen = histogram.exemplars.get(index)
        buckets.append((bound, below) if seen is None else (bound, below, _exemplar(seen, unit)))
    return buckets


def _exemplar(seen: tuple[str, float, float], unit: float) -> Exemplar:
    request_id, value, at_s = seen
    return Exemplar({"request_id": request_id[:EXEMPLAR_CHARS]}, value / unit, at_s)


def _counter(name: str, text: str, sums: Sums) -> Metric:
    family = CounterMetricFamily(name, text, labels=sums.names)
    for labels, total in sums:
        family.add_metric(labels, total)
    return family


def _counts(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=value)
