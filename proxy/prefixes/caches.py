"""The shadow caches of the kinds of engines, behind one protocol."""

import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from proxy.events import Said
from proxy.prefixes.canon import Encode, Segment
from proxy.prefixes.chains import LONGEST, Chain, Chains, Generations, pack
from proxy.prefixes.lines import LONG, Lines
from proxy.prefixes.reading import Reading
from proxy.prefixes.shadow import BlockShadow, SlotShadow, common

BLOCK = 16
"""Tokens a block where the engine does not say: vLLM's default on GPUs."""

UTF_32 = f"utf-32-{sys.byteorder[0]}e"
"""Characters as `pack` writes token ids."""

LONG_IDS = LONG // 4
"""Token ids in a row that are looked at in pieces: as many as a long line has, at four characters each."""

MODELS = 64
"""Models whose slots are kept in each of two generations: clients name them, and llama.cpp serves one by any name."""

UNFILLED = 1
"""Blocks that hold nothing to find: the last one of a prompt is seldom full, and is the first to be taken again."""


class Look(NamedTuple):
    """A request's prompts as one engine's cache sees them, in tokens."""

    resident: int
    infinite: int
    usable: int


class Texts:
    """What all engines' audits share: the per-install key, chains by block size, lines seen. One per data process."""

    # State: chains by block size, lines seen.

    def __init__(self, encode: Encode, secret: bytes) -> None:
        self.secret = secret
        self._encode = encode
        self._chains: dict[int, Chains] = {}
        self._lines = Lines()

    def chains(self, block: int) -> Chains:
        """The chains of one block size."""
        if block not in self._chains:
            self._chains[block] = Chains(self._encode, block)
        return self._chains[block]

    def repeated(self, reading: Reading, behind: int) -> int:
        """Tokens behind the first `behind` that stand in text seen before, about. The text is seen from now on."""
        if len(reading.prompt.ids) == 1:
            ids = reading.prompt.ids[0][behind:]
            return int(self._lines.known(reading.root, _spelt(ids[:LONGEST]), LONG_IDS, reading.news) * len(ids))
        found, at = 0.0, 0
        ours = reading.rendered / max(1, reading.tokens)
        first = behind * ours
        for segment, size in zip(reading.segments, reading.chains[0].sizes, strict=False):
            at += size
            if at > first and segment.role and not segment.marker:
                head, tail = _parted(segment.text, max(0.0, first - at + size) / size)
                self._lines.known(reading.root, head, news=reading.news)
                found += self._lines.known(reading.root, tail, news=reading.news) * min(size, at - first)
        return int(found / ours) if found else 0

    def unseen(self, reading: Reading) -> None:
        """The engine did not read it: what was news in it still is."""
        self._lines.forget(reading.news)


def _parted(text: str, share: float) -> tuple[str, str]:
    """A text's first so many of its characters, and the others with the whole of their line, if it is not long."""
    at = round(len(text) * share)
    line = text.rfind("\n", 0, at) + 1
    at = line if at - line < LONG else at
    return text[:at], text[at:]


def _spelt(ids: Sequence[int]) -> str:
    """Token ids as characters, one each, for whoever looks for text; empty where no vocabulary has such ids."""
    try:
        return pack(ids).decode(UTF_32, "surrogatepass")
    except UnicodeDecodeError:
        return ""


class Cache(Protocol):
    """What an engine keeps of prompts, by its own rules."""

    block: int
    """Tokens that are reused as one."""
    chains: Chains
    capacity: int | None
    """Blocks it can hold; None: not known."""

    def look(self, reading: Reading) -> Look:
        """What is there; changes nothing."""
        ...

    def begin(self, reading: Reading) -> None:
        """The engine has the prompt."""
        ...

    def spell(self, reading: Reading, chain: Chain) -> None:
        """These are the engine's own tokens of the request's prompt."""
        ...

    def end(self, reading: Reading, said: Said) -> None:
        """It has answered."""
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

    def __init__(self, texts: Texts, block: int = BLOCK, capacity: int | None = None) -> None:
        self.block = block
        self.capacity = capacity
        self.chains = texts.chains(block)
        self._room = None if capacity is None else max(1, capacity - UNFILLED)
        self._shadow = BlockShadow(self._room)

    def look(self, reading: Reading) -> Look:
        """Leading full blocks."""
        looks = [self._shadow.look(chain, self.block) for chain in reading.chains]
        usable = sum(chain.usable(self.block) * self.block for chain in reading.chains)
        return Look(sum(one.resident for one in looks), sum(one.infinite for one in looks), usable)

    def begin(self, reading: Reading) -> None:
        """Blocks are visible as soon as they are scheduled."""
        for chain in reading.chains:
            self._shadow.hold(chain.keys, reading.number)

    def withdraw(self, reading: Reading) -> None:
        """What it alone brought is not there."""
        for chain in reading.chains:
            self._shadow.withdraw(chain.keys, reading.number)

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

    # State: the slots of each model, those that wait for one, and all that was ever there.

    block = 1

    def __init__(self, texts: Texts, slots: int) -> None:
        self.capacity: int | None = None
        self.chains = texts.chains(BLOCK)
        self._slots = max(1, slots)
        self._ever = Blocks(texts, BLOCK)
        self._models: Generations[_Queue] = Generations(MODELS)

    def look(self, reading: Reading) -> Look:
        """The longest common prefix with the slot that would take it."""
        queue, usable = self._of(reading), sum([max(0, chain.tokens - 1) for chain in reading.chains])
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

    def withdraw(self, reading: Reading) -> None:
        """The slot was not taken."""
        self._ever.withdraw(reading)
        queue = self._of(reading)
        if reading.slot is not None:
            queue.slots.withdraw(reading.slot, self._packed(reading))
            self._next(queue)
        queue.line.pop(reading.number, None)

    def spell(self, reading: Reading, chain: Chain) -> None:
        """Slots are looked up by our rendering."""

    def end(self, reading: Reading, said: Said) -> None:
        """The slot holds the prompt and its answer, and is free for who waits."""
        self._ever.end(reading, said)
        queue, packed = self._of(reading), self._packed(reading)
        waited = queue.line.pop(reading.number, None) is not None
        taken = queue.slots.begin(packed, reading.added) if waited else reading.slot
        if taken is not None:
            added = self.chains.packed((Segment(said.text),)) if said.text else b""
            queue.slots.end(taken.slot, packed + added)
        if not waited:  # else it overtook those whose slots are known, and left none
            self._next(queue)

    def clear(self, model: str | None = None) -> None:
        """Nothing is there."""
        if model is None:
            self._models = Generations(MODELS)
            self._ever.clear()
        else:
            self._queue(model).slots.clear()

    def found(self, reading: Reading) -> int | None:
        """What was in the slot when it took this one; of a model that was loaded since, what others that ended before
        have left there."""
        queue, taken, packed = self._of(reading), reading.slot, self._packed(reading)
        if taken is None:
            return queue.slots.look(packed, reading.added) if reading.number in queue.line else None
        if taken.loads == queue.slots.loads:
            return taken.reused
        return max(0, min(common(queue.slots.held(taken.slot), packed), reading.tokens - 1))

    def _next(self, queue: "_Queue") -> None:
        """A free slot takes who waits longest."""
        while queue.line and queue.slots.free:
            first = queue.line.pop(next(iter(queue.line)))
            first.slot = queue.slots.begin(self._packed(first), first.added)

    def _of(self, reading: Reading) -> "_Queue":
        return self._queue(reading.model)

    def _queue(self, model: str) -> "_Queue":
        return self._models.of(hash(model), lambda: _Queue(SlotShadow(self._slots), {}))

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
    """The cache of an engine of this kind: tokens a block, tokens in all, slots; None is not known, then the kind's
    default is taken. `blocks`: how one is kept that keeps blocks."""
    if kind in SLOTTED:
        return Slots(texts, slots or 1)
    size = block or (1 if kind == "sglang" else BLOCK)
    return blocks(texts, size, None if tokens is None else tokens // size)


def replicas_of(caches: Iterable[Cache], mine: Cache) -> list[Cache]:
    """The caches of other engines that hold prompts in the same blocks."""
    return [one for one in caches if one is not mine and one.block == mine.block]
