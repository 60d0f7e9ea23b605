"""The shadow caches of the kinds of engines, behind one protocol."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from proxy.events import Said
from proxy.prefixes.canon import Segment
from proxy.prefixes.chains import Chain, Chains, Generations, pack
from proxy.prefixes.reading import Reading
from proxy.prefixes.shadow import BlockShadow, SlotShadow, common
from proxy.prefixes.texts import Texts

BLOCK = 16
"""Tokens a block where the engine does not say: vLLM's default on GPUs."""

GRAIN = 8
"""Tokens that are followed as one where an engine reuses each by itself (SGLang): a key for each would hold the loop
at every step of a long prompt."""

MODELS = 64
"""Models whose slots are kept in each of two generations: clients name them, and llama.cpp serves one by any name."""

LOADS = 2**32
"""More than any engine loads a model."""

UNFILLED = 1
"""Blocks that hold nothing to find: the last one of a prompt is seldom full, and is the first to be taken again."""

KEPT = 0.999
"""What each answer leaves of the ones before it, where tokens are compared: about a thousand tell."""

FEW = 2_000.0
"""Tokens that are taken to have been the same before the first answer: one short prompt tells little."""

APART = 0.02
"""The part of a cache's room by which it must be off before it is changed ..."""
AT_ONCE = 1_000
"""... and blocks by which it is, at most: they are let go of on the loop."""


class Look(NamedTuple):
    """A request's prompts as one engine's cache sees them, in tokens."""

    resident: int
    infinite: int
    usable: int


class Cache(Protocol):
    """What an engine keeps of prompts, by its own rules."""

    block: int
    """Tokens that are reused as one."""
    grain: int
    """Tokens that are followed as one, whole blocks of them: fewer may be there, behind those that are found."""
    chains: Chains
    capacity: int | None
    """Blocks it can hold; None: not known."""
    unkept: frozenset[str]
    """Kinds of requests that leave nothing there."""

    def look(self, reading: Reading) -> Look:
        """What is there; changes nothing."""
        ...

    def begin(self, reading: Reading) -> None:
        """The engine has the prompt."""
        ...

    def waits(self, reading: Reading) -> bool:
        """Its turn has not come, as far as we know."""
        ...

    def spell(self, reading: Reading, chain: Chain) -> None:
        """These are the engine's own tokens of the request's prompt."""
        ...

    def end(self, reading: Reading, said: Said) -> None:
        """It has answered."""
        ...

    def lose(self, reading: Reading) -> None:
        """It has answered, and read another prompt: what is there of it nobody knows."""
        ...

    def fit(self, ours: int, theirs: int) -> None:
        """It took so many tokens where we rendered so many."""
        ...

    def withdraw(self, reading: Reading) -> None:
        """It did not read the prompt."""
        ...

    def clear(self, model: str | None = None) -> None:
        """It was restarted; or it has loaded this model anew, whose requests under way go on."""
        ...

    def found(self, reading: Reading) -> int | None:
        """Tokens that the request, which is about to end, found there when its turn came; None: as at dispatch."""
        ...


class Blocks:
    """vLLM's and SGLang's cache."""

    unkept: frozenset[str] = frozenset()

    # State: blocks of our rendering, how many of them fill the engine's memory, and tokens of ours and theirs lately.

    def __init__(self, texts: Texts, block: int = BLOCK, capacity: int | None = None, grain: int = 0) -> None:
        """`capacity`: in blocks of `grain` tokens; 0: as many as the engine reuses as one."""
        self.block = block
        self.grain = grain or block
        self.capacity = capacity
        self.chains = texts.chains(self.grain)
        self._room = None if capacity is None else max(1, capacity - UNFILLED)
        self._shadow = BlockShadow(self._room)
        self._fitted = self._room or 0
        self._ours = self._theirs = FEW

    def look(self, reading: Reading) -> Look:
        """Leading full blocks."""
        looks = [self._shadow.look(chain, self.grain) for chain in reading.chains]
        usable = sum([chain.whole(self.block) for chain in reading.chains])
        return Look(sum(one.resident for one in looks), sum(one.infinite for one in looks), usable)

    def begin(self, reading: Reading) -> None:
        """Blocks are visible as soon as they are scheduled."""
        for chain in reading.chains:
            self._shadow.hold(chain.keys, reading.number)

    def lose(self, reading: Reading) -> None:
        """Blocks that it alone brought are not there."""
        self.withdraw(reading)

    def fit(self, ours: int, theirs: int) -> None:
        """Where the engine takes more tokens for a text than we, its memory is full with fewer of our blocks."""
        if self._room is not None and ours and theirs:
            self._ours, self._theirs = KEPT * self._ours + ours, KEPT * self._theirs + theirs
            off = max(1, round(self._room * self._ours / self._theirs)) - self._fitted
            if abs(off) > APART * self._fitted:
                self._fitted += max(-AT_ONCE, min(off, AT_ONCE))
                self._shadow.resize(self._fitted)

    def withdraw(self, reading: Reading) -> None:
        """What it alone brought is not there."""
        for chain in reading.chains:
            self._shadow.withdraw(chain.keys, reading.number)

    def waits(self, reading: Reading) -> bool:
        """Never: what is shared is there once it is planned, and it is read with all others."""
        return False

    def spell(self, reading: Reading, chain: Chain) -> None:
        """What is kept in our rendering cannot be looked up by other tokens."""

    def end(self, reading: Reading, said: Said) -> None:
        """The answer is kept too."""
        self._shadow.hold(self.written(reading, said))

    def written(self, reading: Reading, said: Said) -> Sequence[int]:
        """The blocks of prompt and answer, which are cached as they fill; the last token was written and never read."""
        answer = said.ids[:-1] if reading.prompt.ids and said.ids else said.text
        if not answer or len(reading.chains) != 1:
            return ()
        return self.chains.extend(reading.root, reading.chains[0], answer).keys

    def clear(self, model: str | None = None) -> None:
        """Nothing is there, of no model: blocks do not know whose they are."""
        self._shadow.clear()

    def found(self, reading: Reading) -> int | None:
        """What was there at dispatch; of a model that was loaded since, nothing."""
        return None if reading.emptied_s is None else 0


class Slots:
    """llama.cpp's cache, and Ollama's: slots per model, prompts token by token. What a cache without a limit would give
    is told in blocks: such a cache has one memory, no slots."""

    # State: the slots of each model, those that wait for one, all that was ever there, and how often the engine began.

    block = grain = 1
    unkept = frozenset({"embed", "rerank", "score", "classify"})

    def __init__(self, texts: Texts, slots: int) -> None:
        self.capacity: int | None = None
        self.chains = texts.chains(BLOCK)
        self._slots = max(1, slots)
        self._ever = Blocks(texts, BLOCK)
        self._models: Generations[_Queue] = Generations(MODELS)
        self._starts = 0

    def look(self, reading: Reading) -> Look:
        """The longest common prefix with the slot that would take it."""
        queue, usable = self._of(reading), sum([chain.whole(1) for chain in reading.chains])
        ahead = [self._packed(other) for other in islice(reversed(queue.line.values()), self._slots)]
        found = queue.slots.look(self._packed(reading), reading.added, ahead)
        return Look(found, max(found, min(self._ever.look(reading).infinite, usable)), usable)

    def begin(self, reading: Reading) -> None:
        """A slot takes it, now or when one is free."""
        self._ever.begin(reading)
        queue = self._of(reading)
        if queue.slots.free:
            reading.slot = queue.slots.begin(self._packed(reading), reading.added)
        else:
            queue.line[reading.number] = reading

    def fit(self, ours: int, theirs: int) -> None:
        """Slots have room for a prompt, however many tokens that is."""

    def withdraw(self, reading: Reading) -> None:
        """The slot was not taken."""
        self._ever.withdraw(reading)
        queue = self._of(reading)
        if reading.slot is not None:
            queue.slots.withdraw(reading.slot, self._packed(reading))
            self._next(queue)
        queue.line.pop(reading.number, None)

    def waits(self, reading: Reading) -> bool:
        """All slots were at work ever since."""
        return reading.number in self._of(reading).line

    def spell(self, reading: Reading, chain: Chain) -> None:
        """Slots are looked up by our rendering."""

    def end(self, reading: Reading, said: Said) -> None:
        """The slot holds the prompt and its answer, and is free for who waits."""
        self._ever.end(reading, said)
        packed = self._packed(reading)
        self._leave(reading, packed, packed + (self.chains.packed((Segment(said.text),)) if said.text else b""))

    def lose(self, reading: Reading) -> None:
        """The slot holds what nobody knows."""
        self._ever.withdraw(reading)
        self._leave(reading, b"", b"")

    def clear(self, model: str | None = None) -> None:
        """Nothing is there."""
        if model is None:
            self._models = Generations(MODELS)
            self._ever.clear()
            self._starts += 1
        else:
            self._queue(model).slots.clear()

    def found(self, reading: Reading) -> int | None:
        """What was in the slot when it took this one; of a model that was loaded since, what others that ended before
        have left there."""
        queue, taken, packed = self._of(reading), reading.slot, self._packed(reading)
        if taken is None:
            return queue.slots.look(packed, reading.added)
        if taken.loads == queue.slots.loads:
            return taken.reused
        return max(0, min(common(queue.slots.held(taken.slot), packed), reading.tokens - 1))

    def _leave(self, reading: Reading, packed: bytes, left: bytes) -> None:
        queue = self._of(reading)
        waited = queue.line.pop(reading.number, None) is not None
        taken = queue.slots.begin(packed, reading.added) if waited else reading.slot
        if taken is not None:
            queue.slots.end(taken.slot, left)
        if not waited:  # else it overtook those whose slots are known, and left none
            self._next(queue)

    def _next(self, queue: "_Queue") -> None:
        """A free slot takes who waits longest."""
        while queue.line and queue.slots.free:
            first = queue.line.pop(next(iter(queue.line)))
            first.slot = queue.slots.begin(self._packed(first), first.added)

    def _of(self, reading: Reading) -> "_Queue":
        return self._queue(reading.model)

    def _queue(self, model: str) -> "_Queue":
        return self._models.of(hash(model), lambda: _Queue(SlotShadow(self._slots, loads=self._starts * LOADS), {}))

    def _packed(self, reading: Reading) -> bytes:
        return b"".join(map(pack, reading.prompt.ids)) + self.chains.packed(reading.segments)


class _Queue(NamedTuple):
    """The slots of one model, and those that wait for one, by number."""

    slots: SlotShadow
    line: dict[int, Reading]


SLOTTED = ("llamacpp", "ollama")
"""Kinds of engines that keep prompts in slots; all others keep blocks."""


def cache_of(
    kind: str, texts: Texts, block: int | None, tokens: int | None, slots: int | None, blocks: type[Blocks] = Blocks
) -> Cache:
    """The cache of an engine of this kind: tokens a block, tokens in all, slots; None: the kind's default. `blocks`:
    how one is kept that keeps blocks."""
    if kind in SLOTTED:
        return Slots(texts, slots or 1)
    if kind == "sglang" and not block:
        return Blocks(texts, 1, None if tokens is None else tokens // GRAIN, GRAIN)
    size = block or BLOCK
    return blocks(texts, size, None if tokens is None else tokens // size)


def replicas_of(caches: Iterable[Cache], mine: Cache) -> list[Cache]:
    """The caches of other engines that hold prompts in the same blocks."""
    return [one for one in caches if one is not mine and one.block == mine.block]
