"""Every metric that is made of records: its labels, its definition, and what it may cost.

A definition says from which event to which. `spare` is the number of folded label sets kept in reserve (histogram).
"""

from typing import NamedTuple

SECOND_NS = 1_000_000_000
EDGES_NS = tuple(
    int(edge * SECOND_NS)
    for edge in (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 300, 600)
)
"""One list for all times of requests, so that any two can be compared: from a fast token gap to a prefill on a slow
machine."""
LAG_EDGES_NS = tuple(int(edge * SECOND_NS) for edge in (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 1))
"""For a late loop: phases are inferred well while it is under 2 ms, and a stream shows 50."""
ERROR_EDGES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
"""For a count's error, as a share of the truth."""
HISTOGRAM_SERIES, COUNTER_SERIES = 860, 180
"""Series handed out in the order of coming, apart, so that no histogram costs a count its label. With every family's
reserve and the gauges of eight engines all stays under 1,500."""
LABEL_CHARS = 128
STALL_NS, STALL_MEDIANS = 250_000_000, 5
"""A gap is a stall over both: this, and so many medians of its stream."""


class Definition(NamedTuple):
    """One metric."""

    labels: tuple[str, ...]
    spare: int
    help: str
    edges: tuple[int, ...] = EDGES_NS
    """Of a histogram, in nanoseconds."""


TIMES: dict[str, Definition] = {
    "ttfb": Definition((), 0, "Arrival to first byte of the response body. Completed inference requests."),
    "ttft": Definition(
        ("engine", "model"), 1, "Arrival to first event with output. Streams that had one, however they ended."
    ),
    "itl": Definition(("engine", "model"), 1, "One event with output to the next, of one choice of a stream."),
    "tpot": Definition(
        ("engine", "model"), 1, "First to last event with output, per output token between them. Streams of one choice."
    ),
    "request_duration": Definition(
        ("engine", "model"),
        1,
        "Arrival to last byte out. Completed inference requests; failures are in requests_total.",
    ),
    "phase": Definition(
        ("engine", "phase", "class"),
        12,
        "The parts that the duration of a completed inference request sums to. Class: measured (the engine or our "
        "clock said it), derived (both together), inferred (estimated), unknown.",
    ),
    "overhead": Definition(
        (), 0, "The proxy's own share: arrival until the request is written to the engine, less the wait in our queue."
    ),
    "loop_lag": Definition(
        (), 0, "How late a timer of the data process came: what a stream waits for us at worst.", LAG_EDGES_NS
    ),
}
"""Histograms of seconds."""

COUNTERS: dict[str, Definition] = {
    "requests": Definition(
        ("engine", "model", "route", "outcome"), 20, "Exchanges that have ended, by how they ended."
    ),
    "tenant_requests": Definition(("tenant", "outcome"), 13, "Exchanges that have ended, by tenant."),
    "prompt_tokens": Definition(("engine", "model"), 1, "Prompt tokens, as engines said."),
    "output_tokens": Definition(("engine", "model"), 1, "Output tokens, as engines said."),
    "cached_tokens": Definition(("engine", "model"), 1, "Prompt tokens out of the prefix cache, as engines said."),
    "cache_known_prompt_tokens": Definition(
        ("engine", "model"),
        1,
        "Prompt tokens of exchanges whose cached tokens are known: what cached_tokens are part of.",
    ),
    "cache_unknown_requests": Definition(
        ("engine",), 1, "Completed inference requests whose cached tokens are not known."
    ),
    "prompt_unknown_requests": Definition(
        ("engine",), 1, "Completed inference requests of which the engine did not say the prompt tokens."
    ),
    "usage_known_requests": Definition(
        ("engine",), 1, "Completed inference requests of which the engine said all prompt and output tokens."
    ),
    "prefix_tokens": Definition(
        ("engine", "bin"),
        7,
        "Prompt tokens of audited requests by where they came from: hit, compulsory, structural, capacity, "
        "other_replica, text_break, engine_gap.",
    ),
    "prefix_expected_tokens": Definition(
        ("engine",),
        1,
        "Prompt tokens that the audit expected from the prefix cache, of requests whose cached tokens are known.",
    ),
    "prefix_reported_tokens": Definition(
        ("engine",), 1, "Prompt tokens that came from the prefix cache, as engines said, of the same requests."
    ),
    "cold_loads": Definition(
        ("engine",), 1, "Exchanges that waited for their model to be loaded; several may wait for one load."
    ),
    "stalls": Definition(("engine",), 1, "Gaps between events with output over 250 ms and five medians of the stream."),
    "blocked_seconds": Definition(("engine",), 1, "Time inside send because a client read slowly."),
    "left_tokens": Definition(
        ("engine",), 1, "Output made for clients that left: tokens where the engine said them, else events."
    ),
    "unreadable_events": Definition(
        ("engine",), 1, "Events of answers that could not be read along; they were relayed all the same."
    ),
    "admission_decisions": Definition(
        ("decision", "reason", "mode"),
        4,
        "What the door decided: admitted, queued (admitted after a wait) or shed (never let in; its outcome is shed, "
        "refused or queue_timeout). Mode observe: it was only written down.",
    ),
}
"""Counters."""

COUNT_ERROR = Definition(
    ("how",), 1, "Prompt tokens counted before dispatch against the engine's, as a share of the engine's."
)
