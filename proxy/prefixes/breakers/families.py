"""Families: prompts of one application, recognised although they part early.

The head of a prompt (system prompt and tools, else the leading text) becomes a sketch: the smallest hashes of its runs
of words (bottom-k MinHash, Broder 1997). Two heads are of one family when a good part of these agree: a time stamp,
another order or another line end change few of them, another application changes nearly all.

Runs of two lengths are asked. Short ones survive where examples change places; but phrases that come back with other
numbers have many in common. Long ones are proof where they agree, so there a smaller part is enough: documents before
the instructions may be longer than these. Whole sentences and lines are asked last: rules may be short, and shuffled.

Documents may be ten times as long as the instructions; then every head is new, and none is like another. But sentences
and lines that follow each other in several such heads are an application's own, so from then on heads are compared by
these too. Tools have no say in that: the words of schemas are everybody's.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple
from unicodedata import normalize

from proxy.prefixes.breakers.documents import hash_of, head_of, lead_of, shingles
from proxy.prefixes.breakers.orders import sorted_keys
from proxy.prefixes.breakers.writing import pieces, size
from proxy.prefixes.canon import Segment
from proxy.prefixes.chains import Generations

RUN, LONG_RUN = 6, 12
"""Words a shingle: long enough that two texts with the same phrases and other numbers share few, or nearly none."""

SKETCH = 64
"""Hashes kept of a head: the standard error of the likeness is under .06."""

SIZES = (SKETCH, SKETCH, SKETCH, 256)
"""The same of its runs, of its long runs, of its lines, and of its pairs of lines."""

ALIKE = 0.44
"""Heads of one family share at least this part: variants of one prompt share over .8, examples in another order .7;
different prompts made of the same phrases share up to .4."""

ALIKE_LONG = 0.28
"""Or this part of their long runs: of different prompts made of the same phrases .2 at most, of prompts of which one
half is documents a third."""

LINE = 12
"""Size of a sentence or line that says something."""

LONGEST_HEAD = 40_000
"""Characters of a head that are read, and of its normal form, which may be longer."""

MOST = 512
"""Families kept; what is asked for least recently is forgotten and its next prompt starts a family anew."""

OTHER = "other"
"""Where prompts go that have no head at all."""

ALIKE_LINES = 0.5
"""Or this part of their sentences and lines, or of those that follow each other."""

FOUNDERS = 4
"""Families that have a pair of lines in common which is no chance ..."""
OWN = 4
"""... and so many such pairs make an application."""

MAINLY = 0.4
"""Where they are this part of a head, they tell its family, be it more like another one: it may have a document with
that one in common."""

COUNTED = 1 << 15
"""Pairs of lines that are counted, the latest."""


class Sketch(NamedTuple):
    """The smallest hashes of a head's runs of words, and of its sentences and lines."""

    short: frozenset[int] = frozenset()
    long: frozenset[int] = frozenset()
    lines: frozenset[int] = frozenset()
    pairs: frozenset[int] = frozenset()
    """Of sentences and lines that follow each other; tools apart."""

    @property
    def items(self) -> frozenset[int]:
        """All of them."""
        return self.short | self.long | self.lines | self.pairs


@dataclass(slots=True)
class Family:
    """What is known of one family."""

    name: str
    """A keyed hash; no text."""
    root: int
    sketch: Sketch
    requests: int = 0
    tokens: int = 0
    hits: int = 0
    """Tokens that its prompts could reuse."""
    shared: int = 0
    """Requests that could reuse anything."""


def sketch_of(segments: Sequence[Segment]) -> Sketch:
    """The sketch of a prompt's head."""
    lead = lead_of(segments)
    said, tools = (_normal(head_of(one for one in lead if (one.role == "tools") == are)) for are in (False, True))
    text = f"{said}\n{tools}"
    lines = [piece for piece, _ in pieces(said) if size(piece) >= LINE]
    found = (
        shingles(text, RUN),
        shingles(text, LONG_RUN),
        {hash_of(piece) for piece, _ in pieces(text) if size(piece) >= LINE},
        {hash_of(f"{one}\n{other}") for one, other in pairwise(lines)},
    )
    return Sketch(*(frozenset(sorted(hashes)[:most]) for hashes, most in zip(found, SIZES, strict=True)))


def _normal(text: str) -> str:
    return normalize("NFKC", sorted_keys(text[:LONGEST_HEAD]))[:LONGEST_HEAD]


def alike(one: Sketch, other: Sketch) -> float:
    """How much two heads have in common; from 1 on they are of one family."""
    return max(
        likeness(one.short, other.short) / ALIKE,
        likeness(one.long, other.long) / ALIKE_LONG,
        likeness(one.lines, other.lines) / ALIKE_LINES,
        likeness(one.pairs, other.pairs) / ALIKE_LINES,
    )


def likeness(one: frozenset[int], other: frozenset[int]) -> float:
    """The estimated share of runs that two heads have in common, of all runs in either (Jaccard)."""
    union = sorted(one | other)[:SKETCH]
    return sum(1 for item in union if item in one and item in other) / len(union) if union else 0.0


@dataclass(slots=True)
class Families:
    """All families, bounded."""

    # State: families from the least to the most recently seen, an index from hash to family, sketches of heads, and in
    # how many heads that founded a family each pair of lines stood.

    secret: bytes
    most: int = MOST
    _known: OrderedDict[str, Family] = field(default_factory=OrderedDict)
    _index: dict[int, set[str]] = field(default_factory=dict)
    _sketches: Generations[Sketch] = field(default_factory=lambda: Generations(MOST))
    _counts: Generations[int] = field(default_factory=lambda: Generations(COUNTED))

    def _sketch(self, segments: Sequence[Segment]) -> Sketch:
        """The sketch of a prompt's head; of a head that was seen before, the one made then."""
        lead = hash(lead_of(segments))
        sketch = self._sketches.get(lead)
        if sketch is None:
            sketch = sketch_of(segments)
            self._sketches.put(lead, sketch)
        return sketch

    def assign(self, root: int, segments: Sequence[Segment]) -> Family:
        """The family of a prompt; a new one where none is like it."""
        sketch = self._sketch(segments)
        own = Sketch(pairs=self._own(root, sketch))
        mainly = len(own.pairs) >= MAINLY * len(sketch.pairs)
        family = (self._nearest(root, own) if mainly else None) or self._nearest(root, sketch, own)
        if family is None:
            family = self._found(root, sketch._replace(pairs=own.pairs or sketch.pairs))
            for pair in sketch.pairs:
                self._counts.put(hash((root, pair)), self._founders(root, pair) + 1)
        self._known.move_to_end(family.name)
        return family

    def _founders(self, root: int, pair: int) -> int:
        return self._counts.get(hash((root, pair))) or 0

    def _own(self, root: int, sketch: Sketch) -> frozenset[int]:
        """Pairs of lines of a head that several families have had from the first, if there are enough of them."""
        counts = {pair: self._founders(root, pair) for pair in sketch.pairs}
        usual = sorted(counts.values(), reverse=True)[OWN - 1 : OWN]
        if not usual or usual[0] < FOUNDERS:
            return frozenset()
        return frozenset(pair for pair, count in counts.items() if 2 * count >= usual[0])

    def _nearest(self, root: int, *sketches: Sketch) -> Family | None:
        """The family that one of these is most like, if it is like any."""
        votes = Counter(name for sketch in sketches for item in sketch.items for name in self._index.get(item, ()))
        best, most = None, 0.0
        for name, _ in votes.most_common(8):
            family = self._known[name]
            like = max(alike(sketch, family.sketch) for sketch in sketches) if family.root == root else 0.0
            if like > most:
                best, most = family, like
        return best if most >= 1 else None

    def _found(self, root: int, sketch: Sketch) -> Family:
        digest = blake2b(repr((root, sorted(sketch.short))).encode(), digest_size=6, key=self.secret[:64])
        family = Family("f" + digest.hexdigest(), root, sketch)
        self._known[family.name] = family
        for item in sketch.items:
            self._index.setdefault(item, set()).add(family.name)
        if len(self._known) > self.most:
            self._forget(self._known.popitem(last=False)[1])
        return family

    def _forget(self, family: Family) -> None:
        for item in family.sketch.items:
            names = self._index[item]
            names.discard(family.name)
            if not names:
                del self._index[item]
