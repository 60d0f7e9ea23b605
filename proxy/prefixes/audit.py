"""The joint: one `Audit` per engine gives verdicts to the data process.

Order of life: `predict` (before the door: what this engine could take from its cache; changes nothing), `dispatched`
(the engine has the prompt: its blocks are visible at once), `ended` (the answer's blocks too; the bins, settled with
what the engine says). All of it is synchronous and bounded. Texts that are new and long are best encoded elsewhere
first: `strange` names them, `learn` takes their tokens.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from proxy.events import Said
from proxy.prefixes.caches import Cache, Reading, Texts, replicas_of
from proxy.prefixes.canon import Segment, render
from proxy.prefixes.chains import Chain, root_of
from proxy.prefixes.inferred import PrefillTimes
from proxy.prefixes.ledger import Sight, split
from proxy.records import Inferred, PrefixVerdict, Prompt, RequestFacts, Usage

OPEN = 4_096
"""Requests remembered between their look-up and their end; more are never in flight."""

UNSEEN = Sight(0, 0, 0, 0, 0, 0)
"""Of a prompt that was not looked up yet."""

PLAUSIBLE = (0.5, 2.0)
"""Engine's tokens over ours: outside, somebody counts something else."""

TREND = 0.2
"""Weight of the newest ratio: after a dozen requests the share of the engine's template is known."""


class Audit:
    """The prefix audit of one engine."""

    # State: the engine's cache, requests in flight, prefill times and token ratio per model, and how many were read.

    def __init__(self, texts: Texts, cache: Cache, replicas: Iterable[Cache] = ()) -> None:
        """`replicas`: caches of the engines that serve the same models; this one's may be among them."""
        self._texts = texts
        self._cache = cache
        self._replicas = replicas
        self._open: OrderedDict[str, Reading] = OrderedDict()
        self._times: dict[str, PrefillTimes] = {}
        self._ratios: dict[str, float] = {}
        self._number = 0

    def strange(self, prompt: Prompt) -> list[str]:
        """Texts of a prompt that would have to be tokenised; long ones are best done elsewhere, for `learn`."""
        return self._cache.chains.strange([*render(prompt), *map(Segment, prompt.texts[1:])])

    def learn(self, text: str, ids: Sequence[int]) -> None:
        """Take the tokens of a text that was encoded elsewhere."""
        self._cache.chains.learn(text, ids)

    def predict(self, id: str, facts: RequestFacts, now_ns: int, ids: Sequence[int] = ()) -> PrefixVerdict | None:
        """What this engine could take from its cache; None where the body holds no prompt. Changes no cache.

        `ids`: the only prompt in the engine's own tokens, where they are known. Asked again after a wait, the later
        answer counts.
        """
        if facts.prompt is None or facts.route != "inference":
            return None
        reading = self._open[id] = self._read(id, facts.model or "", facts.prompt, ids)
        if len(self._open) > OPEN:
            self._open.popitem(last=False)
        return reading.verdict

    def dispatched(self, id: str, facts: RequestFacts, now_ns: int) -> PrefixVerdict | None:
        """The engine has the prompt. The verdict is that of `predict`, which need not have been asked before."""
        if id not in self._open:
            self.predict(id, facts, now_ns)
        reading = self._open.get(id)
        if reading is None:
            return None
        if not reading.begun:
            reading.begun = True
            repeated = self._texts.repeated(reading, max(reading.sight.infinite, reading.sight.elsewhere))
            if repeated:
                reading.sight = reading.sight._replace(repeated=repeated)
            self._cache.begin(reading)
        return reading.verdict

    def ended(self, id: str, said: Said, usage: Usage | None, ids: Sequence[int] = ()) -> PrefixVerdict | None:
        """The exchange is over, and this is what the engine wrote. The verdict, settled: what was expected is what was
        said at dispatch. `ids`: the prompt as the engine spelt it, if that is news."""
        reading = self._open.pop(id, None)
        if reading is None or not reading.begun:
            return None
        before = reading.sight
        if self._spell(reading, ids):
            # What repeats text was told at dispatch, for since then the prompt's own text has been seen.
            reading.sight = self._sight(reading, round(before.repeated * reading.tokens / max(1, before.tokens)))
        self._cache.end(reading, said)
        sight, reported = self._settled(reading, usage)
        bins = split(sight, reported) if _credible(reading, usage) else ()
        return self._verdict(sight, reading.verdict.expected, bins)

    def unread(self, id: str) -> None:
        """The exchange is over, and the engine, which refused it, read nothing: nothing is there for it."""
        reading = self._open.pop(id, None)
        if reading is not None and reading.begun:
            self._cache.withdraw(reading)
            self._texts.unseen(reading)

    def inferred(self, model: str, tokens: int, prefill_ns: int, known: int) -> Inferred | None:
        """Cached tokens by prefill time, for an engine that does not say. Every call is also a sample: `known` of the
        tokens were seen before."""
        times = self._times.setdefault(model, PrefillTimes())
        times.add(tokens, prefill_ns, known)
        return times.cached(tokens, prefill_ns)

    def restarted(self) -> None:
        """The engine began anew: its cache is empty."""
        self._cache.clear()

    def _read(self, id: str, model: str, prompt: Prompt, ids: Sequence[int]) -> Reading:
        root = root_of(self._texts.secret, model, prompt.salt)
        segments = render(prompt)
        chains = tuple(self._chains(root, prompt, segments))
        reading = Reading(id, model, root, prompt, segments, chains, UNSEEN, PrefixVerdict(self._cache.block, 0))
        self._number = reading.number = self._number + 1
        self._spell(reading, ids)
        reading.sight = self._sight(reading)
        sight = self._scaled(reading, None)
        reading.verdict = self._verdict(sight, sight.resident)
        return reading

    def _spell(self, reading: Reading, ids: Sequence[int]) -> bool:
        """Whether the request is known in the engine's own tokens, and was not before, or in others."""
        if not ids or reading.prompt.ids:
            return False
        before = reading.spelt
        self._cache.spell(reading, self._cache.chains.of_ids(reading.root, ids))
        return reading.spelt != before

    def _chains(self, root: int, prompt: Prompt, segments: Sequence[Segment]) -> list[Chain]:
        """One chain for each prompt of the request."""
        chains = self._cache.chains
        if prompt.ids:
            return [chains.of_ids(root, ids) for ids in prompt.ids]
        if len(prompt.texts) > 1:
            return [chains.chain(root, render(prompt._replace(texts=(text,)))) for text in prompt.texts]
        return [chains.chain(root, segments)]

    def _sight(self, reading: Reading, repeated: int = 0) -> Sight:
        look = self._cache.look(reading)
        others = replicas_of(self._replicas, self._cache)
        elsewhere = max((other.look(reading).resident for other in others), default=0)
        return Sight(reading.tokens, look.usable, look.resident, look.infinite, elsewhere, repeated)

    def _verdict(self, sight: Sight, expected: int | None, bins: tuple[tuple[str, int], ...] = ()) -> PrefixVerdict:
        return PrefixVerdict(
            block=self._cache.block,
            tokens=sight.tokens,
            expected=expected,
            attainable=sight.resident if self._cache.capacity is not None else None,
            infinite=sight.infinite,
            bins=bins,
        )

    def _settled(self, reading: Reading, usage: Usage | None) -> tuple[Sight, int | None]:
        """What was seen, in the engine's tokens, and the cached tokens that it reports."""
        if usage is None or usage.prompt_tokens is None:
            return self._scaled(reading, None), None
        ratio = usage.prompt_tokens / max(1, reading.rendered)
        if not reading.prompt.ids and PLAUSIBLE[0] <= ratio <= PLAUSIBLE[1]:
            before = self._ratios.get(reading.model, ratio)
            self._ratios[reading.model] = before + TREND * (ratio - before)
        return self._scaled(reading, usage.prompt_tokens), usage.cached_tokens

    def _scaled(self, reading: Reading, tokens: int | None) -> Sight:
        """What was seen, in the engine's tokens: by this request's own ratio, else by the model's."""
        sight, block = reading.sight, self._cache.block
        ratio = 1.0 if reading.exact else self._ratios.get(reading.model, 1.0)
        if tokens is not None and PLAUSIBLE[0] <= tokens / max(1, sight.tokens) <= PLAUSIBLE[1]:
            ratio = tokens / max(1, sight.tokens)
        if ratio == 1.0:
            return sight
        whole = round(sight.tokens * ratio)
        usable = max(0, whole - 1) // block * block

        def scaled(count: int) -> int:
            return min(usable, round(count * ratio / block) * block)

        cached = (scaled(sight.resident), scaled(sight.infinite), scaled(sight.elsewhere))
        return Sight(whole, usable, *cached, round(sight.repeated * ratio))


def _credible(reading: Reading, usage: Usage | None) -> bool:
    """Whether the engine read about what we rendered: of a prompt that it cut (Ollama's window) nobody knows which
    tokens it read."""
    if usage is None or usage.prompt_tokens is None or reading.exact:
        return True
    return usage.prompt_tokens >= PLAUSIBLE[0] * reading.rendered
