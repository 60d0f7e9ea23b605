"""Gaps between token events, read back from a timeline."""

from itertools import pairwise

from proxy.gaps import unpack_stamps
from proxy.records import Gaps, Timeline


def engine_gaps(timeline: Timeline) -> tuple[Gaps, ...]:
    """Gaps of each choice; none where a client read slowly: its pace is in them, and the engine's is not known."""
    return () if timeline.blocked_ns else timeline.gaps


def token_gaps(timeline: Timeline) -> list[tuple[int, int]]:
    """Every gap between token events of one choice, as (nanoseconds, how often).

    Exact, to the microsecond, where one choice answered and all its stamps were kept; else as the folded gaps say: half
    at the median, one at the maximum, the rest at what keeps the sum.
    """
    stamps = unpack_stamps(timeline.stamps) if len(timeline.gaps) == 1 else []
    if stamps and len(stamps) == timeline.gaps[0].number + 1:
        return [(later - earlier, 1) for earlier, later in pairwise(stamps)]
    return [pair for gaps in timeline.gaps if gaps.number for pair in _unfold(gaps)]


def _unfold(gaps: Gaps) -> list[tuple[int, int]]:
    half = gaps.number // 2
    rest = gaps.number - half - 1
    pairs = [(gaps.p50_ns, half), (gaps.max_ns, 1)]
    if rest:
        left = (gaps.total_ns - gaps.p50_ns * half - gaps.max_ns) // rest
        pairs.append((min(max(left, 0), gaps.max_ns), rest))
    return pairs
