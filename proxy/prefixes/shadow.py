"""Shadow caches: what an engine's prefix cache holds, kept by the engine's own rules.

`BlockShadow` is vLLM's cache (and SGLang's, with pages for blocks): full blocks under chained keys, a look-up at
admission only, at most (n - 1) // block of them, blocks visible as soon as they are scheduled, freed tail first,
evicted when room is needed, the least recently used first. `SlotShadow` is llama.cpp's (and Ollama's, whose child it
is): the longest common prefix with what a slot holds, token by token, at most n - 1, a slot's memory not shared with
the others, and prompts put aside in host memory when a slot is taken for another one.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from proxy.prefixes.chains import TOKEN, Chain

REMEMBERED = 250_000
"""Blocks remembered in all, evicted ones with them: an infinite cache is one bounded by our memory, 32 MB. They stand
for 4 million tokens in vLLM's blocks, for 2 million as SGLang's are followed."""

SIMILAR = 0.1
"""llama.cpp's `--slot-prompt-similarity`: the share of the prompt that a free slot must hold to be preferred."""

KEEP = 0.5
"""llama.cpp saves a slot's prompt to host memory when less than this share of it would be kept."""

RESTORE = 0.25
"""llama.cpp restores a saved prompt only when at least this share of it is of use."""

SAVED_TOKENS = 262_144
"""Tokens of prompts kept in host memory; llama.cpp limits bytes (`--cache-ram`, 8 GiB), which is this much for common
models, and not the number of prompts."""

SAVED = 512
"""Prompts followed there, the latest: each is held against every prompt that comes. So of prompts of less than 512
tokens llama.cpp may have more."""


class Leading(NamedTuple):
    """What a cache has of a prompt, in tokens."""

    resident: int
    """What the engine can take from its cache now."""
    infinite: int
    """What it could take if nothing had been evicted."""


class BlockShadow:
    """An LRU cache of blocks and the memory of what it evicted. A key is in one of the two.

    About 150 bytes a block, whichever of the two it is in.
    """

    # State: resident and evicted keys, each from the least to the most recently used. A resident one knows by whom it
    # was brought (negative: brought back), while nobody else has used it; else 0.

    def __init__(self, capacity: int | None, remembered: int = REMEMBERED) -> None:
        """`capacity`: blocks that the engine has; None: unknown, then nothing but our own bound evicts."""
        self._remembered = remembered
        self._resident: OrderedDict[int, int] = OrderedDict()
        self._evicted: OrderedDict[int, None] = OrderedDict()
        self._room(remembered if capacity is None else capacity)

    def __len__(self) -> int:
        return len(self._resident) + len(self._evicted)

    def resize(self, capacity: int) -> None:
        """Take the engine's real number of blocks, once it is known."""
        self._room(capacity)
        self._evict()

    def look(self, chain: Chain, block: int) -> Leading:
        """What is there for this prompt; changes nothing."""
        usable = chain.keys[: chain.usable(block)]
        here = _leading(usable, self._resident.__contains__)
        ever = here + _leading(usable[here:], self._knows)
        return Leading(here * block, ever * block)

    def hold(self, keys: Sequence[int], by: int = 0) -> None:
        """Keep the blocks of a prompt, or of a prompt and its answer; the first one is then the most recent.

        `by`: a number from 1, for `withdraw`.
        """
        resident, evicted = self._resident, self._evicted
        for key in reversed(keys):
            if key not in resident:
                resident[key] = by
                continue
            resident.move_to_end(key)
            if resident[key]:
                resident[key] = 0
        if evicted:
            for key in keys:
                if key in evicted:
                    del evicted[key]
                    resident[key] = -by
        self._evict()

    def withdraw(self, keys: Sequence[int], by: int) -> None:
        """The engine did not read the prompt: what was brought by this number alone is not there."""
        resident = self._resident
        for key in keys:
            whose = resident.get(key, 0)
            if whose and abs(whose) == by:
                del resident[key]
                if whose < 0:
                    self._evicted[key] = None
        self._evict()

    def _knows(self, key: int) -> bool:
        return key in self._evicted or key in self._resident

    def clear(self) -> None:
        """The engine restarted, or dropped its cache: nothing is there, and nothing was."""
        self._resident.clear()
        self._evicted.clear()

    def _room(self, capacity: int) -> None:
        """What evicted blocks get: the rest of what is remembered; for a very large cache, half of its own size."""
        self._capacity = capacity
        self._ghosts = max(self._remembered - capacity, capacity // 2 if capacity > self._remembered // 2 else 0)

    def _evict(self) -> None:
        while len(self._resident) > self._capacity:
            self._evicted[self._resident.popitem(last=False)[0]] = None
        while len(self._evicted) > self._ghosts:
            self._evicted.popitem(last=False)


def _leading(keys: Sequence[int], holds: Callable[[int], bool]) -> int:
    """How many keys from the first on are held."""
    return len(list(takewhile(holds, keys)))


def common(one: bytes, other: bytes) -> int:
    """Tokens that two packed prompts share from their start: bisection over slices, each compared in C."""
    low, high = 0, min(len(one), len(other)) // TOKEN
    while low < high:
        middle = (low + high + 1) // 2
        if one[low * TOKEN : middle * TOKEN] == other[low * TOKEN : middle * TOKEN]:
            low = middle
        else:
            high = middle - 1
    return low


class Added(NamedTuple):
    """What the engine's template adds to a prompt, which our rendering lacks."""

    opening: int = 1
    """Tokens that prompts must share before they share it."""
    template: int = 0
    """Tokens."""

    def to(self, shared: int) -> int:
        """Tokens that prompts share, those of the template with them."""
        return shared + self.template if shared >= self.opening else shared


PLAIN = Added()
"""Nothing is added."""


class Taken(NamedTuple):
    """How a slot took a prompt."""

    slot: int
    reused: int
    """Tokens."""
    before: bytes
    """What it had ..."""
    busy: bool
    """... and whether it was at work."""
    restored: bytes | None
    """The prompt that came back from host memory for it."""
    saved: bool
    """Whether what it had was put there, and was not there before."""
    loads: int
    """Loads of the model before."""


class SlotShadow:
    """The prompts in llama.cpp's slots, and those it put aside."""

    # State: per slot what it holds and whether it is at work (from the least to the most recently used), saved prompts,
    # how often the model was loaded anew.

    def __init__(self, slots: int, saved_tokens: int = SAVED_TOKENS, loads: int = 0) -> None:
        """`loads`: of the model before."""
        self._held: OrderedDict[int, bytes] = OrderedDict((slot, b"") for slot in range(slots))
        self._busy: set[int] = set()
        self._saved: deque[bytes] = deque()
        self._room = saved_tokens
        self.loads = loads

    @property
    def free(self) -> bool:
        """Some slot is not at work."""
        return len(self._busy) < len(self._held)

    def look(self, packed: bytes, added: Added = PLAIN, ahead: Sequence[bytes] = ()) -> int:
        """Tokens of the prompt that the slot which would take it has; changes nothing. `ahead`: prompts that wait for a
        slot, the last one first, as many as there are slots at most: they will be there before."""
        if not ahead:
            return self._plan(packed, added, self._held)[1]
        latest = (*ahead, *reversed(self._held.values()))[: len(self._held)]
        return self._plan(packed, added, dict(enumerate(reversed(latest))))[1]

    def begin(self, packed: bytes, added: Added = PLAIN) -> Taken:
        """A slot takes the prompt: a free one, if any is."""
        slot, reused, aside, restored = self._plan(packed, added, self._held)
        before, busy = self._held[slot], slot in self._busy
        if restored is not None:
            self._saved.remove(restored)
        saved = aside and self._save(before)
        self._held[slot] = packed
        self._held.move_to_end(slot)
        self._busy.add(slot)
        return Taken(slot, reused, before, busy, restored, saved, self.loads)

    def end(self, slot: int, packed: bytes) -> None:
        """The slot is free and holds the prompt and its answer."""
        self._held[slot] = packed
        self._busy.discard(slot)

    def withdraw(self, taken: Taken, packed: bytes) -> None:
        """The engine did not read the prompt: the slot has what it had before, unless another request took it too."""
        if taken.restored is not None:
            self._saved.append(taken.restored)
        held = self._held[taken.slot]
        if held == packed:
            self._held[taken.slot] = taken.before
            if taken.saved and taken.before in self._saved:
                self._saved.remove(taken.before)
        if held in (packed, b"") and not taken.busy:
            self._busy.discard(taken.slot)

    def held(self, slot: int) -> bytes:
        """What a slot holds."""
        return self._held[slot]

    def clear(self) -> None:
        """The model was loaded anew: nothing is there. Slots at work stay so, for that waited for the load."""
        self._held = OrderedDict((slot, b"") for slot in self._held)
        self._saved.clear()
        self.loads += 1

    def _plan(self, packed: bytes, added: Added, held: Mapping[int, bytes]) -> tuple[int, int, bool, bytes | None]:
        """Slot, tokens reused, whether its prompt is put aside, and the saved prompt that comes back instead."""
        size = max(1, len(packed) // TOKEN)
        free = [slot for slot in held if slot not in self._busy] or list(held)
        slot = max(free, key=lambda one: common(held[one], packed))
        shared = common(held[slot], packed)
        if added.to(shared) <= SIMILAR * (size + added.template):
            slot = free[0]
            shared = common(held[slot], packed)
            aside = bool(held[slot])
        else:
            aside = added.to(shared) < KEEP * (len(held[slot]) // TOKEN + added.template)
        restored = self._better(packed, held[slot], shared, added) if aside else None
        if restored is not None:
            shared = common(restored, packed)
        return slot, min(shared, size - 1), aside, restored

    def _better(self, packed: bytes, held: bytes, shared: int, added: Added) -> bytes | None:
        """The saved prompt that shares more with this one, and wastes less, than what the slot holds."""
        best, keep = None, added.to(shared) / max(1, len(held) // TOKEN + added.template)
        for saved in self._saved:
            size = len(saved) // TOKEN + added.template
            least = max(shared + 1, int(max(keep, RESTORE) * size) - added.template)
            if not saved.startswith(packed[: least * TOKEN]):
                continue
            found = common(saved, packed)
            kept = added.to(found) / size
            if kept >= RESTORE and kept > keep and found > shared:
                best, keep, shared = saved, kept, found
        return best

    def _save(self, packed: bytes) -> bool:
        """Put a prompt aside; False: it is there already, or the beginning of one."""
        if any(saved.startswith(packed) for saved in self._saved):
            return False
        self._saved = deque(saved for saved in self._saved if not packed.startswith(saved))
        self._saved.append(packed)
        while len(self._saved) > SAVED or sum(map(len, self._saved)) > self._room * TOKEN:
            self._saved.popleft()
        return True
