"""Gaps between token events, folded for percentiles, and their stamps, packed for replay: memory is bounded."""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate

from proxy.records import Gaps

EXACT_GAPS = 512
"""Gaps of a choice that are held one by one (4 KiB); above that they are folded, and percentiles are 1.6 % off."""

TOGETHER_NS = 300_000
"""Token events no further apart came at one moment: events of one read share a stamp, and a buffer that is emptied in a
loop writes one in some 0.1 ms. An engine that takes a step for each needs 1 ms for the smallest model."""

_MANTISSA = 5
"""Bits of a gap kept below its leading one: buckets are 1/32 of their value wide, their middle 1.6 % off."""


class Series:
    """Gaps of one choice, by `Gaps`' definitions: exact while few, folded in logarithmic buckets above."""

    # State: time of the last token event, gaps not folded yet, the sums and buckets of those that are, and how many of
    # all lie within the first moment.
    __slots__ = ("buckets", "count", "last", "max", "opening", "recent", "total")

    def __init__(self, at: int) -> None:
        self.last = at
        self.recent = array("q")
        self.buckets: Counter[int] = Counter()
        self.count = self.total = self.max = self.opening = 0

    def fold(self) -> None:
        """Puts the recent gaps into buckets."""
        self._open()
        self.count += len(self.recent)
        self.total += sum(self.recent)
        self.max = max(self.max, *self.recent)
        self.buckets.update(map(_bucket, self.recent))
        self.recent = array("q")

    def gaps(self, choice: int) -> Gaps:
        """Count, sum and maximum are exact; percentiles are by nearest rank."""
        if not self.buckets:
            self._open()
            return _exact(choice, sorted(self.recent), self.opening + 1)
        if self.recent:
            self.fold()
        p50, p99 = (min(self._at_rank(_rank(q, self.count)), self.max) for q in (50, 99))
        moments = 1 + sum(times for bucket, times in self.buckets.items() if bucket > _TOGETHER)
        return Gaps(choice, self.count, self.total, p50, p99, self.max, self.opening + 1, moments)

    def _open(self) -> None:
        """Goes on through the first moment, as long as it lasts."""
        if self.opening == self.count:
            apart = (at for at, gap in enumerate(self.recent) if gap > TOGETHER_NS)
            self.opening += next(apart, len(self.recent))

    def _at_rank(self, rank: int) -> int:
        buckets = sorted(self.buckets)
        reached = list(accumulate(self.buckets[bucket] for bucket in buckets))
        return _middle(buckets[bisect_left(reached, rank)])


def _exact(choice: int, gaps: list[int], lead: int) -> Gaps:
    if not gaps:
        return Gaps(choice, 0, 0, 0, 0, 0, lead, 1)
    p50, p99 = (gaps[_rank(q, len(gaps)) - 1] for q in (50, 99))
    moments = 1 + len(gaps) - bisect_right(gaps, TOGETHER_NS)
    return Gaps(choice, len(gaps), sum(gaps), p50, p99, gaps[-1], lead, moments)


def _rank(percent: int, count: int) -> int:
    """Nearest rank, counted from one: ceil(percent of count)."""
    return -(-percent * count // 100)


def _bucket(ns: int) -> int:
    """Number of a gap's bucket; numbers sort as gaps do."""
    shift = ns.bit_length() - 1 - _MANTISSA
    if shift <= 0:
        return ns
    return (shift << (_MANTISSA + 1)) + (ns >> shift)


_TOGETHER = _bucket(TOGETHER_NS)


def _middle(bucket: int) -> int:
    """The gap that stands for a bucket."""
    shift, head = divmod(bucket, 1 << (_MANTISSA + 1))
    return (head << shift) + ((1 << shift) >> 1)


def pack_stamps(stamps_ns: "array[int] | list[int]", after_us: int = 0) -> bytes:
    """Times in nanoseconds, ascending, as LEB128 varints of microseconds, each since the one before it.

    The first counts since `after_us`; 1 to 2 bytes a stamp on a usual stream.
    """
    packed = bytearray()
    append = packed.append
    for stamp in stamps_ns:
        us = stamp // 1000
        delta = us - after_us
        after_us = us
        while delta > 0x7F:
            append(delta & 0x7F | 0x80)
            delta >>= 7
        append(delta)
    return bytes(packed)


def unpack_stamps(packed: bytes) -> list[int]:
    """Times in nanoseconds since arrival, whole microseconds, from `Timeline.stamps`."""
    stamps: list[int] = []
    us = value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            us += value
            stamps.append(us * 1000)
            value = shift = 0
    return stamps
