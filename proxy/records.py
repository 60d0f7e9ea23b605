"""What the parts of phasegate tell one another: frozen records, standard library only.

Life of the records, in order: `RequestFacts` (wire) -> `TokenCount` (tokens) -> `PrefixVerdict` (prefixes) ->
`AdmissionVerdict` (admission) -> `Timeline`, `Usage`, `EngineReport` (recorder) -> `Finished` (one frame from the data
process to the office) -> `PhaseBreakdown` (attribution) -> `RequestRecord` (the only thing exporters see).

Named tuples where one is made for every request, for they are made and changed at a fraction of what a frozen dataclass
takes; dataclasses where only the office makes them.

Rules: unknown is None, never 0 or -1. Durations are integer nanoseconds (`_ns`) unless the name says otherwise. An
engine's durations may be used; an engine's timestamp is never subtracted from ours.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

NAME_CHARS = 256
"""Characters of a model's name, or of a path, in a record: as many as are kept of the names that engines list."""


class Outcome(StrEnum):
    """How an exchange ended; exactly one per record. The endings table in README says when."""

    COMPLETED = "completed"
    SHED = "shed"
    QUEUE_TIMEOUT = "queue_timeout"
    REFUSED = "refused"
    CLIENT_GONE = "client_gone"
    ENGINE_UNREACHABLE = "engine_unreachable"
    ENGINE_TIMEOUT = "engine_timeout"
    ENGINE_STALLED = "engine_stalled"
    ENGINE_OVERLOADED = "engine_overloaded"
    ENGINE_REJECTED = "engine_rejected"
    ENGINE_ERROR = "engine_error"
    TRUNCATED = "truncated"
    PROXY_ERROR = "proxy_error"


class Class(StrEnum):
    """How sure a number is."""

    MEASURED = "measured"
    """Said by the engine for this request, or read from our own clock at both ends."""
    DERIVED = "derived"
    """From engine values and our clock together; the error is stated."""
    INFERRED = "inferred"
    """Estimated from other traffic; the error is stated."""
    UNKNOWN = "unknown"
    """Not known: the time is real, its meaning is not."""


PHASES = (
    "admission",
    "proxy",
    "frontend",
    "step_wait",
    "queue",
    "queue_prefill",
    "load",
    "prefill",
    "prefill_decode",
    "decode",
    "engine",
    "delivery",
    "unattributed",
)
"""Every phase name, in the order of life. Joint names (`queue_prefill`, `prefill_decode`, `engine`) stand where only a
sum is known."""


RELOADING = ("draft_num_predict", "main_gpu", "num_batch", "num_ctx", "num_gpu", "num_thread", "use_mmap")
"""Options that make Ollama load a model anew when they change (its scheduler's own list)."""


# --- the request, as read -------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """One part of a message's content."""

    kind: str
    """`text`, `image`, `audio`, or `unknown` (a part of a type that we do not know)."""
    text: str
    """The text; for an image its URL or base64 string as sent; else empty."""


class Call(NamedTuple):
    """One tool call in a message."""

    name: str
    arguments: str
    """As sent; an object is dumped with `json.dumps(..., ensure_ascii=False)`, keys in the client's order."""


class Message(NamedTuple):
    """One chat message."""

    role: str
    parts: tuple[Part, ...]
    calls: tuple[Call, ...] = ()


class Prompt(NamedTuple):
    """What the engine will read, dialect-free. Lives in memory only; never stored, never logged."""

    messages: tuple[Message, ...] = ()
    """Chat messages in order; a `system` field of other dialects is the first of them."""
    tools: tuple[str, ...] = ()
    """Each tool as JSON text, `json.dumps(tool, ensure_ascii=False)`, keys in the client's order."""
    texts: tuple[str, ...] = ()
    """Raw prompts (completions, embeddings inputs), without a chat template."""
    ids: tuple[tuple[int, ...], ...] = ()
    """Prompts given as token ids."""
    salt: str = ""
    """`cache_salt`, or what else separates one prefix cache from another."""
    again: int = 0
    """How often the first of `texts` is read besides: a query stands before each document."""
    unseen: int = 0
    """Things that the engine may read besides, of which nothing tells the length: earlier turns that it keeps,
    documents for a template, embeddings."""

    def over(self, limit: int) -> bool:
        """Whether it has more messages, parts, calls, tools and prompts than `limit`; above it nothing is counted."""
        pieces = len(self.messages) + len(self.tools) + len(self.texts) + len(self.ids)
        if pieces > limit:
            return True
        return pieces + sum([len(message.parts) + len(message.calls) for message in self.messages]) > limit


class RequestFacts(NamedTuple):
    """What the request asks for, read from its head and body."""

    dialect: str
    """Whose language it is: `openai`, `ollama`, `llamacpp`, `responses`, `anthropic`, `sglang`, `vllm` (own paths
    that are no inference), `passthrough`."""
    kind: str
    """`chat`, `completion`, `generate`, `embed`, ..., or `other`."""
    route: str
    """`inference`, `read` (lists, health, metrics) or `manage` (pull, create, delete, ...)."""
    model: str | None = None
    stream: bool | None = None
    """What the body says; None where it says nothing. The answer's content type decides."""
    n: int = 1
    """Choices asked for per prompt."""
    prompts: int = 1
    """Prompts in the body."""
    max_output: int | None = None
    """Output tokens asked for at most; None: not said, or no limit."""
    asks_usage: bool = False
    """The client itself asked for usage in the stream."""
    options: tuple[tuple[str, str], ...] = ()
    """Options that make an engine reload (Ollama's num_ctx, num_batch, ...), as sent: they tell runners apart."""
    prompt: Prompt | None = None
    """None where the body holds none, or is not read."""
    body_bytes: int = 0
    """Size of the inference body that was looked into, read or not; 0: it passes unread. Limits alone ask for it, and
    for what follows."""
    unread: str = ""
    """Why the body that was looked into cannot be read, or not for certain; empty: it can."""
    unread_prompt: str = ""
    """Why the engine may read another prompt than the one that stands here, though the rest is plain; empty: it may
    not."""
    output_names: tuple[str, ...] = ()
    """The names by which `max_output` is said, where engines differ in which they heed."""
    path: str = ""
    """Of a request of kind `other`, which nothing else names: its beginning, without the query. For the terminal."""

    def promptless(self) -> "RequestFacts":
        """The same without the prompt and with a name of bounded length, as the record has it."""
        model = self.model[:NAME_CHARS] if self.model is not None else None
        return RequestFacts(
            self.dialect, self.kind, self.route, model, self.stream, self.n, self.prompts, self.max_output,
            self.asks_usage, self.options, path=self.path,
        )  # fmt: skip


# --- decisions before dispatch --------------------------------------------------------------------------------------


class TokenCount(NamedTuple):
    """The prompt's size, counted before it is sent."""

    n: int
    """Prompt tokens, chat template included where calibration knows it."""
    how: str
    """`exact`, `calibrated` or `estimated`."""
    low: int
    """The truth is at least this ..."""
    high: int
    """... and at most this, 95 times of 100."""
    text_tokens: int
    """Tokens of text and token ids alone, chat overhead not included."""
    prompts: int = 1
    images: int = 0
    unknown_parts: int = 0
    sample: tuple[int, ...] = ()
    """What calibration reads of the prompt (`tokens.sample`): numbers, no text. Empty: there is nothing to learn."""


class AdmissionVerdict(NamedTuple):
    """What the door decided."""

    decision: str = "admitted"
    """`admitted`, `queued` (admitted after a wait; or in line, where the reason is `disconnected`) or `shed` (never let
    in, by whatever part of the proxy: a wrong key and an unknown model have no reason and no rule here)."""
    reason: str | None = None
    """`budget_tokens`, `rate_requests`, `rate_tokens`, `prompt_too_long`, `output_too_long`, `queue_full`,
    `queue_deadline`, `predicted_ttft`, `concurrency`, `disconnected`, `unreadable`; None: nothing to say."""
    rule: str | None = None
    """The rule that decided, as it stands in the configuration."""
    mode: str = "off"
    """`off`, `observe` (the decision was only written down) or `enforce`."""
    waited_ns: int = 0
    predicted_ttft_ns: int | None = None


class Inferred(NamedTuple):
    """Cached tokens by prefill time alone, of an engine that does not say them."""

    cached: int
    low: int
    """The truth is at least this ..."""
    high: int
    """... and at most this, as the prefill times of cold prompts scatter."""


class PrefixVerdict(NamedTuple):
    """Where the prompt's tokens come from: the engine's prefix cache, or fresh work."""

    block: int
    """Tokens a cache block."""
    tokens: int
    """Prompt tokens including the template: the engine's count, or our estimate until it says one. Every figure here is
    a part of it."""
    expected: int | None = None
    """Tokens that this engine could take from its cache, by what was known at dispatch."""
    attainable: int | None = None
    """Hits of an LRU cache of the engine's real capacity; None: the capacity is not known."""
    infinite: int | None = None
    """Hits of a cache without a limit: what shared text explains. None, as all that follows from it, where the engine
    read another prompt than the one that we know: it cut it, or read besides what nobody sent."""
    bins: tuple[tuple[str, int], ...] = ()
    """Every prompt token in exactly one of `hit`, `compulsory`, `structural`, `capacity`, `other_replica`,
    `text_break`, `engine_gap`; empty where the engine never had the prompt, or another one."""
    family: str | None = None
    """Keyed hash that names the family of prompts, as `/api/prefixes` does; no text. None: the office's search did not
    take this prompt."""
    inferred: Inferred | None = None
    """Where the engine does not say its cached tokens, and enough prompts were seen. In no bin and no sum."""
    reported: int | None = None
    """Cached tokens of this prompt, as the engine says them."""
    rendered: int | None = None
    """Tokens of the prompt in our own rendering, in which the search for breakers counts; None: it is not all text, or
    the engine read another one."""


# --- what happened --------------------------------------------------------------------------------------------------


class Usage(NamedTuple):
    """Tokens that the engine says of this request: the last statement seen, never a sum."""

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """None is unknown, not zero."""
    reasoning_tokens: int | None = None

    def over(self, old: "Usage") -> "Usage":
        """What is said here and, where that is silent, what was said before: dialects tell usage in pieces."""
        return Usage(
            self.prompt_tokens if self.prompt_tokens is not None else old.prompt_tokens,
            self.output_tokens if self.output_tokens is not None else old.output_tokens,
            self.cached_tokens if self.cached_tokens is not None else old.cached_tokens,
            self.reasoning_tokens if self.reasoning_tokens is not None else old.reasoning_tokens,
        )


COLD_LOAD_NS = 300_000_000
"""A load of so much brought the model into memory. Ollama's `load_duration` is never zero: of a model that was there it
was 0.7-2.4 ms (0.33), 30-80 ms (0.17.4), 145 ms once. Real loads of a small model start at 550 ms."""


class EngineReport(NamedTuple):
    """Durations that the engine claims for this request; every field optional, in nanoseconds."""

    source: str
    """`ollama.durations`, `llamacpp.timings`, `vllm.metrics`, `sglang.meta_info`, ..."""
    total_ns: int | None = None
    frontend_ns: int | None = None
    queue_ns: int | None = None
    load_ns: int | None = None
    prefill_ns: int | None = None
    decode_ns: int | None = None
    fresh_tokens: int | None = None
    """Prompt tokens that were really processed (llama.cpp's `prompt_n`)."""
    output_tokens: int | None = None
    """Tokens that `decode_ns` speaks of; None: those of usage."""
    covers_all: bool = True
    """False where the figures describe a part of the work only (first prompt of several, n > 1)."""


class Gaps(NamedTuple):
    """Gaps between the token events of one choice, folded."""

    choice: int
    number: int
    total_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    lead: int = 0
    """Token events at its first moment: no gap between them is long enough for an engine's step (`gaps`)."""
    moments: int = 0
    """Moments at which it had token events; 0: they were not told apart."""


class Timeline(NamedTuple):
    """What our clock saw. Marks are nanoseconds since arrival, None where the moment never came."""

    at_s: float
    """Arrival by the wall clock, seconds since the epoch."""
    total_ns: int
    """Arrival to the end of the exchange: last byte out, refusal, abort, or the client's leaving."""
    admission_ns: int = 0
    """Time in our own queue."""
    dispatched_ns: int | None = None
    """The request has been written to a connection of the engine."""
    head_ns: int | None = None
    """Status line and headers of the answer are here."""
    first_byte_ns: int | None = None
    role_ns: int | None = None
    """An event with a role and no output (vLLM: leaves with the first token)."""
    first_token_ns: int | None = None
    """First token event; None for answers that are not streams."""
    first_answer_ns: int | None = None
    """First token event that is not reasoning."""
    last_token_ns: int | None = None
    last_byte_ns: int | None = None
    """The last byte of the engine's answer is here."""
    blocked_ns: int = 0
    """Time inside `send` because the client reads slowly; beside the sum, not in it."""
    streamed: bool = False
    """The answer was a stream of events."""
    bytes_in: int = 0
    """Request body."""
    bytes_out: int = 0
    """Response body."""
    events: int = 0
    token_events: int = 0
    unreadable_events: int = 0
    first_event_tokens: int = 1
    """Output tokens in the first token event, as far as the wire shows."""
    choices: int = 0
    """Choices that had a token event."""
    gaps: tuple[Gaps, ...] = ()
    stamps: bytes = b""
    """Token events' times, delta-coded: LEB128 varints of microseconds, first since arrival, then since the last;
    4,096 at most."""
    finish: str | None = None
    """Finish or done reason of choice 0."""
    done: bool = False
    """The dialect's terminal event was seen."""
    finish_ns: int | None = None
    """When that reason came."""


class Evidence(NamedTuple):
    """What was known about the engine while the exchange ran; attribution reads it, nobody else."""

    kind: str = "openai"
    """Engine type: `ollama`, `llamacpp`, `vllm`, `sglang`, or `openai` where nothing more is known."""
    version: str | None = None
    slots: int | None = None
    """Requests the runner can work on at once; None: not known."""
    ahead: int = 0
    """Exchanges of the same runner that were in flight when this one was dispatched."""
    contended_ns: int = 0
    """How long after dispatch, at most, all slots of the runner were taken by others."""
    busy_ns: int = 0
    """How long after dispatch, at most, one of those ahead was still in flight: with a slot free too, a runner takes
    new work only between two batches."""
    others_done_ns: int | None = None
    """From dispatch until the last exchange of another runner had ended that this one may have waited for; where it is
    known which of them had to go, of those; None: there was none."""
    swapped: bool | None = None
    """Another runner had to go for this one; None: not known."""


class Finished(NamedTuple):
    """One ended exchange, as the data process hands it to the office. Holds no prompt text."""

    id: str
    engine: str
    """Name of the engine (`[[upstream]]`); empty where none was chosen."""
    facts: RequestFacts
    outcome: Outcome
    status: int | None
    """What the client got; None: no head."""
    timeline: Timeline
    evidence: Evidence
    usage: Usage | None = None
    report: EngineReport | None = None
    counted: TokenCount | None = None
    admission: AdmissionVerdict = AdmissionVerdict()
    prefix: PrefixVerdict | None = None
    tenant: str | None = None
    error: str | None = None
    """Why it ended so, in words without secrets; None for a completed exchange."""
    findings: tuple[str, ...] = ()


# --- what is published ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of the total."""

    name: str
    ns: int
    klass: Class
    source: str
    """Where the number comes from: `clock`, `ollama.durations`, `llamacpp.head`, ..."""
    error_ns: int | None = None
    """Half width of the interval that holds the truth 95 times of 100; None: not stated."""


@dataclass(frozen=True, slots=True)
class PhaseBreakdown:
    """The total, split. The parts sum to the total to the nanosecond and none is negative."""

    phases: tuple[Phase, ...]
    """In the order of `PHASES`; a phase that is unknown or does not apply is absent."""
    prefill_rate: float | None = None
    """Fresh prompt tokens per second of prefill."""
    decode_rate: float | None = None
    """Output tokens per second of decode."""
    tpot_ns: float | None = None
    findings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if any(phase.ns < 0 for phase in self.phases):
            raise ValueError("a phase is never negative")


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One exchange, whole: what exporters see. `exporters.contract` turns it into JSON."""

    finished: Finished
    breakdown: PhaseBreakdown
    findings: tuple[str, ...] = ()
    """Everything worth saying; README has the list."""
