"""Numbers in values, and what they go with: the minute, the hour, the day, or one way only.

No language is needed to read a clock: whatever stands around it, one of its numbers is the minute of the request.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

NEARLY = 0.9
"""The part of the requests that must keep to a rule."""

SMALL = 1_000
"""Steps of a counter are no larger: others asked meanwhile, but not by the million."""

MINUTES, HOURS = 5, 4
"""Different numbers that must be seen before they are taken for minutes, for hours: fewer agree by chance."""

TURNS = 4
"""Different numbers from 1 on that are turns, not two or three variants."""

ZONES = range(-12, 15)
"""Hours by which somebody's day may differ from the one of Greenwich."""

_NUMBER = re.compile(r"(\d+)")
_LONGEST = 15
"""Figures of a number that are read."""

Numbers = list[tuple[int, int]]
"""Numbers in one place of the values, each with the index of its value."""


def columns(texts: Sequence[str]) -> list[Numbers]:
    """Numbers that vary, place by place, of the values that have as many as most others."""
    found = [_NUMBER.split(text)[1::2] for text in texts]
    count = Counter(map(len, found)).most_common(1)[0][0]
    rows = [(index, row) for index, row in enumerate(found) if len(row) == count]
    places: list[Numbers] = [[(index, int(row[place][:_LONGEST])) for index, row in rows] for place in range(count)]
    enough = len(rows) >= NEARLY * len(texts)
    return [place for place in places if enough and len({number for _, number in place}) > 1]


def one_number(texts: Sequence[str]) -> Numbers | None:
    """The number that varies, where the values are the same but for it."""
    usual = Counter("".join(_NUMBER.split(text)[::2]) for text in texts).most_common(1)[0][1]
    found = columns(texts)
    return found[0] if len(found) == 1 and usual >= NEARLY * len(texts) else None


def one_way(numbers: Numbers, keys: Sequence[object]) -> bool:
    """Within a key (a conversation) the number rises nearly always, by small steps; or it falls so."""
    last: dict[object, int] = {}
    up = down = other = 0
    for index, number in numbers:
        step = number - last.get(keys[index], number)
        up, down = up + (0 < step <= SMALL), down + (-SMALL <= step < 0)
        other += abs(step) > SMALL
        last[keys[index]] = number
    return (up > 0 and up >= 4 * (down + other)) or (down > 1 and down >= 4 * (up + other))


def counts_turns(numbers: Numbers) -> bool:
    """Small numbers from 1 on (or 0) without a gap, the smaller ones no less often, nearly: turns of conversations."""
    counts = Counter(number for _, number in numbers)
    first, last = min(counts), max(counts)
    if first > 1 or last - first + 1 != len(counts) or len(counts) < TURNS:
        return False
    early = sum(count for number, count in counts.items() if 2 * number <= first + last)
    return 2 * early > len(numbers)


def tells_turn(texts: Sequence[str], talks: Sequence[int]) -> bool:
    """The value goes with the turn of its conversation, and each turn has its own: `first`, `second`, or a, b."""
    said, turns = Counter[int](), []
    for talk in talks:
        turns.append(said[talk])
        said[talk] += 1
    pairs = Counter(zip(turns, texts, strict=True))
    usual = {turn: text for (turn, text), _ in reversed(pairs.most_common())}
    kept = sum(count for (turn, text), count in pairs.items() if usual[turn] == text)
    apart = len(set(usual.values())) == len(usual) == len(set(texts))
    return len(usual) >= TURNS and apart and len(said) >= TURNS and kept >= NEARLY * len(texts)


def tells_time(numbers: Numbers, times_s: Sequence[float]) -> bool:
    """The number is the minute of the request, or the hour, on some clock: it goes with time, and it comes round."""
    minutes = [(number - int(times_s[index] // 60)) % 60 for index, number in numbers]
    hours = [(number - int(times_s[index] // 3600)) % 12 for index, number in numbers]
    seen = {number for _, number in numbers}
    exact, near = Counter(hours), Counter(minutes)
    minute = max(near[one] + near[(one + 1) % 60] for one in near)
    round_ = any(later < earlier for (_, earlier), (_, later) in pairwise(numbers))
    return (
        round_
        and max(seen) < 60
        and (
            (len(seen) >= MINUTES and minute >= NEARLY * len(numbers))
            or (len(seen) >= HOURS and max(seen) <= 24 and max(exact.values()) >= NEARLY * len(numbers))
        )
    )


def tells_day(numbers: Numbers, times_s: Sequence[float]) -> bool:
    """The number goes with the day, whatever day it was the first time, in some time zone: of two days alone, any two
    numbers do in some zone, so there it is the one of Greenwich."""
    for zone, days in zip(ZONES, _days([times_s[index] for index, _ in numbers]), strict=True):
        offsets = Counter(number - day for (_, number), day in zip(numbers, days, strict=True))
        if len(set(days)) > (2 if zone else 1) and max(offsets.values()) >= NEARLY * len(numbers):
            return True
    return False


def changes_daily(texts: Sequence[str], times_s: Sequence[float]) -> bool:
    """A value stays for a day in some time zone, nearly always."""
    for days in _days(times_s):
        pairs = [one == other for (one, a), (other, b) in pairwise(zip(texts, days, strict=True)) if a == b]
        if pairs and sum(pairs) >= NEARLY * len(pairs):
            return True
    return False


def new_each_day(texts: Sequence[str], times_s: Sequence[float]) -> bool:
    """Every day in some time zone has one value, and no other day has the same."""
    return any(len(set(texts)) == len(set(days)) == len(set(zip(texts, days, strict=True))) for days in _days(times_s))


def _days(times_s: Sequence[float]) -> Iterator[list[int]]:
    for zone in ZONES:
        yield [int((at + 3600 * zone) // 86_400) for at in times_s]
