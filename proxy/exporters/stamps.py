"""Gaps between token events, read back from a timeline."""

from proxy.records import Gaps, Timeline

MICROSECOND_NS = 1000


def decode(stamps: bytes) -> list[int]:
    """LEB128 varints as numbers: microseconds, the first since arrival, the others since the one before."""
    numbers = []
    number = shift = 0
    for byte in stamps:
        number |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            numbers.append(number)
            number = shift = 0
    return numbers


def token_gaps(timeline: Timeline) -> list[tuple[int, int]]:
    """Every gap between token events of one choice, as (nanoseconds, how often).

    Exact, to the microsecond, where one choice answered and all its stamps were kept; else as the folded gaps say: half
    at the median, one at the maximum, the rest at what keeps the sum.
    """
    deltas = decode(timeline.stamps) if len(timeline.gaps) == 1 else []
    if deltas and len(deltas) == timeline.gaps[0].count + 1:
        return [(delta * MICROSECOND_NS, 1) for delta in deltas[1:]]
    return [pair for gaps in timeline.gaps if gaps.count for pair in _unfold(gaps)]


def _unfold(gaps: Gaps) -> list[tuple[int, int]]:
    half = gaps.count // 2
    rest = gaps.count - half - 1
    pairs = [(gaps.p50_ns, half), (gaps.max_ns, 1)]
    if rest:
        left = (gaps.total_ns - gaps.p50_ns * half - gaps.max_ns) // rest
        pairs.append((min(max(left, 0), gaps.max_ns), rest))
    return pairs
