"""Traffic as applications make it: five families of prompts, each with a system prompt of its own, in talks that grow.

One request after another, so that what an engine keeps of one is known before the next one comes.
"""

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from tests.live.load import WORDS
from tests.support.imports import ROOT

TURN_WORDS = (10, 20, 40)
"""Words of a question."""
NEW_TALK = 0.35
"""The share of requests that begin a talk; the others go on with one of `OPEN`."""
OPEN = 3
"""Talks of a family that go on."""
RUN = (1, 4)
"""Requests of one family in a row: then the next one comes, and pushes out what this one left."""


ANSWER = 8
"""Tokens of an answer at most."""
PATIENCE_S = 120.0


class Client(Protocol):
    """Sends turns to an engine."""

    def begin(self, system: str) -> Any:
        """What a talk with this system prompt starts from."""
        ...

    def ask(self, id: str, talk: Any, question: str) -> Any:
        """Asks under this id; the talk with question and answer."""
        ...


@dataclass(slots=True)
class Family:
    """An application. State: its talks that go on."""

    system: str
    talks: list[Any] = field(default_factory=list)


def words(rng: random.Random, count: int) -> str:
    """A question of so many words."""
    return " ".join(rng.choices(WORDS, k=count)) + "?"


def families(rng: random.Random, sizes: Sequence[int]) -> list[Family]:
    """One family for each size, with so many words of the licence, which stays as it is, for its system prompt."""
    prose = (ROOT / "LICENSE").read_text("utf-8").split()
    starts = [rng.randrange(len(prose) - size) for size in sizes]
    return [
        Family(f"You are application {number}. " + " ".join(prose[start : start + size]))
        for number, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]


def order(rng: random.Random, among: Sequence[Family], count: int) -> Iterator[Family]:
    """Families in runs."""
    sent = 0
    while sent < count:
        family = rng.choice(among)
        for _ in range(min(rng.randint(*RUN), count - sent)):
            yield family
            sent += 1


def converse(client: Client, rng: random.Random, among: Sequence[Family], count: int) -> list[str]:
    """So many requests, one at a time; their ids, in that order."""
    ids = []
    for family in order(rng, among, count):
        goes_on = family.talks and rng.random() > NEW_TALK
        talk = family.talks.pop(rng.randrange(len(family.talks))) if goes_on else client.begin(family.system)
        ids.append(uuid.uuid4().hex)
        family.talks = [client.ask(ids[-1], talk, words(rng, rng.choice(TURN_WORDS))), *family.talks][:OPEN]
    return ids


@dataclass(slots=True)
class Chatting:
    """Chat requests."""

    url: str
    model: str
    client: httpx.Client

    def begin(self, system: str) -> list[dict[str, str]]:
        return [{"role": "system", "content": system}]

    def ask(self, id: str, talk: list[dict[str, str]], question: str) -> list[dict[str, str]]:
        said = [*talk, {"role": "user", "content": question}]
        body = {"model": self.model, "messages": said, "max_tokens": ANSWER, "temperature": 0}
        answer = self.client.post(
            self.url + "/v1/chat/completions", json=body, headers={"x-request-id": id}, timeout=PATIENCE_S
        )
        return [*said, {"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"] or ""}]


@dataclass(slots=True)
class Spelling:
    """Completions with prompts of token ids, and answers as token ids (vLLM)."""

    url: str
    model: str
    engine: str
    """Where `/tokenize` is asked, so that it is no request of the load."""
    client: httpx.Client

    def begin(self, system: str) -> list[int]:
        return self.ids(system)

    def ask(self, id: str, talk: list[int], question: str) -> list[int]:
        prompt = talk + self.ids(f"\nQ: {question}\nA:")
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": ANSWER,
            "temperature": 0,
            "return_token_ids": True,
        }
        answer = self.client.post(
            self.url + "/v1/completions", json=body, headers={"x-request-id": id}, timeout=PATIENCE_S
        ).json()
        return [*prompt, *answer["choices"][0]["token_ids"]]

    def ids(self, text: str) -> list[int]:
        body = {"model": self.model, "prompt": text, "add_special_tokens": False}
        answer = self.client.post(self.engine + "/tokenize", json=body, timeout=PATIENCE_S)
        return list(answer.json()["tokens"])
