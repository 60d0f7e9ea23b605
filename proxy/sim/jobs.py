"""What goes into a machine and what comes out: frozen records. Times and durations are integer nanoseconds."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Job:
    """One sequence to generate. The answer is given: a machine decides when, not what."""

    id: str
    prompt: tuple[int, ...]
    """Token ids; never empty."""
    answer: tuple[int, ...]
    """Token ids that will be generated; never empty."""
    salt: str = ""
    """Separates prefix caches (vLLM's `cache_salt`)."""
    model: str = ""
    """Which weights; a machine of one model does not look."""
    finish: str = "length"
    """Why the answer ends: at its `length` limit, or by itself, `stop`."""

    def __post_init__(self) -> None:
        if not self.prompt or not self.answer:
            raise ValueError("a job has at least one prompt token and one answer token")


@dataclass(frozen=True, slots=True)
class Token:
    """One output token leaving the machine at the end of a step."""

    id: str
    index: int
    """Place in the answer, from 0."""
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What really happened to one job. A moment that never came is None."""

    id: str
    arrived_ns: int
    queued_ns: int | None = None
    """The engine took it in: the first step boundary after arrival."""
    scheduled_ns: int | None = None
    """Start of the step that first worked on it."""
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    load_ns: int = 0
    """Loading the model, inside the time between arrival and `queued_ns`."""
    prompt_tokens: int
    cached_tokens: int = 0
    """Prompt tokens taken from the cache at first admission."""
    output_tokens: int = 0
    preemptions: int = 0
    interference_ns: int = 0
    """Decode time lost because its steps carried others' prefill too."""
    finish: str = "length"
    aborted: bool = False

    @property
    def step_wait_ns(self) -> int | None:
        """Arrival until the engine took it in."""
        return _between(self.arrived_ns, self.queued_ns)

    @property
    def queue_ns(self) -> int | None:
        """Taken in until first worked on."""
        return _between(self.queued_ns, self.scheduled_ns)

    @property
    def prefill_ns(self) -> int | None:
        """First worked on until the first token."""
        return _between(self.scheduled_ns, self.first_token_ns)

    @property
    def decode_ns(self) -> int | None:
        """First token until the last one."""
        return _between(self.first_token_ns, self.last_token_ns)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a machine, decided at its start."""

    start_ns: int
    duration_ns: int
    scheduled: tuple[tuple[str, int], ...]
    """Tokens worked on per job, in scheduling order."""
    prompt_tokens: int
    """How many of those tokens belong to jobs without a first token yet."""
    tokens: tuple[Token, ...] = ()
    """Output tokens, leaving at the end."""
    preempted: tuple[str, ...] = ()
    admitted: tuple[tuple[str, int, int], ...] = ()
    """Jobs first worked on: id, prompt tokens, and how many of them the cache gave."""
    ended: tuple[Truth, ...] = ()
    """Jobs that end with this step, aborted ones included."""

    @property
    def end_ns(self) -> int:
        """When its tokens leave."""
        return self.start_ns + self.duration_ns

    @property
    def size(self) -> int:
        """Tokens worked on."""
        return sum(tokens for _, tokens in self.scheduled)


class Steppable(Protocol):
    """A scheduler in virtual time: it reads no clock and never waits."""

    def submit(self, t: int, job: Job) -> None:
        """Hand in a job at `t`; raises `Busy` where the engine would refuse it."""
        ...

    def abort(self, t: int, id: str) -> None:
        """The client left; takes effect at the next step boundary. Unknown ids are ignored."""
        ...

    def due(self) -> int | None:
        """When the next step can start; None: nothing to do."""
        ...

    def step(self, t: int) -> Step | None:
        """Start the step that is due at or before `t`; None: none is due."""
        ...


class Busy(Exception):
    """The pending queue is full."""


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else end - start
