"""What a varying piece of text is, from its characters and from how it changes. Languages are not asked about.

A value is first read by its form (a time, a date, an id, a number, a name); then by its behaviour over the requests: a
figure goes with the minute or with the day, a date stays for a day, a session id stays for a conversation, a counter
goes one way, variants of a prompt come back.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from proxy.prefixes.breakers.fields import fields, shared_ends
from proxy.prefixes.breakers.numerals import (
    changes_daily,
    columns,
    counts_turns,
    new_each_day,
    one_number,
    one_way,
    tells_day,
    tells_time,
    tells_turn,
)
from proxy.prefixes.breakers.shapes import (
    CLOCK,
    CODE,
    DAY_AND_YEAR,
    FIGURES,
    MAIL,
    MONTH_BEFORE,
    NAMED_DAY,
    NOBODYS_WORD,
    NONCE_LABEL,
    OWNER_LABEL,
    PERSON_LABEL,
    REQUEST_LABEL,
    SESSION_LABEL,
    THING_BEHIND,
    THING_LABEL,
    TIME,
    ULID,
    UUID,
    WORDY,
    YEAR,
    is_measure,
    is_person,
    is_scrambled,
)
from proxy.prefixes.breakers.writing import WORD, figures, size

FEW = 8
"""Variants of one prompt are few: more distinct texts than this are data."""

EDITS = 3
"""Texts in one place that a prompt may have had one after the other because somebody worked on it."""

MACHINE_MADE = ("timestamp", "date", "uuid", "session_id", "nonce", "counter")
"""Kinds whose values change by themselves: two of them are enough to expect a third."""

TEXTS = ("docs_before_instructions", "prompt_version")
"""Kinds of texts, which may have many lines."""

LONG_WORDS = 40
"""Words from which on a varying piece is a document, not a value."""

NAME_WORDS = 4
"""A name has at most so many words; a sentence has more ..."""
NAME_SIZE = 48
"""... and says more than this, where words are not set apart."""

BULLETS = " \t-*+\u2022.,;"
"""What lines of a list begin and end with."""


@dataclass(frozen=True, slots=True)
class Values:
    """All values seen in one place, in order of arrival."""

    texts: tuple[str, ...]
    wide: tuple[str, ...]
    """With the constant words behind them: `12` in `12 March 2026`."""
    times_s: tuple[float, ...]
    talks: tuple[int, ...]
    """Which conversation each request belongs to."""
    label: str
    """What stands before them in their sentence or line, as far as it is constant."""

    @property
    def distinct(self) -> int:
        """Different values."""
        return len(set(self.texts))

    @property
    def switches(self) -> int:
        """How often a value differs from the one before."""
        return sum(a != b for a, b in pairwise(self.texts))

    @property
    def returns(self) -> bool:
        """A value comes back after another one stood in its place."""
        return self.switches > self.distinct - 1

    def share(self, test: Callable[[str], object]) -> float:
        """The share of different values that pass a test."""
        found = set(self.texts)
        return sum(1 for text in found if test(text)) / len(found)

    def called(self, label: "re.Pattern[str]") -> bool:
        """The label stands before the values, or in most of them."""
        return label.search(self.label) is not None or self.share(label.search) >= 0.8

    def begin(self, pattern: "re.Pattern[str]") -> bool:
        """Most values have this form, or begin one that ends in the constant words behind them."""
        seen = set(zip(self.texts, self.wide, strict=True))
        found = ((pattern.search(wide), len(text)) for text, wide in seen)
        return sum(match is not None and match.start() < max(1, size) for match, size in found) >= 0.8 * len(seen)

    def share_behind(self, pattern: "re.Pattern[str]") -> float:
        """The share of different values that are followed by this."""
        seen = set(zip(self.texts, self.wide, strict=True))
        return sum(1 for text, wide in seen if pattern.match(wide[len(text) :])) / len(seen)

    def steady(self, keys: Sequence[object]) -> bool:
        """Within a key (a day, a conversation) the value stays nearly always."""
        last: dict[object, str] = {}
        same = other = 0
        for key, text in zip(keys, self.texts, strict=True):
            if key in last:
                same, other = same + (last[key] == text), other + (last[key] != text)
            last[key] = text
        return same >= 9 * other and same > 0


def kind_of(values: Values) -> str:
    """The kind of breaker that these values make; of several lines or fields that vary together, the kind of the one
    that varies most, of equals the last: mending those before it alone gains nothing."""
    return _kind(replace(values, texts=tuple(map(figures, values.texts)), wide=tuple(map(figures, values.wide))))


def _kind(values: Values) -> str:
    found = next((kind for kind, holds in RULES if holds(values)), "other")
    parts = fields(values.texts)
    several = sum(len(set(part)) > 1 for part in parts) > 1
    if (several and found not in TEXTS) or (found == "other" and len(parts) > 1):
        busiest = max(reversed(parts), key=lambda part: len(set(part)))
        label = values.label if busiest == parts[0] else busiest[0][: shared_ends(busiest)[0]]
        found = _kind(replace(values, texts=busiest, wide=busiest, label=label))
    return found


def recurs(values: Values) -> bool:
    """Whether the place will vary again: what a program writes will, and so will many texts, or few that come back. A
    prompt that was edited once or twice will not, unless each day brings its own."""
    if values.distinct > EDITS or values.returns:
        return True
    daily = values.distinct >= EDITS and new_each_day(values.texts, values.times_s)
    return daily or (values.distinct > 1 and kind_of(values) in MACHINE_MADE)


def _most(pattern: "re.Pattern[str]") -> Callable[[Values], bool]:
    return lambda values: values.share(pattern.search) >= 0.8


def _is_id(values: Values) -> bool:
    if values.share(is_measure) >= 0.8:
        return False
    formed = values.share(lambda text: UUID.search(text) or ULID.search(text) or is_scrambled(text)) >= 0.8
    return formed or _coded(values)


def _coded(values: Values) -> bool:
    """Words of one length, most of them with a figure, or many and none of them short: a code."""
    words = set(values.texts)
    lengths = {len(word) for word in words}
    if len(lengths) > 1 or len(words) < 3 or not all(CODE.fullmatch(word) for word in words):
        return False
    return (len(words) >= FEW and max(lengths) >= FEW) or values.share(lambda text: any(map(str.isdigit, text))) >= 0.6


def _timestamp(values: Values) -> bool:
    """A time of day that changes while a conversation lasts, or stands beside a date; or what goes with the clock."""
    if _most(UUID)(values):
        return False
    clock = values.begin(CLOCK)
    changes = values.begin(TIME) and not values.steady(values.talks)
    return changes or (clock and values.share(FIGURES.search) >= 0.5) or _goes_with_the_clock(values)


def _goes_with_the_clock(values: Values) -> bool:
    """One of its numbers is the minute or the hour; or the words, few of them, belong to hours of the day."""
    if any(tells_time(numbers, values.times_s) for numbers in columns(values.texts)):
        return True
    once = _once_a_talk(values)
    hours = [int(at // 3600) % 24 for at in once.times_s]
    return 1 < once.distinct <= FEW and once.returns and len(set(hours)) >= FEW and once.steady(hours)


def _once_a_talk(values: Values) -> Values:
    """Each text of a conversation where it first stood: what stays for a conversation stays for its hour, too."""
    first: dict[tuple[int, str], int] = {}
    for place, said in enumerate(zip(values.talks, values.texts, strict=True)):
        first.setdefault(said, place)
    places = list(first.values())
    texts = tuple(values.texts[place] for place in places)
    times = tuple(values.times_s[place] for place in places)
    return replace(values, texts=texts, wide=texts, times_s=times, talks=tuple(values.talks[place] for place in places))


def _date(values: Values) -> bool:
    """The form of a date, in figures, or in words with a year behind them; or one in words that stays for a day; or a
    number that goes with the day."""
    if values.begin(FIGURES):
        return True
    if any(tells_day(numbers, values.times_s) for numbers in columns(values.texts)):
        return True
    if values.begin(DAY_AND_YEAR) and MONTH_BEFORE.search(values.label):
        return True
    years = sum(YEAR.search(wide) is not None for wide in values.wide)
    if values.begin(WORDY) and years >= 0.8 * len(values.wide):
        return True
    if values.share(NAMED_DAY.fullmatch) >= 0.8:
        once = _once_a_talk(values)
        return changes_daily(once.texts, once.times_s)
    return values.begin(WORDY) and not values.share(is_measure) and changes_daily(values.texts, values.times_s)


def _is_counter(values: Values) -> bool:
    numbers = None if _most(UUID)(values) else one_number(values.texts)
    if numbers is None:
        return tells_turn(values.texts, values.talks)
    return one_way(numbers, values.talks) or one_way(numbers, [0] * len(values.texts)) or counts_turns(numbers)


def _session(values: Values) -> bool:
    if not _is_id(values):
        return False
    if values.called(SESSION_LABEL):
        return True
    return values.steady(values.talks) and not values.called(NONCE_LABEL)


def _request_id(values: Values) -> bool:
    if not _is_id(values) or values.called(NONCE_LABEL):
        return False
    formed = values.share(lambda text: UUID.search(text) or ULID.search(text)) >= 0.8
    return formed or values.called(REQUEST_LABEL)


def _nonce(values: Values) -> bool:
    """One word each that the label calls random, or nobody's and never the same; or a number between 0 and 1 with all
    its places."""
    drawn = values.share(lambda text: re.fullmatch(r"\W*0?\.\d{10,}\W*", text)) >= 0.8
    word = values.called(NONCE_LABEL) and values.share(lambda text: len(text.split()) == 1) >= 0.9
    new = values.distinct >= max(FEW, 0.9 * len(values.texts))
    return drawn or word or (new and values.share(NOBODYS_WORD.fullmatch) >= 0.8)


def _owner(values: Values) -> bool:
    """An id of the person who asks: it stays for a conversation, and the label says whose it is."""
    return bool(OWNER_LABEL.search(values.label)) and values.share(lambda text: len(text.split()) == 1) >= 0.8


def _name(values: Values) -> bool:
    if values.share(lambda text: "@" in text) >= 0.8 or values.begin(MAIL):
        return True
    if THING_LABEL.search(values.label) or values.share_behind(THING_BEHIND) >= 0.8:
        return False
    short = values.share(lambda text: len(text.split()) <= NAME_WORDS and size(text) <= NAME_SIZE) >= 0.8
    labelled = short and PERSON_LABEL.search(values.label)
    return bool(labelled) or values.share(lambda text: is_person(text, NAME_WORDS)) >= 0.8


def _version(values: Values) -> bool:
    """Few variants that come back; or few lines, each there or not."""
    if values.distinct <= FEW and values.returns:
        return True
    found = [{line.strip(BULLETS) for line in text.split("\n")} - {""} for text in set(values.texts)]
    counts = Counter(line for lines in found for line in lines)
    pool = {line for line, count in counts.items() if count > 1 and len(WORD.findall(line)) < LONG_WORDS}
    return 1 < len(pool) <= FEW and sum(lines <= pool for lines in found) >= 0.8 * len(found)


def _long(values: Values) -> bool:
    """Texts, not values: what mixes letters and figures is no word, but an id or a part of one."""
    found: list[list[str]] = [WORD.findall(text) for text in values.texts]
    return median(sum(word.isalpha() or word.isdigit() for word in words) for words in found) >= LONG_WORDS


RULES: tuple[tuple[str, Callable[[Values], bool]], ...] = (
    ("docs_before_instructions", lambda values: _long(values) and not _version(values)),
    ("prompt_version", _long),
    ("timestamp", _timestamp),
    ("date", _date),
    ("counter", _is_counter),
    ("user_name", _owner),
    ("session_id", _session),
    ("uuid", _request_id),
    ("nonce", _is_id),
    ("nonce", _nonce),
    ("user_name", _name),
    ("prompt_version", _version),
)
"""In order: the first that holds names the kind."""
