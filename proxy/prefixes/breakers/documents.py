"""Prompts as the search sees them: a rendered prompt with its moment and its answer, and where two of them part."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from zlib import crc32

from proxy.prefixes.breakers.writing import WORD
from proxy.prefixes.canon import LEADS, Segment, text_of

Segments = tuple[Segment, ...]

HEAD_ROLES = (*LEADS, "tools", "prompt")
"""Content that the application writes, not its client."""

RUN = 5
"""Words a shingle, to find the earlier prompt with most in common."""

EVERY = 4
"""One word in so many begins a shingle that counts: a prompt of 1,000 words has about 250."""


@dataclass(frozen=True, slots=True)
class Document:
    """One prompt of the sample. Lives in memory only."""

    id: str
    at_s: float
    """Arrival, seconds; only differences and days matter."""
    root: int
    """Start of its chain: prompts with different roots share nothing."""
    segments: Segments
    answer: str | None = None
    """What the engine wrote, if known."""
    stands_for: float = 1.0
    """So many prompts: where there are many, most are not in the sample."""

    def edited(self, index: int, text: str) -> "Document":
        """The same prompt with another text in one segment; an empty one goes."""
        changed = self.segments[index]._replace(text=text)
        segments = (*self.segments[:index], *([changed] if text else ()), *self.segments[index + 1 :])
        return replace(self, segments=segments)

    @property
    def size(self) -> int:
        """Characters of the prompt and of its answer."""
        return sum(len(segment.text) for segment in self.segments) + len(self.answer or "")

    def whole(self) -> Segments:
        """The prompt and, as one more segment, its answer."""
        if not self.answer:
            return self.segments
        return (*self.segments, Segment(self.answer, 0, -1, "assistant"))

    def content(self, role: str | None = None) -> Iterator[tuple[int, Segment]]:
        """Segments that hold somebody's words (of this role), with their index; the last one first, so that they may
        be edited meanwhile."""
        for index in range(len(self.segments) - 1, -1, -1):
            segment = self.segments[index]
            if segment.role and not segment.marker and (role is None or segment.role == role):
                yield index, segment

    def has(self, role: str) -> bool:
        """Whether there are words of this role."""
        return next(self.content(role), None) is not None


class Repair(Protocol):
    """A change of prompts that lets them share more. Frozen, so that equal ones can be told to be the same."""

    @property
    def fix(self) -> str:
        """`move`, `reorder`, `normalise` or `keep`."""
        ...

    def carries(self, document: Document) -> bool:
        """Whether a prompt has what is repaired."""
        ...

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """The prompts, repaired."""
        ...


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a prompt leaves the earlier one that it has most in common with."""

    later: Document
    earlier: Document
    index: int
    """Segment in which they part."""
    char: int
    """Characters of that segment on which they agree."""

    @property
    def mine(self) -> Segment:
        """The later prompt's segment."""
        return self.later.whole()[self.index]

    @property
    def other(self) -> Segment:
        """The earlier prompt's segment."""
        return self.earlier.whole()[self.index]

    @property
    def comparable(self) -> bool:
        """Both are words of the same role."""
        mine, other = self.mine, self.other
        return not mine.marker and not other.marker and bool(mine.role) and mine.role == other.role

    @property
    def place(self) -> Segment:
        """Whose words part: the later prompt's segment, or the next one that is no frame."""
        return next((one for one in self.later.whole()[self.index :] if one.role), self.mine)

    @property
    def position(self) -> int:
        """Characters of the rendered text on which they agree."""
        return len(text_of(self.later.whole()[: self.index])) + self.char


def agreement(one: str, other: str) -> int:
    """Characters that two texts share from their start: bisection over slices, each compared in C."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def parting(later: Document, earlier: Document) -> Parting | None:
    """Where two prompts, each with its answer, part; None where one of them goes on where the other ends."""
    for index, (a, b) in enumerate(zip(later.whole(), earlier.whole(), strict=False)):
        if a.text != b.text or a.marker != b.marker:
            return Parting(later, earlier, index, 0 if a.marker != b.marker else agreement(a.text, b.text))
    return None


def latest(documents: Sequence[Document], characters: int) -> list[Document]:
    """The latest documents that together have no more characters than this; one at least."""
    kept: list[Document] = []
    for document in reversed(documents):
        characters -= document.size
        if kept and characters < 0:
            break
        kept.append(document)
    return kept[::-1]


def nearest(documents: Sequence[Document]) -> list[tuple[int, int]]:
    """For each document the earlier one with which it has most in common, wherever it stands; the latest of equals."""
    sketches: list[set[int]] = []
    pairs = []
    for number, document in enumerate(documents):
        text = "\n".join(segment.text for segment in document.whole() if segment.role)
        sketch = shingles(text, RUN, EVERY)
        if sketches:
            best = max(range(number), key=lambda earlier: (len(sketches[earlier] & sketch), earlier))
            pairs.append((number, best))
        sketches.append(sketch)
    return pairs


def shingles(text: str, size: int, every: int = 1) -> set[int]:
    """Hashes of runs of `size` words, whatever stands between them; of all words where there are fewer.

    `every`: of the words one in so many, chosen by its own hash, begins a run that counts. A run that comes twice, four
    times, eight times counts once more each time: a long monotony weighs something too.
    """
    found: list[str] = WORD.findall(text.lower())
    chosen = {word for word in set(found) if hash_of(word) % every == 0}
    starts = [k for k in range(len(found) - size + 1) if found[k] in chosen]
    counts = Counter([" ".join(found[k : k + size]) for k in starts or [0]])
    return {hash_of(run, turn) for run, count in counts.items() for turn in range(count.bit_length())}


def hash_of(text: str, seed: int = 0) -> int:
    """A quick hash, the same in every process."""
    return crc32(text.encode("utf-8", "surrogatepass"), seed)


def canonical(text: str) -> str | None:
    """A JSON value with its keys sorted; None where the text is no JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return None


def lead_of(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """What the application wrote: system prompt and tools, else the first message or raw prompt."""
    content = [segment for segment in segments if segment.role and not segment.marker]
    return tuple(segment for segment in content if segment.role in HEAD_ROLES) or tuple(content[:1])


def head_of(segments: Iterable[Segment]) -> str:
    """The text of a prompt's lead, each tool with its keys in one order."""
    return "\n".join(_tools(one.text) if one.role == "tools" else one.text for one in lead_of(segments))


def _tools(text: str) -> str:
    """A list of tools, the keys of each in one order."""
    return "\n".join(canonical(line) or line for line in text.split("\n"))
