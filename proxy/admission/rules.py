"""What the operator wants: limits, for whom, and whether they are in force. Plain frozen values."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from proxy.admission.ask import OTHERS, Ask
from proxy.names import spellings

MODES = ("off", "observe", "enforce")
SCOPES = ("engine", "model", "tenant")


@dataclass(frozen=True, slots=True)
class Rule:
    """Limits with one scope. What is None is not limited."""

    name: str
    """As it stands in the configuration; told to the client that it refuses."""
    mode: str = "enforce"
    """`off`, `observe` (decisions are only written down) or `enforce`."""
    models: tuple[str, ...] = ()
    """Names or patterns (`llama*`) of models that it applies to; empty: all. A body that names none may mean any."""
    tenants: tuple[str, ...] = ()
    """Names or patterns of tenants; empty: all, and requests without one."""
    kinds: tuple[str, ...] = ()
    """`chat`, `completion`, `embed`, ...; empty: all."""
    per: tuple[str, ...] = ()
    """Counters are kept for each `engine`, `model` or `tenant` by itself; empty: one counter for all."""
    max_prompt_tokens: int | None = None
    """Longest prompt; several prompts of one body together. Nothing inside the count's error is refused."""
    max_output_tokens: int | None = None
    """Longest output that may be asked for ..."""
    cap_output: bool = False
    """... and whether what asks for more, or sets no limit, is capped in place of refused."""
    within_window: bool = False
    """Refuse what the engine's context window cannot hold, before the engine is asked."""
    max_concurrency: int | None = None
    """Exchanges at once."""
    queue_length: int = 0
    """Places for those who wait for `max_concurrency`."""
    queue_timeout_s: float = 30.0
    """Longest wait there, seconds."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Prompt tokens."""
    tokens_per_hour: int | None = None
    """Prompt and output tokens, by the hour of the clock (UTC)."""
    tokens_per_day: int | None = None
    """The same by the day."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode: {self.mode!r} is none of {', '.join(MODES)}")
        if unknown := set(self.per) - set(SCOPES):
            raise ValueError(f"per: {min(unknown)!r} is none of {', '.join(SCOPES)}")
        for name in LIMITS:
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"{name}: {limit} is less than 1")
        if self.queue_length < 0 or self.queue_timeout_s < 0:
            raise ValueError("queue_length and queue_timeout_s: not negative")

    def applies(self, ask: Ask) -> bool:
        """Whether this rule has a word in this request."""
        return (
            self.mode != "off"
            and (not self.kinds or ask.kind in self.kinds)
            and (not self.models or ask.nameless or any(map(self._fits, (ask.model, *ask.served))))
            and (not self.tenants or (ask.tenant is not None and _matches(self.tenants, [ask.tenant])))
        )

    @property
    def sized(self) -> bool:
        """Whether it limits what one request may be, by itself."""
        return self.mode != "off" and (self.max_prompt_tokens is not None or self.max_output_tokens is not None)

    def limits(self) -> Iterator[tuple[str, int]]:
        """Its limits by name; none where it is off."""
        for name in LIMITS if self.mode != "off" else ():
            if (limit := getattr(self, name)) is not None:
                yield name, limit

    def _fits(self, model: str | None) -> bool:
        return model is not None and _matches([name.casefold() for name in self.models], spellings(model))

    def subject(self, ask: Ask, shared: Collection[str] = ()) -> tuple[str, ...]:
        """Whose counter it is: the name of the rule, and what it is kept apart by. `shared`: that of all models, or
        tenants, which have none of their own."""
        if not self.per:
            return (self.name,)
        whose = {"engine": ask.engine, "model": ask.counted, "tenant": ask.tenant or ""}
        whose |= dict.fromkeys(shared, OTHERS)
        return (self.name, *[whose[scope] for scope in SCOPES if scope in self.per])


LIMITS = (
    "max_prompt_tokens",
    "max_output_tokens",
    "max_concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "tokens_per_hour",
    "tokens_per_day",
)
"""Fields of a rule that are limits."""


def _matches(patterns: Iterable[str], spelt: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in spelt)
