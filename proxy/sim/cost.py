"""How long one engine step takes: a roofline with its overheads.

    T = fixed + max(weights, token * tokens) + attention * sum q (ctx + q / 2) + context * sum ctx + sequence * jobs

q: prompt tokens of a job in this step; ctx: what is in its KV memory already. The first sum runs over prompts being
read, the second over decodes.
"""

import random
from dataclasses import dataclass, replace
from typing import NamedTuple

SECOND = 1_000_000_000
"""Nanoseconds."""


class Work(NamedTuple):
    """One job's part of a step."""

    tokens: int
    context: int
    """Tokens in its KV memory before the step."""
    decode: bool
    """It has its first token already, and this makes the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Coefficients of the step time, in seconds."""

    weights_s: float
    """Reading all weights once."""
    token_s: float
    """Computing one token."""
    fixed_s: float = 0.0
    """Any step at all."""
    attention_s: float = 0.0
    """Per pair of a prompt token and a token it looks at."""
    context_s: float = 0.0
    """Per token in the KV memory of a decode."""
    sequence_s: float = 0.0
    """Per job in the step."""
    noise: float = 0.0
    """Standard deviation of the logarithm of a step's time; the caller draws it."""

    def faster(self, times: float) -> "Cost":
        """The same engine, so many times as fast."""
        return replace(
            self,
            weights_s=self.weights_s / times,
            token_s=self.token_s / times,
            fixed_s=self.fixed_s / times,
            attention_s=self.attention_s / times,
            context_s=self.context_s / times,
            sequence_s=self.sequence_s / times,
        )

    def seconds(self, work: list[Work]) -> float:
        """The time of a step without noise; 0 for a step without work."""
        if not work:
            return 0.0
        tokens = sum(part.tokens for part in work)
        pairs = sum(part.tokens * (part.context + part.tokens / 2) for part in work if not part.decode)
        context = sum(part.context for part in work if part.decode)
        return (
            self.fixed_s
            + max(self.weights_s, self.token_s * tokens)
            + self.attention_s * pairs
            + self.context_s * context
            + self.sequence_s * len(work)
        )


class Pace:
    """Step times with noise. State: the random source."""

    def __init__(self, cost: Cost, seed: int) -> None:
        self.cost = cost
        self._random = random.Random(seed)

    def step(self, work: list[Work]) -> tuple[int, int]:
        """Nanoseconds of a step, and how many of them its decodes by themselves would not have needed."""
        noise = self._random.lognormvariate(0.0, self.cost.noise) if self.cost.noise else 1.0
        taken = self.cost.seconds(work) * noise
        alone = self.cost.seconds([part for part in work if part.decode]) * noise
        return round(taken * SECOND), round((taken - alone) * SECOND)
