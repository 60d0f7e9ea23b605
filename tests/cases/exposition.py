"""Prometheus text, parsed: what the runner's metric checks read."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]+(\S+)')
_ESCAPE = re.compile(r"\\(.)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    """One line."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Exposition:
    """All samples of one scrape."""

    samples: tuple[Sample, ...] = field(default=())

    def total(self, name: str, **labels: str) -> float:
        """Sum of a series over all label values save these."""
        return sum(s.value for s in self.samples if s.name == name and _fits(s.labels, labels))

    def buckets(self, name: str, **labels: str) -> dict[float, float]:
        """Cumulative counts by upper edge, summed over all label values save these."""
        out: dict[float, float] = {}
        for sample in self.samples:
            if sample.name == f"{name}_bucket" and _fits(sample.labels, labels):
                edge = float(sample.labels["le"])
                out[edge] = out.get(edge, 0.0) + sample.value
        return dict(sorted(out.items()))

    def edge_lists(self, names: Iterable[str]) -> set[tuple[float, ...]]:
        """The different bucket lists among these histograms."""
        found = (tuple(self.buckets(name)) for name in names)
        return {edges for edges in found if edges}

    def label_values(self, label: str | None = None) -> set[str]:
        """Different values of a label; of all labels but `le` if none is named."""
        pairs = ((name, value) for sample in self.samples for name, value in sample.labels.items())
        return {value for name, value in pairs if (name == label if label else name != "le")}

    def faults(self) -> list[str]:
        """Samples that no exposition should have: NaN, infinite, negative."""
        bad = (s for s in self.samples if not math.isfinite(s.value) or s.value < 0)
        return [f"sample {s.name}{s.labels} is {s.value}" for s in bad]


def parse(text: str) -> Exposition:
    """Text or OpenMetrics format; comments, exemplars and time stamps are left out."""
    matches = (_SAMPLE.match(line) for line in text.split("\n") if line and not line.startswith("#"))
    return Exposition(
        tuple(Sample(m[1], {n: _plain(v) for n, v in _LABEL.findall(m[2] or "")}, float(m[3])) for m in matches if m)
    )


def quantile(q: float, buckets: Mapping[float, float]) -> float | None:
    """As `histogram_quantile` computes it: linear within a bucket, the highest finite edge above; None: no sample."""
    edges = sorted(buckets)
    if not edges or not buckets[edges[-1]]:
        return None
    rank, below, low = q * buckets[edges[-1]], 0.0, 0.0
    for edge in edges:
        if buckets[edge] >= rank:
            if math.isinf(edge):
                return low
            return low + (edge - low) * (rank - below) / (buckets[edge] - below)
        below, low = buckets[edge], edge
    return low


def _fits(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def _plain(value: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
