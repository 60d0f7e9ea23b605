"""One line per request for the terminal: what `ollama run --verbose` would say, for every client at once.

    12:01:07 llama3.2 chat  1,031+172 tok (912 cached)  queue 0.05  prefill 0.31  decode 4.20 s  41 tok/s

Only what is known is shown; a joint phase is shown under its joint name, an inferred number with a `~`. A request that
the door refused says by which rule, for what reason, and whose it was:

    12:01:08 llama3.2 chat  ~1,031 tok  total 0.001 s  shed 429 gold.requests_per_minute rate_requests tenant=acme
    12:01:09 gpt-4o chat  total 0.001 s  refused 404: no engine serves the model 'gpt-4o'; there are llama3.2
"""

from collections.abc import Callable
from datetime import datetime

import structlog

from proxy.exporters.exporter import InMemory
from proxy.office.outlet import Outlet
from proxy.plain import printable, seconds
from proxy.records import Class, Finished, Outcome, Phase, RequestRecord

NAMES = {
    "admission": "waited",
    "proxy": "proxy",
    "frontend": "frontend",
    "step_wait": "step wait",
    "queue": "queue",
    "queue_prefill": "queue+prefill",
    "load": "load",
    "prefill": "prefill",
    "prefill_decode": "prefill+decode",
    "decode": "decode",
    "engine": "engine",
    "delivery": "delivery",
    "unattributed": "unattributed",
}
"""How phases are called."""
CHANGE = frozenset({"proxy", "frontend", "delivery", "unattributed"})
"""The small change of a request: shown where it is not small."""
TENTH = 10
"""What makes out a tenth of the total is not small."""
SMALL_NS = 5_000_000
"""A shorter phase is noise on a line for people, and is left out beside longer ones."""
NAME_CHARS = 40
FLUSH_S = 0.5
"""For the last lines when the office ends: a terminal that runs has shown them in a hundredth of it."""
REFUSALS = frozenset({Outcome.SHED, Outcome.REFUSED, Outcome.QUEUE_TIMEOUT})
"""Ends at the door."""
BROKEN = frozenset({Outcome.CLIENT_GONE, Outcome.TRUNCATED, Outcome.ENGINE_STALLED, Outcome.ENGINE_ERROR})
"""Ends of an answer that had begun: its tokens are those that were seen."""
WHY_CHARS = 100
BAD = 400
"""Statuses from here on say themselves that it did not go well."""


log = structlog.get_logger("phasegate.live")


class LiveExporter(InMemory):
    """Writes one line per request, with its engine's name where there are `several`. A terminal that is gone, or that
    nobody reads, loses lines, counted."""

    def __init__(self, outlet: Outlet, several: Callable[[], bool] = lambda: False) -> None:
        self._outlet = outlet
        self._several = several

    @property
    def lost(self) -> int:
        """Lines that nobody has seen, since start."""
        return self._outlet.lost

    def export(self, record: RequestRecord) -> None:
        """Writes the line. Lists, health checks and the like are left out unless they failed."""
        finished = record.finished
        if finished.facts.route != "inference" and finished.outcome is Outcome.COMPLETED:
            return
        self._outlet.put(line(record, named=self._several()))

    def close(self) -> None:
        """Shows the last lines; says how many were never shown."""
        self._outlet.close(FLUSH_S)
        if self.lost:
            log.warning("live_lines_lost", lines=self.lost)


def missing(lines: int) -> str:
    """What stands in place of lines that were not read in time."""
    return f"({lines:,} requests are not shown here: the terminal stood still)"


def line(record: RequestRecord, *, named: bool = False) -> str:
    """The record as one line of plain text, safe to print: a model's name comes from outside. `named`: the engine's
    name is in it."""
    finished = record.finished
    stamp = datetime.fromtimestamp(finished.timeline.at_s).strftime("%H:%M:%S")
    asked = f"{finished.facts.kind} {_safe(finished.facts.path)}".rstrip()
    if named and finished.engine:
        asked += f" on {_safe(finished.engine)}"
    parts = [f"{stamp} {_safe(finished.facts.model or '-')} {asked}", _tokens(finished), *_phases(record)]
    if finished.timeline.blocked_ns >= SMALL_NS:
        parts.append(f"blocked {_seconds(finished.timeline.blocked_ns)} s")
    if record.breakdown.decode_rate is not None:
        parts.append(f"{record.breakdown.decode_rate:.3g} tok/s")
    if finished.outcome is not Outcome.COMPLETED:
        parts.append(_ending(finished) + _refusal(finished))
    elif finished.admission.mode == "observe" and finished.admission.rule:
        parts.append(f"would shed: {_safe(finished.admission.rule)}")
    return "  ".join(part for part in (*parts, *record.findings) if part)


def _ending(finished: Finished) -> str:
    """The outcome and the status that the client got: a good one, of which it is no wonder, is said to be that."""
    status = finished.status
    if status is None:
        return finished.outcome.value
    return f"{finished.outcome.value} {status if status >= BAD else f'(status {status})'}"


def _refusal(finished: Finished) -> str:
    """What the door refused by, and whose request it was; else what went wrong, where the outcome does not say it."""
    verdict, tenant = finished.admission, finished.tenant
    if finished.outcome is Outcome.CLIENT_GONE:
        return ""
    refused = finished.outcome in REFUSALS
    said = (verdict.rule, verdict.reason, f"tenant={tenant}" if tenant else None) if refused else ()
    why = (finished.error or "").removeprefix(f"engine error {finished.status}").removeprefix(": ")
    why = f": {printable(why, WHY_CHARS)}" if why and not (refused and verdict.rule) else ""
    return "".join(f" {_safe(word)}" for word in said if word) + why


def _safe(text: str) -> str:
    """Names come from outside."""
    return printable(text, NAME_CHARS)


def _tokens(finished: Finished) -> str:
    """Prompt and output tokens; our own count of the prompt, with `~`, where the engine said nothing."""
    usage, count = finished.usage, finished.counted
    prompt = f"{usage.prompt_tokens:,}" if usage is not None and usage.prompt_tokens is not None else None
    if prompt is None:
        prompt = f"~{count.n:,}" if count is not None else "?"
    output = f"+{usage.output_tokens:,}" if usage is not None and usage.output_tokens is not None else ""
    if not output and finished.outcome in BROKEN and finished.timeline.token_events:
        output = f"+~{finished.timeline.token_events:,}"
    cached = f" ({usage.cached_tokens:,} cached)" if usage is not None and usage.cached_tokens is not None else ""
    return "" if prompt + output == "?" else f"{prompt}{output} tok{cached}"


def _phases(record: RequestRecord) -> list[str]:
    """The phases worth showing, the unit once; the total where no phase is."""
    total, phases = record.finished.timeline.total_ns, record.breakdown.phases
    longest = max((phase.ns for phase in phases if phase.name not in CHANGE), default=0)
    texts = [
        f"{NAMES[phase.name]} {_mark(phase)}{_seconds(phase.ns)}"
        for phase in phases
        if phase.ns >= (max(SMALL_NS, total / TENTH) if phase.name in CHANGE else min(SMALL_NS, longest))
    ]
    if not texts:
        texts = [f"total {_seconds(total)}"]
    texts[-1] += " s"
    return texts


def _seconds(ns: int) -> str:
    return seconds(ns / 1e9)


def _mark(phase: Phase) -> str:
    return "~" if phase.klass is Class.INFERRED else ""
