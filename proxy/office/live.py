"""One line per request for the terminal: what `ollama run --verbose` would say, for every client at once.

    12:01:07 llama3.2 chat  1,031+172 tok (912 cached)  queue 0.00  load 0.00  prefill 0.31  decode 4.20 s  41 tok/s

Only what is known is shown; a joint phase is shown under its joint name, an inferred number with a `~`.
"""

from datetime import datetime
from typing import TextIO

from proxy.records import Class, Finished, Outcome, Phase, RequestRecord

NAMES = {
    "admission": "waited",
    "step_wait": "step wait",
    "queue": "queue",
    "queue_prefill": "queue+prefill",
    "load": "load",
    "prefill": "prefill",
    "prefill_decode": "prefill+decode",
    "decode": "decode",
    "engine": "engine",
}
"""Phases that are shown, and how they are called; the others are the small change of a request."""
ALWAYS = frozenset({"queue", "load", "prefill", "decode"})
"""Shown when known, even at 0; the others from SMALL_NS on."""
MILLISECOND_NS = 1_000_000
SMALL_NS = 5 * MILLISECOND_NS
MODEL_CHARS = 40


class LiveExporter:
    """Writes one line per request. A terminal that is gone loses lines, counted."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0

    def export(self, record: RequestRecord) -> None:
        """Writes the line. Lists, health checks and the like are left out unless they failed."""
        finished = record.finished
        if finished.facts.route != "inference" and finished.outcome is Outcome.COMPLETED:
            return
        try:
            self._stream.write(line(record) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: closed, or an encoding without this character
            self.lost += 1

    def tick(self, now_ns: int) -> None:
        """Nothing is buffered."""

    def reopen(self) -> None:
        """A terminal is no file."""

    def close(self) -> None:
        """Not ours to close."""


def line(record: RequestRecord) -> str:
    """The record as one line of plain text, safe to print: a model's name comes from outside."""
    finished = record.finished
    stamp = datetime.fromtimestamp(finished.timeline.at_s).strftime("%H:%M:%S")
    model = "".join(char for char in finished.facts.model or "-" if char.isprintable())[:MODEL_CHARS]
    parts = [f"{stamp} {model} {finished.facts.kind}", _tokens(finished), *_phases(record)]
    if record.breakdown.decode_rate is not None:
        parts.append(f"{record.breakdown.decode_rate:.3g} tok/s")
    if finished.outcome is not Outcome.COMPLETED:
        parts.append(f"{finished.outcome.value} {finished.status or ''}".rstrip())
    return "  ".join(part for part in (*parts, *record.findings) if part)


def _tokens(finished: Finished) -> str:
    """Prompt and output tokens; our own count of the prompt, with `~`, where the engine said nothing."""
    usage, count = finished.usage, finished.count
    prompt = f"{usage.prompt_tokens:,}" if usage is not None and usage.prompt_tokens is not None else None
    if prompt is None:
        prompt = f"~{count.n:,}" if count is not None else "?"
    output = f"+{usage.output_tokens:,}" if usage is not None and usage.output_tokens is not None else ""
    cached = f" ({usage.cached_tokens:,} cached)" if usage is not None and usage.cached_tokens is not None else ""
    return "" if prompt + output == "?" else f"{prompt}{output} tok{cached}"


def _phases(record: RequestRecord) -> list[str]:
    """The phases worth showing, the unit once; the total where no phase is."""
    shown = [phase for phase in record.breakdown.phases if _worth(phase)]
    texts = [f"{NAMES[phase.name]} {_mark(phase)}{_seconds(phase.ns)}" for phase in shown]
    if not texts:
        texts = [f"total {_seconds(record.finished.timeline.total_ns)}"]
    texts[-1] += " s"
    return texts


def _seconds(ns: int) -> str:
    """To a hundredth; to a thousandth where that says more."""
    return f"{ns / 1e9:.3f}" if MILLISECOND_NS <= ns < 100 * MILLISECOND_NS else f"{ns / 1e9:.2f}"


def _worth(phase: Phase) -> bool:
    return phase.name in NAMES and (phase.name in ALWAYS or phase.ns >= SMALL_NS)


def _mark(phase: Phase) -> str:
    return "~" if phase.klass is Class.INFERRED else ""
