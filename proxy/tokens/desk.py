"""Where prompts are counted: facts in, `TokenCount` out; answers in, better counts out.

One desk per engine, for calibration belongs to what an engine serves. Desks share meters, so that a text is measured
once however many engines there are.
"""

from collections.abc import Awaitable, Callable, Mapping
from math import ceil, floor
from typing import Any

from proxy.records import Prompt, RequestFacts, TokenCount, Usage
from proxy.tokens.calibration import Calibration
from proxy.tokens.exact import Question, question, read
from proxy.tokens.meter import Meter
from proxy.tokens.sample import Sample, Shapes, sample, texts
from proxy.tokens.shapes import NOTHING
from proxy.tokens.truncation import truncated

MODELS = 256
"""Models that are calibrated at most; the one that was first makes room."""

UNSEEN_PART = 4_096
"""Tokens that an image, a sound or a part of unknown kind may cost: they widen the band upwards. Vision models take 64
to about 2,900 tokens an image."""

NAMED_TRUST = 0.3
"""Where the configuration says which vocabulary a model has, the prior's deviations are this much smaller."""

Ask = Callable[[Question], Awaitable[bytes | None]]
"""POST to the engine: the body of a 200 answer, None for anything else. Raises nothing for what an engine does."""


async def nobody(_: Question) -> None:
    """The `Ask` of an engine that is not asked."""


class Desk:
    """Counts prompts for one engine, and learns from its answers.

    State: a calibration per model that has answered.
    """

    __slots__ = ("_ask", "_calibrations", "_default", "_kind", "_meters", "_named", "_untaught")

    def __init__(
        self, default: Meter, meters: Mapping[str, Meter] | None = None, *, kind: str = "openai", ask: Ask = nobody
    ) -> None:
        """`meters` are those of models whose vocabulary is configured; the name `*` stands for every other model.

        `kind` is the engine's; `ask` reaches its tokenizer before each request, at the cost of a round trip.
        """
        self._meters = meters or {}
        self._default = default
        self._kind = kind
        self._ask = ask
        self._untaught = Calibration()
        self._named = Calibration(NAMED_TRUST)
        self._calibrations: dict[str, Calibration] = {}

    def serves(self, kind: str) -> None:
        """The engine is of this kind, as was found out."""
        self._kind = kind

    async def count(self, facts: RequestFacts, body: bytes = b"") -> TokenCount | None:
        """The prompt's size; None where the request shows no prompt.

        Exact where only token ids are sent or the engine was asked (which needs `body`, the request's JSON). Never
        raises for what a prompt holds.
        """
        prompt = facts.prompt
        if prompt is None:
            return None
        shapes = await self._shapes(prompt, facts.model)
        numbers = sample(prompt, shapes, facts.kind)
        said = await self._said(facts, body)
        if said is not None:
            return _token_count(facts, prompt, shapes, (said, said, said), "exact", numbers)
        if not any(numbers):
            return _token_count(facts, prompt, shapes, (0, 0, 0), "exact", numbers)
        calibration = self._calibration(facts.model)
        estimate = calibration.estimate(numbers)
        band = (round(estimate.n), floor(estimate.n - estimate.half), ceil(estimate.n + estimate.half))
        return _token_count(facts, prompt, shapes, band, "calibrated" if calibration.learnt else "estimated", numbers)

    def learn(self, facts: RequestFacts, count: TokenCount | None, usage: Usage | None) -> None:
        """Take in what the engine said of a prompt that was counted here.

        Nothing is learnt from prompts with token ids or unseen parts, nor from a prompt that the engine has cut.
        """
        truth = usage.prompt_tokens if usage is not None else None
        if count is None or truth is None or not count.sample or truncated(count, truth):
            return
        model = facts.model or ""
        calibration = self._calibrations.get(model)
        if calibration is None:
            calibration = self._admit(model)
        calibration.learn(count.sample, truth)

    def snapshot(self) -> dict[str, dict[str, float]]:
        """By model: answers learnt from, and the drift of the count against them."""
        return {name: {"answers": kept.answers, "drift": kept.drift} for name, kept in self._calibrations.items()}

    def to_dict(self) -> dict[str, Any]:
        """What was learnt, as JSON, by model."""
        return {
            model: {"vocabulary": self._meter(model).vocabulary} | calibration.to_dict()
            for model, calibration in self._calibrations.items()
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """Go on from what `to_dict` gave. What was learnt with another vocabulary, or by a version with other features,
        is left out."""
        for model, one in kept.items():
            if one.get("vocabulary") == self._meter(model).vocabulary and Calibration.readable(one):
                self._calibrations[model] = Calibration.from_dict(one)

    async def _shapes(self, prompt: Prompt, model: str | None) -> Shapes:
        meter = self._meter(model)
        return Shapes(*[await meter.measure(some) if some else NOTHING for some in texts(prompt)])

    async def _said(self, facts: RequestFacts, body: bytes) -> int | None:
        """The engine's own count, where it is asked, can tell, and answers."""
        asked = question(self._kind, facts, body) if self._ask is not nobody else None
        answer = await self._ask(asked) if asked is not None else None
        return read(answer) if answer is not None else None

    def _meter(self, model: str | None) -> Meter:
        return self._meters.get(model or "") or self._meters.get("*") or self._default

    def _calibration(self, model: str | None) -> Calibration:
        named = self._meter(model) is not self._default
        return self._calibrations.get(model or "") or (self._named if named else self._untaught)

    def _admit(self, model: str) -> Calibration:
        """A place for a model that answers for the first time."""
        if len(self._calibrations) >= MODELS:
            del self._calibrations[next(iter(self._calibrations))]
        named = self._meter(model) is not self._default
        return self._calibrations.setdefault(model, Calibration(NAMED_TRUST if named else 1.0))


def _token_count(
    facts: RequestFacts, prompt: Prompt, shapes: Shapes, band: tuple[int, int, int], how: str, numbers: Sample
) -> TokenCount:
    """The record: what was estimated of the text, token ids by their number, unseen parts as room above."""
    n, low, high = band
    ids = sum(map(len, prompt.ids))
    kinds = [part.kind for message in prompt.messages for part in message.parts]
    images, unknown = kinds.count("image"), len(kinds) - kinds.count("text") - kinds.count("image")
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
