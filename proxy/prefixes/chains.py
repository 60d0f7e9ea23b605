"""Chained block hashes of a prompt, at a cost that follows the text that is new.

A prefix cache knows a prompt as a chain of blocks: the key of a block is a hash of the key before it and of the tokens
in it, so two prompts have the same key exactly as far as they agree. The chain starts from a root that is a keyed hash
of engine, model, salt and adapter: where one of them differs, nothing is shared.

Whole messages are matched first. What a message adds to a chain (its blocks, and the tokens left over) is kept under a
hash of all text up to its end; a prompt whose beginning was seen before is walked message by message, and only its new
end is hashed, and of that only texts that were never seen are tokenised. No text is kept.

Keys are 64-bit integers from the interpreter's own keyed hash (SipHash over the tokens of the block), seeded with the
per-install key: one C call a block. They never leave the process.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from struct import iter_unpack
from typing import Generic, NamedTuple, TypeVar

from proxy.prefixes.canon import LINE, Encode, Segment
from proxy.prefixes.made import Made, Odd, shares

TOKEN = 4
"""Bytes a token takes while it waits in a block."""

LONGEST = 131_072
"""Tokens of a prompt that are followed; 128k is the largest common context window, and what llm-d's router follows."""

KEPT_STEPS = 10_000_000
"""Bytes of messages' steps kept in each of two generations: 300 conversations of 50 messages with 20,000 tokens. No
more, for a generation is let go of at once."""

KEPT_TEXTS = 28_000_000
"""Bytes of segments' tokens kept in each of two generations, for each size of blocks in use: of the same conversations,
all of whose texts are asked for with each of their prompts. What is not there is tokenised again."""

STEP, TEXT, ODD = 350, 130, 170
"""Bytes that a step, the tokens of a text and what is odd in one take besides what is in them."""

V = TypeVar("V")


class Generations(Generic[V]):
    """A bounded memory in two generations: what is used moves to the young one; a full young one replaces the old.

    Keeps whatever was used while no more than `limit` was, by the weight of values (1 each, if nobody weighs them), and
    at most twice as much. Costs nothing on a hit in the young one.
    """

    # State: two dicts, and the weight of what came into the young one.

    def __init__(self, limit: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._limit = limit
        self._weigh = weigh
        self._young: dict[int, V] = {}
        self._old: dict[int, V] = {}
        self._weight = 0

    def get(self, key: int) -> V | None:
        """What was put under the key, or None."""
        found = self._young.get(key)
        if found is None and (found := self._old.pop(key, None)) is not None:
            self.put(key, found)
        return found

    def put(self, key: int, value: V) -> None:
        """Keep a value; the oldest generation goes when the young one is over its limit."""
        self._young[key] = value
        self._weight += self._weigh(value)
        if self._weight > self._limit:
            self._old, self._young, self._weight = self._young, {}, 0

    def of(self, key: int, make: Callable[[], V]) -> V:
        """What is under the key; made where nothing is."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def drop(self, key: int) -> None:
        """Forget it."""
        self._young.pop(key, None)
        self._old.pop(key, None)


class Chain(NamedTuple):
    """The blocks of a prompt."""

    keys: Sequence[int]
    """One key for each full block, in order."""
    tokens: int
    """Tokens of the prompt, those beyond `LONGEST` included."""
    tail: bytes
    """The tokens after the last full block, packed."""
    sizes: Sequence[int] = ()
    """Tokens of each segment."""
    odd: Sequence[Odd] = ()
    """Its texts that are not all plain."""

    def whole(self, block: int) -> int:
        """Tokens in blocks that a cache can give at most, those beyond `LONGEST` with them."""
        return max(0, self.tokens - 1) // block * block

    def usable(self, block: int) -> int:
        """Blocks that are followed, and that a cache can give at most: one token at least is always computed."""
        return min(len(self.keys), max(0, self.tokens - 1) // block)


@dataclass(frozen=True, slots=True)
class _Step:
    """What one message adds to a chain that reached it."""

    keys: Sequence[int]
    tokens: int
    sizes: Sequence[int]
    tail: bytes
    odd: Sequence[Odd]

    @property
    def size_bytes(self) -> int:
        """That it takes in memory, about."""
        return STEP + 8 * (len(self.keys) + len(self.sizes)) + len(self.tail) + ODD * len(self.odd)


def root_of(secret: bytes, *parts: str) -> int:
    """The start of a chain: a hash of engine, model, salt, adapter that only holders of the secret can repeat."""
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8, key=secret[:64])
    return int.from_bytes(digest.digest(), "little", signed=True)


def pack(ids: Sequence[int]) -> bytes:
    """Token ids as bytes, four each, so that a block is a slice. Ids that no engine has are cut to fit."""
    try:
        return array("I", ids).tobytes()
    except OverflowError:
        return array("I", [id & 0xFFFFFFFF for id in ids]).tobytes()


def blocks(parent: int, data: bytes, size: int) -> "array[int]":
    """The keys of all full blocks of `size` bytes in data, after the block `parent`."""
    keys = []
    for block in iter_unpack(f"{size}s", data[: len(data) // size * size]):
        parent = hash((parent, block))
        keys.append(parent)
    return array("q", keys)


def messages(segments: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    """A rendered prompt in pieces that each end with a message."""
    begin = 0
    for end, segment in enumerate(segments, 1):
        if segment is LINE:
            yield segments[begin:end]
            begin = end
    if begin < len(segments):
        yield segments[begin:]


class Chains:
    """Chains of rendered prompts for one block size.

    `encode` may be slow for long text that is new: `strange` says which texts those are, so that the caller can encode
    them elsewhere and hand the ids to `learn` before it asks for the chain.
    """

    # State: steps and packed tokens of segments seen, both bounded, under hashes of their text.

    def __init__(self, encode: Encode, block: int = 16) -> None:
        self.block = block
        self._encode = encode
        self._size = block * TOKEN
        self._steps: Generations[_Step] = Generations(KEPT_STEPS, lambda step: step.size_bytes)
        self._packed: Generations[bytes] = Generations(KEPT_TEXTS, lambda data: TEXT + len(data))

    def strange(self, segments: Sequence[Segment]) -> list[str]:
        """Texts of the prompt that would have to be tokenised."""
        return [s.text for s in segments if not s.marker and self._packed.get(hash(s.text)) is None]

    def learn(self, text: str, ids: Sequence[int]) -> None:
        """Take the tokens of a text that was encoded elsewhere."""
        self._packed.put(hash(text), pack(ids))

    def chain(self, root: int, segments: Sequence[Segment]) -> Chain:
        """The chain of a rendered prompt."""
        keys: list[int] = []
        sizes: list[int] = []
        odd: list[Odd] = []
        before = Made(0.0)
        parent, path, tokens, tail = root, root, 0, b""
        for message in messages(segments):
            path = hash((path, message))
            step = self._steps.get(path)
            if step is None:
                step = self._step(parent, tail, message, LONGEST - tokens)
                self._steps.put(path, step)
            if step.keys:
                keys += step.keys
                parent = keys[-1]
            for one in step.odd:
                odd.append(one._replace(begin=tokens + one.begin, before=before))
                before = Made(0.0, before.digits + one.digits, before.foreign + one.foreign)
            tokens += step.tokens
            sizes += step.sizes
            tail = step.tail
        return Chain(keys, tokens, tail, sizes, odd)

    def of_ids(self, root: int, ids: Sequence[int]) -> Chain:
        """The chain of a prompt whose exact tokens are known."""
        data = pack(ids[:LONGEST])
        keys = blocks(root, data, self._size)
        return Chain(keys, len(ids), data[len(keys) * self._size :])

    def extend(self, root: int, chain: Chain, answer: str | Sequence[int]) -> Chain:
        """The chain of a prompt and its answer: an engine keeps the blocks of both."""
        data = pack(answer) if not isinstance(answer, str) else self._tokens(answer)
        added = len(data) // TOKEN
        data = chain.tail + data[: max(0, LONGEST - chain.tokens) * TOKEN]
        keys = blocks(chain.keys[-1] if chain.keys else root, data, self._size)
        return Chain([*chain.keys, *keys], chain.tokens + added, data[len(keys) * self._size :])

    def packed(self, segments: Sequence[Segment]) -> bytes:
        """All tokens of a rendered prompt, packed."""
        return b"".join([pack((s.marker,)) if s.marker else self._tokens(s.text) for s in segments])

    def _step(self, parent: int, tail: bytes, message: Sequence[Segment], room: int) -> _Step:
        packed = [pack((s.marker,)) if s.marker else self._tokens(s.text) for s in message]
        sizes = [len(data) // TOKEN for data in packed]
        data = tail + b"".join(packed)[: max(0, room) * TOKEN]
        keys = blocks(parent, data, self._size)
        return _Step(keys, sum(sizes), sizes, data[len(keys) * self._size :], _odd(message, sizes))

    def _tokens(self, text: str) -> bytes:
        name = hash(text)
        data = self._packed.get(name)
        if data is None:
            data = pack(self._encode(text))
            self._packed.put(name, data)
        return data


def _odd(message: Sequence[Segment], sizes: Sequence[int]) -> list[Odd]:
    found, begin = [], 0
    for segment, size in zip(message, sizes, strict=True):
        if segment.role and not segment.marker:
            digits, foreign = shares(segment.text)
            if digits or foreign:
                found.append(Odd(begin, size, digits * size, foreign * size))
        begin += size
    return found
