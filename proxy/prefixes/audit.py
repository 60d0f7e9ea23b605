"""The joint: one `Audit` per engine gives verdicts to the data process.

Order of life: `predict` (before the door: what this engine could take from its cache; changes nothing), `dispatched`
(the engine has the prompt: its blocks are visible at once), `ended` (the answer's blocks too; the bins, settled with
what the engine says). All of it is synchronous and bounded. Texts that are new and long are best encoded elsewhere
first: `strange` names them, `learn` takes their tokens.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from proxy.events import Said
from proxy.names import as_it_is
from proxy.prefixes.caches import MODELS, Cache, replicas_of
from proxy.prefixes.canon import Segment, render
from proxy.prefixes.chains import LONGEST, Chain, Generations, root_of
from proxy.prefixes.inferred import PrefillTimes
from proxy.prefixes.ledger import TEMPLATE, Sight, split
from proxy.prefixes.made import made
from proxy.prefixes.reading import Reading
from proxy.prefixes.scale import SAME, Belief, Scale
from proxy.prefixes.texts import Texts
from proxy.records import COLD_LOAD_NS, Inferred, PrefixVerdict, Prompt, RequestFacts, Usage

OPEN = 4_096
"""Requests remembered between their look-up and their end; more are never in flight."""

ONE_LOAD_S = COLD_LOAD_NS / 1e9
"""Seconds between the ends of two loads of a model, at least: no load is shorter that counts as one."""

UNSEEN = Sight(0, 0, 0, 0, 0, 0)
"""Of a prompt that was not looked up yet."""

KNOWN = Belief()
"""Of prompts in the engine's own tokens, and of several, nothing is learnt."""

NEAR = 8
"""Tokens by which we miss where prompts part, besides what blocks hide: other vocabularies cut frames otherwise."""


class Audit:
    """The prefix audit of one engine."""

    # State: the engine's cache, requests in flight, prefill times and scale per model, and how many were read.

    def __init__(
        self,
        texts: Texts,
        cache: Cache,
        replicas: Iterable[Cache] = (),
        known: Callable[[str], str] = as_it_is,
    ) -> None:
        """`replicas`: caches of the engines that serve the same models; this one's may be among them. `known`: the
        model that a client calls so, in a name that is the same for all spellings."""
        self._texts = texts
        self._cache = cache
        self._replicas = replicas
        self._known = known
        self._open: OrderedDict[str, Reading] = OrderedDict()
        self._times: Generations[PrefillTimes] = Generations(MODELS)
        self._scales: Generations[Scale] = Generations(MODELS)
        self._number = 0

    def strange(self, prompt: Prompt) -> list[str]:
        """Texts of a prompt that would have to be tokenised; long ones are best done elsewhere, for `learn`."""
        return self._cache.chains.strange([*render(prompt), *map(Segment, prompt.texts[1:])])

    def learn(self, text: str, ids: Sequence[int]) -> None:
        """Take the tokens of a text that was encoded elsewhere."""
        self._cache.chains.learn(text, ids)

    def predict(self, id: str, facts: RequestFacts, now_ns: int, ids: Sequence[int] = ()) -> PrefixVerdict | None:
        """What this engine could take from its cache; None where the body holds no prompt, or one of which nothing is
        kept. Changes no cache.

        `ids`: the only prompt in the engine's own tokens, where they are known. Asked again after a wait, the later
        answer counts.
        """
        if facts.prompt is None or facts.route != "inference" or facts.kind in self._cache.unkept:
            return None
        reading = self._open[id] = self._read(id, self._known(facts.model or ""), facts.prompt, ids)
        if len(self._open) > OPEN:
            self.unread(next(iter(self._open)))
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
            if reading.tokens:  # nothing is read of a request that has a model loaded, and no more
                self._cache.begin(reading)
        return reading.verdict

    def ended(
        self,
        id: str,
        said: Said,
        usage: Usage | None,
        ids: Sequence[int] = (),
        loaded_s: float | None = None,
        cut: bool = False,
    ) -> PrefixVerdict | None:
        """The exchange is over, and this is what the engine wrote. The verdict, settled: what was expected is what was
        said at dispatch; None where there was nothing to read. `ids`: the prompt as the engine spelt it, if that is
        news. `loaded_s`: when the model was in memory, by the wall clock, if it was loaded for this request. `cut`: the
        engine is known to have left some of the prompt out."""
        if usage is None and not said.text and id in self._open and self._cache.waits(self._open[id]):
            self.unread(id)  # it left the line
        reading = self._open.pop(id, None)
        if reading is None or not reading.begun:
            return None
        before, exact = reading.sight, reading.exact
        self._look_again(reading, ids, loaded_s)
        reading.look_closer()
        whole, reported = _stated(reading, usage)
        if cut or reading.was_cut(whole):
            self._cache.lose(reading)
        else:
            self._cache.end(reading, said)
        if not (whole or reading.tokens):
            return None
        if whole is not None and (cut or not reading.read_in(whole)):
            return PrefixVerdict(self._cache.block, whole, reported=reported)
        if whole is not None:
            self._cache.fit(reading.rendered, whole)
        sight = self._settled(reading, whole, reported)
        expected = self._scaled(reading, before, whole, exact).resident
        if not reading.exact:  # the scale has learnt since
            expected = min(expected, sight.infinite)
        verdict = self._verdict(sight, expected, reported, split(sight, reported))
        return verdict if reading.pictured or whole is None else verdict._replace(rendered=reading.rendered)

    def unread(self, id: str) -> None:
        """The exchange is over, and the engine, which refused it, read nothing: nothing is there for it."""
        reading = self._open.pop(id, None)
        if reading is not None and reading.begun:
            self._cache.withdraw(reading)
            self._texts.unseen(reading)

    def inferred(self, model: str, tokens: int, prefill_ns: int, known: int, there: int) -> Inferred | None:
        """Cached tokens by prefill time, for an engine that does not say. Every call is also a sample: `known` of the
        tokens were seen before, and `there` of these are in the cache, as we believe."""
        times = self._times.of(hash(self._known(model)), PrefillTimes)
        times.add(tokens, prefill_ns, known, there)
        return times.cached(tokens, prefill_ns)

    def restarted(self) -> None:
        """The engine began anew: its cache is empty, and what it reads now it reads from there."""
        self._cache.clear()
        for reading in self._open.values():
            if reading.begun:
                reading.emptied_s = 0.0

    def _look_again(self, reading: Reading, ids: Sequence[int], loaded_s: float | None) -> None:
        """What the prompt found when its turn came."""
        before = reading.sight
        if self._spell(reading, ids):
            # What repeats text was told at dispatch, for since then the prompt's own text has been seen.
            reading.sight = self._sight(reading, round(before.repeated * reading.tokens / max(1, before.tokens)))
        if loaded_s is not None and (reading.emptied_s is None or loaded_s - reading.emptied_s >= ONE_LOAD_S):
            self._loaded(reading, loaded_s)
        if (found := self._cache.found(reading)) is not None:
            # What it had seen and was gone when its turn came would have been there in a cache that never loses any.
            reading.sight = reading.sight._replace(resident=found, infinite=max(found, reading.sight.infinite))

    def _loaded(self, first: Reading, at_s: float) -> None:
        """The first of those that waited for a load is over: whatever was read before the load is gone."""
        self._cache.clear(first.model)
        for reading in (first, *self._open.values()):
            if reading.begun and reading.model == first.model:
                reading.emptied_s = at_s

    def _read(self, id: str, model: str, prompt: Prompt, ids: Sequence[int]) -> Reading:
        root = root_of(self._texts.secret, model, prompt.salt)
        segments = render(prompt)
        chains = tuple(self._chains(root, prompt, segments))
        reading = Reading(id, model, root, prompt, segments, chains, UNSEEN, PrefixVerdict(self._cache.block, 0))
        self._number = reading.number = self._number + 1
        reading.belief = self._scale(model).of(reading.shape)
        self._spell(reading, ids)
        reading.sight = self._sight(reading)
        sight = self._scaled(reading, reading.sight, None, reading.exact)
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
        if prompt.ids and segments:  # Ollama's context, and what is said upon it
            said = memoryview(chains.packed(segments)).cast("I")
            return [chains.of_ids(root, [*prompt.ids[0], *said])]
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

    def _verdict(
        self, sight: Sight, expected: int, reported: int | None = None, bins: tuple[tuple[str, int], ...] = ()
    ) -> PrefixVerdict:
        return PrefixVerdict(
            block=self._cache.block,
            tokens=sight.tokens,
            expected=expected,
            attainable=sight.resident if self._cache.capacity is not None else None,
            infinite=sight.infinite,
            bins=bins,
            reported=reported,
        )

    def _settled(self, reading: Reading, whole: int | None, reported: int | None) -> Sight:
        """What was seen, in the engine's tokens. What it took beyond what we saw shared was there, if it can be its
        template's words; and where it took a little less, it is we who are wrong."""
        if whole is not None and not reading.prompt.ids and len(reading.chains) == 1 and not reading.pictured:
            read = made(reading.chains[0].odd, reading.rendered)
            reading.belief = self._scale(reading.model).learn(reading.shape, read, whole)
        sight = self._scaled(reading, reading.sight, whole, reading.exact)
        if reported is None:
            return sight
        block, grain = self._cache.block, self._cache.grain
        ours = self._is_ours(reading, sight.infinite - reported)
        found = [
            reported if ours or 0 < reported - seen <= grain - block else seen
            for seen in (sight.resident, sight.infinite)
        ]
        return sight._replace(resident=found[0], infinite=found[1])

    def _is_ours(self, reading: Reading, missed: int) -> bool:
        """Whether it is our fault that the engine took so many tokens fewer than we saw shared; or more, below zero."""
        shared, grain = reading.sight.infinite, self._cache.grain
        if missed < 0 and shared >= LONGEST // grain * grain:
            return True  # all of it was there that is followed
        if reading.exact or missed <= -TEMPLATE - grain:
            return False
        near = self._cache.block + NEAR
        return missed < near or missed < near + reading.unsure(shared)

    def _scale(self, model: str) -> Scale:
        return self._scales.of(hash(model), Scale)

    def _scaled(self, reading: Reading, sight: Sight, whole: int | None, exact: bool) -> Sight:
        """What was seen, in the engine's tokens: `whole` in all, or about so many as they were of others. `exact`: it
        was seen in these."""
        ours, block, odd = sight.tokens, self._cache.block, reading.chains[0].odd
        read = made(odd, ours)
        belief = KNOWN if exact or len(reading.chains) > 1 else reading.belief
        line = belief.line
        if whole is None:
            whole = line.whole(read)
        elif belief is reading.belief and not reading.pictured:
            line = belief.through(read, whole)
        if whole == ours and line == SAME:
            return sight
        text = line.text(read)
        template = whole - text
        usable = max(0, whole - len(reading.chains)) // block * block
        opening = reading.opening if template > 0 else 0

        def scaled(count: int) -> int:
            theirs = line.text(made(odd, count)) + (template if count >= opening else 0)
            return max(0, min(usable, round(theirs / block) * block))

        cached = (scaled(sight.resident), scaled(sight.infinite), scaled(sight.elsewhere))
        return Sight(whole, usable, *cached, round(sight.repeated * text / max(1, ours)))


def _stated(reading: Reading, usage: Usage | None) -> tuple[int | None, int | None]:
    """Prompt tokens and cached tokens of all that the engine read, as it says them. Of several prompts engines sum up
    the tokens at best, and say of one what was cached."""
    if usage is None or usage.prompt_tokens is None:
        return reading.tokens if reading.exact else None, None
    return usage.prompt_tokens, usage.cached_tokens if len(reading.chains) == 1 else None
