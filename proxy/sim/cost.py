"""How long one engine step takes: a roofline with its overheads.

    T = fixed + max(weights, token * tokens) + attention * sum q (ctx + q / 2) + context * sum ctx + sequence * jobs

q: prompt tokens of a job in this step; ctx: what is in its KV memory already. The first sum runs over prompts being
read, the second over decodes.
"""

from dataclasses import dataclass
from typing import NamedTuple


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
