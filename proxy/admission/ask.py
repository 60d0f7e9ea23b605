"""One request, as limits see it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from proxy.names import Listed, short, shortest
from proxy.records import RequestFacts, TokenCount

OTHERS = "(others)"
"""The model, or tenant, under whose name all share a counter that have none of their own."""

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
    """The body names no model, cannot be read, or passes unread: it may mean any."""
    unread: str = ""
    """Why the body cannot be read for certain; empty: it can."""
    counted: str = ""
    """The name under which its model's counters are kept: a short one, `OTHERS` for a model that is not listed."""
    served: tuple[str, ...] = ()
    """The shortest names of the models of which one will answer, where the engine does not look at the name that is
    asked for."""
    unread_prompt: str = ""
    """Why the engine may read another prompt than the one that was counted; empty: it may not."""


class Behind(Protocol):
    """The engine behind a door, as limits see it."""

    name: str
    listed: Listed

    def served(self, model: str | None) -> Sequence[str]:
        """The models of which one will answer, where the engine does not look at the name that is asked for."""
        ...

    def windows(self, model: str | None) -> tuple[int | None, int | None]:
        """Its context window for a model, by the name that it lists: as it is, and at most. None: not known."""
        ...

    def heeds(self, facts: RequestFacts) -> bool:
        """Whether it heeds a limit of the output that the request states."""
        ...


def ask(facts: RequestFacts, count: TokenCount | None, tenant: str | None, engine: Behind) -> Ask:
    """The request as limits see it. A prompt that cannot be read weighs by its body's bytes, for an engine may read
    what we cannot; one that could be, and was not counted, weighs nothing."""
    unread = facts.body_bytes if facts.prompt is None else 0
    served = engine.served(facts.model)
    name = served[0] if len(served) == 1 else facts.model
    counted = shortest(name) if name is not None else None
    window, longest = engine.windows(engine.listed.spelt(name) if name is not None else None)
    return Ask(
        kind=facts.kind,
        model=shortest(facts.model) if facts.model is not None else None,
        tenant=tenant,
        engine=engine.name,
        low=count.low if count is not None else unread // LOW_BYTES,
        n=count.n if count is not None else unread // TOKEN_BYTES,
        prompts=facts.prompts,
        max_output=facts.max_output if engine.heeds(facts) else None,
        window=_stated_window(facts, longest) or window,
        nameless=facts.model is None or bool(facts.unread),
        unread=facts.unread,
        counted="" if counted is None else short(counted) if engine.listed.has(counted) else OTHERS,
        served=tuple(map(shortest, served)),
        unread_prompt=facts.unread_prompt,
    )


def _stated_window(facts: RequestFacts, longest: int | None) -> int | None:
    """The context window that the request asks for: Ollama loads the model with it, or with what it was trained for."""
    stated = dict(facts.options).get("num_ctx", "") if facts.dialect == "ollama" else ""
    if not (stated.isascii() and stated.isdigit()):
        return None
    return int(stated) if longest is None else min(int(stated), longest)
