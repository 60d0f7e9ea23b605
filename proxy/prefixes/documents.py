"""Prompts as the search sees them: a rendered prompt with its moment and its answer, and where two of them part."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os.path import commonprefix
from zlib import crc32

from proxy.prefixes.canon import LEADS, Segment, text_of

Segments = tuple[Segment, ...]

HEAD_ROLES = (*LEADS, "tools", "prompt")
"""Content that the application writes, not its client."""


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

    def edited(self, index: int, text: str) -> "Document":
        """The same prompt with another text in one segment."""
        segments = list(self.segments)
        segments[index] = segments[index]._replace(text=text)
        return replace(self, segments=tuple(segment for segment in segments if segment.text))

    def whole(self) -> Segments:
        """The prompt and, as one more segment, its answer."""
        if not self.answer:
            return self.segments
        return (*self.segments, Segment(self.answer, 0, -1, "assistant"))

    def content(self) -> Iterator[tuple[int, Segment]]:
        """Segments that hold somebody's words, with their index."""
        return ((k, segment) for k, segment in enumerate(self.segments) if segment.role and not segment.marker)


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a prompt leaves the earlier one that it has most in common with."""

    later: int
    """Index of the document ..."""
    earlier: int
    """... and of the one it is compared with."""
    index: int
    """Segment in which they part."""
    char: int
    """Characters of that segment on which they agree."""


def agreement(one: str, other: str) -> int:
    """Characters that two texts share from their start."""
    if one == other:
        return len(one)
    low, high = 0, min(len(one), len(other))
    if one[:64] != other[:64]:
        return len(commonprefix((one[:64], other[:64])))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def parting(one: Segments, other: Segments) -> tuple[int, int] | None:
    """Segment and character where two rendered prompts part; None where one of them goes on where the other ends."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a.text != b.text or a.marker != b.marker:
            return index, 0 if a.marker != b.marker else agreement(a.text, b.text)
    return None


def offset(segments: Sequence[Segment], index: int, char: int) -> int:
    """The position in the rendered text of a character of a segment."""
    return len(text_of(segments[:index])) + char


_WORD = re.compile(r"\w+")


def shingles(text: str, size: int) -> set[int]:
    """Hashes of all runs of `size` words, whatever stands between them; of all words where there are fewer."""
    found = _WORD.findall(text.lower())
    return {crc32(" ".join(found[k : k + size]).encode()) for k in range(max(1, len(found) - size + 1))}


def tools_of(segment: Segment) -> str:
    """The text of a segment; of a list of tools with the keys of each in one order."""
    if segment.role != "tools":
        return segment.text
    return "\n".join(canonical(line) or line for line in segment.text.split("\n"))


def canonical(text: str) -> str | None:
    """A JSON value with its keys sorted; None where the text is no JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return None


def head_of(segments: Iterable[Segment]) -> str:
    """What the application wrote: system prompt and tools, else the first message or raw prompt."""
    texts = [segment for segment in segments if segment.role and not segment.marker]
    lead = [tools_of(segment) for segment in texts if segment.role in HEAD_ROLES]
    return "\n".join(lead) if lead else "".join(segment.text for segment in texts[:1])
