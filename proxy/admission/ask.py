"""One request, as limits see it, and why a limit denies it."""

from typing import NamedTuple

from proxy.admission.names import shortest
from proxy.records import RequestFacts, TokenCount

TOKEN_BYTES = 4
"""Bytes a token of plain text in UTF-8: what is charged for a prompt that cannot be read."""

LOW_BYTES = 16
"""Bytes a token where they are dearest: a token is four characters, and Python's engines read UTF-32 too, which writes
four bytes for each. What is held against a prompt that cannot be read."""


class Ask(NamedTuple):
    """What a request wants, of whom, and for whom."""

    kind: str
    model: str | None
    """Its shortest name."""
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
    nameless: bool = False
    """A body was read that names no model, or cannot be read: it may mean any."""


def ask(
    facts: RequestFacts, count: TokenCount | None, *, tenant: str | None, engine: str = "", window: int | None = None
) -> Ask:
    """The request as limits see it. A prompt that cannot be read weighs by its body's bytes, for an engine may read
    what we cannot; one that could be, and was not counted, weighs nothing."""
    unread = facts.body_bytes if facts.prompt is None else 0
    return Ask(
        kind=facts.kind,
        model=shortest(facts.model) if facts.model is not None else None,
        tenant=tenant,
        engine=engine,
        low=count.low if count is not None else unread // LOW_BYTES,
        n=count.n if count is not None else unread // TOKEN_BYTES,
        prompts=facts.prompts,
        max_output=facts.max_output,
        window=window,
        nameless=facts.model is None and facts.body_bytes > 0,
    )
