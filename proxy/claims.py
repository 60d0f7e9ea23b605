"""What an engine claims of one exchange, and what of it cannot be true: that is left out, and named.

Nothing goes on from here that is over a bound: neither to budgets and calibration, nor to records and metrics.
"""

from typing import NamedTuple

from proxy.records import EngineReport, RequestFacts, Timeline, Usage

MOST = 1_000_000_000
"""Tokens of a prompt or an answer: ten times the longest window that any model is said to have."""

FASTEST = 100_000
"""Tokens per second that no engine writes for one request; the fastest hardware writes some thousands."""

LATE_NS = 10_000_000
"""Our marks can be late by the loop's lag (2 ms is its limit, 10 ms a bad moment): less is no contradiction."""

SPLIT = 1.1
"""Moments at which output came, per output token that the engine counts, at most. It may be a little over one: now and
then an intermediary cuts one token's text in two, or an engine leaves its first or last token out of its count. If it
is more, the count is of something else: of one chunk, of one part."""

FIELDS = ("prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "fresh_tokens")
"""Figures that are judged. The finding of each is `impossible.` and its name."""

OF_ONE = "of_one."
"""Begins the finding of a figure that is of one prompt or choice of several: it is true, and no part of a sum."""


class Claims(NamedTuple):
    """What may be believed, and findings that name the rest."""

    usage: Usage | None
    report: EngineReport | None
    findings: tuple[str, ...] = ()


def sift(facts: RequestFacts, line: Timeline, usage: Usage | None, report: EngineReport | None) -> Claims:
    """Leaves out what contradicts itself or the stream as it was seen. Durations are attribution's to judge."""
    stated, told = usage or Usage(), report or EngineReport(source="")
    doubted: set[str] = set()

    def kept(name: str, figure: int | None, least: float, most: float) -> int | None:
        if figure is None or least <= figure <= most:
            return figure
        doubted.add(f"impossible.{name}")
        return None

    least, most = _output(facts, line, told)
    prompt = kept("prompt_tokens", stated.prompt_tokens, 0, MOST)
    output = kept("output_tokens", stated.output_tokens, least, most)
    whole = MOST if prompt is None else prompt
    sifted = Usage(
        prompt,
        output,
        kept("cached_tokens", stated.cached_tokens, 0, whole),
        kept("reasoning_tokens", stated.reasoning_tokens, 0, most if output is None else output),
    )
    fresh = kept("fresh_tokens", told.fresh_tokens, 0, whole)
    written = kept("output_tokens", told.output_tokens, least if told.covers_all else 0, most)
    if not doubted:
        return Claims(usage, report)
    findings = tuple(name for field in FIELDS if (name := f"impossible.{field}") in doubted)
    sound = None if sifted == Usage() else sifted
    return Claims(sound, report and report._replace(fresh_tokens=fresh, output_tokens=written), findings)


def of_first(report: EngineReport | None) -> bool:
    """Of several prompts or choices llama.cpp says the figures of one alone."""
    return report is not None and report.source == "llamacpp.timings" and not report.covers_all


def _output(facts: RequestFacts, line: Timeline, report: EngineReport) -> tuple[float, float]:
    """Output tokens, at least and at most, by the stream and the time that it took."""
    asked = max(1, facts.n * facts.prompts)
    took_ns = line.total_ns - (line.dispatched_ns or 0) + LATE_NS
    most = min(MOST, 1 + asked * FASTEST * took_ns / 1e9)
    # Of several choices figures may cover one. Ollama writes reasoning and a formatted answer in two runs, and says the
    # tokens of the second.
    thought = line.first_answer_ns != line.first_token_ns
    partial = asked > 1 or line.choices > 1 or (thought and report.source.startswith("ollama"))
    moments = 0 if partial else max((gaps.moments for gaps in line.gaps), default=0)
    return moments / SPLIT, most
