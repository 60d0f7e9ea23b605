"""Where prompts are counted: facts in, `TokenCount` out; answers in, better counts out.

One desk per engine, for calibration belongs to what an engine serves. Desks share meters, so that a text is measured
once however many engines there are.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from proxy.records import NAME_CHARS, Prompt, RequestFacts, TokenCount, Usage
from proxy.tokens.calibration import Calibration
from proxy.tokens.exact import Question, question, read
from proxy.tokens.meter import Meter
from proxy.tokens.sample import Sample, Shapes, sample, texts
from proxy.tokens.shapes import NOTHING, times, total
from proxy.tokens.truncation import truncated

MODELS = 256
"""Models that are calibrated at most. Of the half that was taught longest ago the least taught one makes room: clients
invent names, and a crowd of them comes and goes without pushing out what a real model learnt."""

MANY = 2_048
"""Messages and parts that are gone through on the loop: each takes 0.5 us."""

TEMPLATE = 16_384
"""Tokens that a template may add to what was sent, at the very most: pages of rules about tools."""

UNSEEN_PART = 4_096
"""Tokens that an image, a sound or a part of unknown kind may cost: they widen the band upwards. Vision models take 64
to about 2,900 tokens an image."""

NAMED_TRUST = 0.3
"""Where the configuration says which vocabulary a model has, the prior's deviations are this much smaller."""

Ask = Callable[[Question], Awaitable[bytes | None]]
"""POST to the engine: the body of a 200 answer, None for anything else. Raises nothing for what an engine does."""


Spell = Callable[[bytes], None]
"""Takes the prompt's token ids as the engine says them, in JSON."""


def always(kind: str, facts: RequestFacts) -> bool:
    """Every engine is asked, before every request."""
    return True


def never(kind: str, facts: RequestFacts) -> bool:
    """No engine is asked."""
    return False


def unheard(ids: bytes) -> None:
    """The `Spell` of who does not listen."""


class Desk:
    """Counts prompts for one engine, and learns from its answers.

    State: a calibration per model that has answered, the one that was taught last at the end.
    """

    __slots__ = ("_ask", "_asks", "_calibrations", "_default", "_kind", "_known", "_meters", "_named", "_untaught")

    def __init__(
        self,
        default: Meter,
        meters: Mapping[str, Meter],
        ask: Ask,
        asks: Callable[[str, RequestFacts], bool],
        known: Callable[[str], str],
    ) -> None:
        """`meters` are those of models whose vocabulary is configured; the name `*` stands for every other model.

        `ask` reaches the engine's tokenizer, at the cost of a round trip, before each request that `asks` says.
        `known`: the model that a client calls so, in a name that is the same for all spellings.
        """
        self._meters = meters
        self._default = default
        self._kind = "openai"
        self._ask = ask
        self._asks = asks
        self._known = known
        self._untaught = Calibration()
        self._named = Calibration(NAMED_TRUST)
        self._calibrations: OrderedDict[str, Calibration] = OrderedDict()

    def serves(self, kind: str) -> None:
        """The engine is of this kind, as was found out."""
        self._kind = kind

    async def count(self, facts: RequestFacts, body: bytes = b"", spell: Spell = unheard) -> TokenCount | None:
        """The prompt's size; None where the request shows no prompt.

        Exact where only token ids are sent or the engine was asked (which needs `body`, the request's JSON); it then
        says the prompt's ids too, to `spell`. Never raises for what a prompt holds.
        """
        prompt = facts.prompt
        if prompt is None:
            return None
        name = self._name(facts.model)
        meter = self._meter(name)
        many = prompt.over(MANY)
        parts = await meter.run(partial(texts, prompt)) if many else texts(prompt)
        shapes = Shapes(*[await meter.measure(some) if some else NOTHING for some in parts])
        if prompt.again:
            again = times(await meter.measure(prompt.texts[:1]), prompt.again)
            shapes = shapes._replace(content=total([shapes.content, again]))
        sampled = partial(sample, prompt, shapes, facts.kind)
        numbers = await meter.run(sampled) if many else sampled()
        band, how = self._band(name, numbers, await self._said(facts, body, spell))
        counted = partial(_token_count, facts, prompt, shapes, band, how, numbers)
        return await meter.run(counted) if many else counted()

    def learn(self, facts: RequestFacts, count: TokenCount | None, usage: Usage | None) -> None:
        """Take in what the engine said of a prompt that was counted here.

        Nothing is learnt from prompts with token ids or unseen parts, from one that the engine has cut, or where it may
        have read another one.
        """
        truth = usage.prompt_tokens if usage is not None else None
        if count is None or not truth or not count.sample or truncated(count, truth):
            return
        if facts.unread or facts.unread_prompt:  # the engine may have read another prompt
            return
        name = self._name(facts.model)
        calibration = self._calibrations.get(name) or self._admit(name)
        self._calibrations.move_to_end(name)
        if not calibration.confirms(count.n, count.low, count.high, truth):
            calibration.learn(count.sample, truth)

    def snapshot(self) -> dict[str, dict[str, float]]:
        """By model: answers learnt from, and the drift of the count against them."""
        return {name: {"answers": kept.answers, "drift": kept.drift} for name, kept in self._calibrations.items()}

    def to_dict(self) -> dict[str, Any]:
        """What was learnt, as JSON, by model."""
        return {
            name: {"vocabulary": self._meter(name).vocabulary} | calibration.to_dict()
            for name, calibration in self._calibrations.items()
        }

    def restore(self, kept: object) -> int:
        """Go on from what `to_dict` gave. What was learnt with another vocabulary, or by a version with other features,
        is left out. Returns how many things were odd, and left out too."""
        return sum(not self._restored(model, one) for model, one in kept.items()) if isinstance(kept, dict) else 1

    def _restored(self, model: str, one: object) -> bool:
        """Whether this was a calibration; it is kept if it can be used."""
        if not isinstance(one, dict):
            return False
        name = self._name(model)
        if one.get("vocabulary") != self._meter(name).vocabulary or not Calibration.readable(one):
            return True
        try:
            calibration = Calibration.from_dict(one)
        except ValueError:
            return False
        if len(self._calibrations) < MODELS:
            self._calibrations[name] = calibration
        return True

    def _band(self, name: str, numbers: Sample, said: int | None) -> tuple[tuple[int, int, int], str]:
        """The count with its lower and upper bound, and how it was found."""
        if said is not None or not any(numbers):
            n = said or 0
            return (n, n, n), "exact"
        calibration = self._calibration(name)
        estimate = calibration.estimate(numbers)
        band = (round(estimate.n), *estimate.band)
        return band, "calibrated" if calibration.learnt else "estimated"

    async def _said(self, facts: RequestFacts, body: bytes, spell: Spell) -> int | None:
        """The engine's own count, where it is asked, can tell, and answers with what the prompt can have."""
        asked = question(self._kind, facts, body) if self._asks(self._kind, facts) else None
        answer = await self._ask(asked) if asked is not None else None
        if asked is None or answer is None:
            return None
        told = read(answer)
        if told.tokens is None or not 0 <= told.tokens <= _most(facts, asked):
            return None
        if told.ids:
            spell(told.ids)
        return told.tokens

    def _meter(self, name: str) -> Meter:
        return self._meters.get(name) or self._meters.get("*") or self._default

    def _name(self, model: str | None) -> str:
        """The name under which a model is calibrated; one with a vocabulary of its own stands for itself."""
        name = model or ""
        return (name if name in self._meters else self._known(name))[:NAME_CHARS]

    def _calibration(self, name: str) -> Calibration:
        if (kept := self._calibrations.get(name)) is not None:
            return kept
        return self._untaught if self._meter(name) is self._default else self._named

    def _admit(self, name: str) -> Calibration:
        """A place for a model that answers for the first time."""
        if len(self._calibrations) >= MODELS:
            old = islice(self._calibrations, MODELS // 2)
            del self._calibrations[min(old, key=lambda other: self._calibrations[other].answers)]
        named = self._meter(name) is not self._default
        return self._calibrations.setdefault(name, Calibration(NAMED_TRUST if named else 1.0))


def _most(facts: RequestFacts, asked: Question) -> int:
    """Tokens that the prompt of this question has at most: one a byte, what a template adds, and what shows nothing of
    its length."""
    messages = facts.prompt.messages if facts.prompt is not None else ()
    unseen = sum(part.kind != "text" for message in messages for part in message.parts)
    unseen += facts.prompt.unseen if facts.prompt is not None else 0
    return len(asked.body) + TEMPLATE + UNSEEN_PART * unseen


def _token_count(
    facts: RequestFacts, prompt: Prompt, shapes: Shapes, band: tuple[int, int, int], how: str, numbers: Sample
) -> TokenCount:
    """The record: what was estimated of the text, token ids by their number, unseen parts as room above."""
    n, low, high = band
    ids = sum(map(len, prompt.ids))
    kinds = [part.kind for message in prompt.messages for part in message.parts]
    images = kinds.count("image")
    unknown = len(kinds) - kinds.count("text") - images + prompt.unseen
    unseen = images + unknown
    return TokenCount(
        n=n + ids,
        how="estimated" if unseen else how,
        low=max(0, low) + ids,
        high=high + ids + UNSEEN_PART * unseen,
        text_tokens=sum(shape.tokens for shape in shapes) + ids,
        prompts=facts.prompts,
        images=images,
        unknown_parts=unknown,
        sample=() if ids or unseen or not any(numbers) else numbers,
    )
