"""One request, as limits see it, and why a limit denies it."""

from typing import NamedTuple

from proxy.records import RequestFacts, TokenCount


class Ask(NamedTuple):
    """What a request wants, of whom, and for whom."""

    kind: str
    model: str | None
    tenant: str | None
    engine: str
    low: int
    """The prompt has at least so many tokens: what is held against it."""
    n: int
    """The best guess: what is charged until the engine has spoken."""
    prompts: int
    max_output: int | None
    window: int | None
    """The engine's context window; None: not known."""


def ask(
    facts: RequestFacts, count: TokenCount | None, *, tenant: str | None, engine: str = "", window: int | None = None
) -> Ask:
    """The request as limits see it; a prompt that was not counted weighs nothing."""
    return Ask(
        kind=facts.kind,
        model=facts.model,
        tenant=tenant,
        engine=engine,
        low=count.low if count is not None else 0,
        n=count.n if count is not None else 0,
        prompts=facts.prompts,
        max_output=facts.max_output,
        window=window,
    )
