"""A request as the embedded engine understands it, whatever dialect it came in, and how an answer is voiced."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from proxy.sim.jobs import Job, Token, Truth
from proxy.sim.words import answer, number

END = "<|im_end|>"
"""The token that ends an answer which ends by itself: it is counted, and has no text."""

OWN_LENGTH = 128
"""Tokens of an answer that ends by itself: a usual length of chat answers."""


class Rejected(Exception):
    """The engine will not take the request."""

    def __init__(self, status: int, message: str, type: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.type, self.param = status, message, type, param


class Reply(NamedTuple):
    """A whole answer."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What is asked for. (Not slotted: the answers are made once, on first use.)"""

    id: str
    """As the client sees it; two requests may have the same."""
    kind: str
    """`chat`, `completion` or `generate`."""
    model: str
    prompts: tuple[tuple[int, ...], ...]
    limit: int | None = None
    """Output tokens at most; None: the answer ends by itself."""
    n: int = 1
    stream: bool = False
    usage: bool = False
    """A last chunk with usage is asked for."""
    continuous: bool = False
    """Usage on every chunk is asked for."""
    salt: str = ""
    runner: str = ""
    """What must be in memory: the model and the options that make it another runner."""

    @cached_property
    def answers(self) -> tuple[tuple[str, ...], ...]:
        """The pieces of each choice, one per token."""
        return tuple(self._answer(prompt, choice) for prompt in self.prompts for choice in range(self.n))

    @property
    def finish(self) -> str:
        """Why answers end: at the limit where one is given, else by themselves."""
        return "stop" if self.limit is None else "length"

    def jobs(self, serial: int) -> list[Job]:
        """One job per choice, named `<id>.<serial>-<choice>`."""
        prompts = [prompt for prompt in self.prompts for _ in range(self.n)]
        return [
            Job(f"{self.id}.{serial}-{index}", prompt, tuple(map(number, pieces)), self.salt, self.runner, self.finish)
            for index, (prompt, pieces) in enumerate(zip(prompts, self.answers, strict=True))
        ]

    def choice(self, job: str) -> int:
        """Which choice a job is."""
        return int(job.rpartition("-")[2])

    def text(self, token: Token) -> str:
        """The text of a token of an answer; the end mark has none."""
        piece = self.answers[self.choice(token.id)][token.index]
        return "" if piece == END else piece

    def whole(self, choice: int) -> str:
        """The text of a whole answer."""
        return "".join(piece for piece in self.answers[choice] if piece != END)

    def _answer(self, prompt: tuple[int, ...], choice: int) -> tuple[str, ...]:
        if self.limit is not None:
            return answer(prompt, self.limit, choice)
        return (*answer(prompt, OWN_LENGTH - 1, choice), END)


class Voice(Protocol):
    """How one answer is said on the wire."""

    content_type: str
    early: bool
    """Headers of a stream leave before the queue; else with the first token."""

    def token(self, token: Token) -> bytes:
        """The event of one token, with what precedes the first."""
        ...

    def end(self, truths: Mapping[str, Truth]) -> bytes:
        """The rest of a stream once every choice has ended."""
        ...

    def body(self, truths: Mapping[str, Truth]) -> bytes:
        """The whole answer of a request that is no stream."""
        ...


class Face(Protocol):
    """What an engine shows to clients: its pages, and how it reads and voices requests."""

    def page(self, method: str, path: str, body: bytes) -> Reply | None:
        """The answer of a route that needs no machine; None: there is no such page."""
        ...

    def ask(self, path: str, body: bytes, id: str) -> tuple[Ask, Voice] | None:
        """What a POST asks for and how it is to be answered; None: no inference route. Raises `Rejected`."""
        ...

    def error(self, path: str, error: Rejected) -> Reply:
        """An error in the engine's own shape."""
        ...

    def absent(self, path: str) -> Reply:
        """The answer where there is no such path (404), or not with this method (405)."""
        ...

    def headers(self, id: str) -> list[tuple[bytes, bytes]]:
        """Headers on every answer."""
        ...


def count_of(value: Any, default: int | None = None) -> int | None:
    """A token count out of JSON; `default` where none is given or it is no positive integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default
