"""What a varying piece of text is, from its characters and from how it changes. Languages are not asked about.

A value is first read by its form (a time, a date, an id, a number, a name); then by its behaviour over the requests: a
date stays for a day, a session id stays for a conversation, a counter only rises, variants of a prompt come back.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

CLOCK = re.compile(
    r"(?<!\d)(?:[01]?\d|2[0-4])[:h][0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?(?!\d|[:/]\d)|T\d{4,6}(?!\d)"
    r"|\b\d{1,2}\s?[ap]\.?m\b|\b\d{1,2}[.:]?\d{0,2}\s?(?:Uhr|hrs|o'clock)\b",
    re.I,
)
EPOCH = re.compile(r"(?<!\d)1[4-9]\d{8}(?:\d{3}){0,3}(?!\d)|(?<!\d)1[4-9]\d{8}\.\d+")
"""Seconds since 1970 between 2014 and 2033, or their thousandths, millionths, billionths."""
FIGURES = re.compile(
    r"(?<!\d)\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)|(?<!\d)\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})(?!\d)"
    r"|(?<!\d)(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])(?!\d)|\d{4}年\d{1,2}月\d{1,2}日"
)
WORDY = re.compile(
    r"\d{1,2}(?:st|nd|rd|th|\.|º)?,?\s+(?:de\s+|of\s+)?[^\W\d_]{3,10}\b|\b[^\W\d_]{3,10}\.?\s+\d{1,2}(?:st|nd|rd|th)?\b"
    r"|\b(?:19|20)\d\d-W?\d\d\b",
    re.I,
)
"""A day with a month in words, in any language; a week."""
YEAR = re.compile(r"(?<![\d.,])(?:19|20)\d\d(?!\d)")
NAMED_DAY = re.compile(r"\W*[^\W\d_]{3,12}(?:-[^\W\d_]+)?\W*")
"""The bare name of a day: one word."""
UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}(?![0-9a-f])", re.I)
ULID = re.compile(r"(?<![0-9A-Z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Z])")
RANDOM = re.compile(
    r"(?=[A-Za-z0-9_+/=-]*\d)(?=[A-Za-z0-9_+/=-]*[A-Za-z])[A-Za-z0-9_+/=-]{4,}|\b\d{5,}\b|\b[0-9a-f]{6,}\b"
)
CODE = re.compile(r"\W*[A-Za-z0-9_-]{4,64}\W*")
NAME = re.compile(r"[^\W\d_]+(?:[-'\u2019.][^\W\d_]+)*\.?")

REQUEST_LABEL = re.compile(
    r"\b(?:request|req|trace|correlation|message|call|transaction|invocation)\b|request|trace", re.I
)
SESSION_LABEL = re.compile(
    r"session|\bsid\b|conversation|conv\b|thread|chat|sess|dialog|sitzung|sess[aã]o|sesi[oó]n", re.I
)
NONCE_LABEL = re.compile(r"nonce|salt|seed|random|cache.?bust|entropy|padding|token|rnd", re.I)
OWNER_LABEL = re.compile(
    r"\b(?:user|customer|client|patient|member|account)\W{0,3}(?:id|no|number|name)?\W{0,3}\Z", re.I
)
PERSON_LABEL = re.compile(r"user|name|customer|client|patient|member|account|agent|talking|speaking|falando|mit ", re.I)

FEW = 8
"""Variants of one prompt are few: more distinct texts than this are data."""

EDITS = 3
"""Texts in one place that a prompt may have had one after the other because somebody worked on it."""

MACHINE_MADE = ("timestamp", "date", "uuid", "session_id", "nonce", "counter")
"""Kinds whose values change by themselves: two of them are enough to expect a third."""

LONG_WORDS = 40
"""Words from which on a varying piece is a document, not a value."""

NAME_WORDS = 4
"""A name has at most so many words; a sentence has more."""


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
    """What stands before them, as far as it is constant."""

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

    def steady(self, keys: Sequence[object]) -> bool:
        """Within a key (a day, a conversation) the value stays nearly always."""
        last: dict[object, str] = {}
        same = other = 0
        for key, text in zip(keys, self.texts, strict=True):
            if key in last:
                same, other = same + (last[key] == text), other + (last[key] != text)
            last[key] = text
        return same >= 9 * other and same > 0

    def rising(self, keys: Sequence[object]) -> bool:
        """Within a key the number in the value rises nearly always, by small steps."""
        last: dict[object, int] = {}
        up = down = 0
        for key, text in zip(keys, self.texts, strict=True):
            number = int("".join(filter(str.isdigit, text))[:15] or 0)
            if key in last:
                step = number - last[key]
                up, down = up + (0 < step <= 1_000), down + (step < 0 or step > 1_000)
            last[key] = number
        return up > 0 and up >= 4 * down


def kind_of(values: Values) -> str:
    """The kind of breaker that these values make; of several lines that vary together, the kind of the one that varies
    most."""
    found = next((kind for kind, holds in RULES if holds(values)), "other")
    lines = list(zip(*(text.strip().split("\n") for text in values.texts), strict=False))
    if found == "other" and len(lines) > 1:
        busiest = max(lines, key=lambda line: len(set(line)))
        return kind_of(replace(values, texts=busiest, wide=busiest))
    return found


def recurs(values: Values) -> bool:
    """Whether the place will vary again: what a program writes will, and so will many texts, or few that come back. A
    prompt that was edited once or twice will not."""
    return values.distinct > EDITS or values.returns or (values.distinct > 1 and kind_of(values) in MACHINE_MADE)


def _most(pattern: "re.Pattern[str]") -> Callable[[Values], bool]:
    return lambda values: values.share(pattern.search) >= 0.8


def _days(values: Values) -> list[int]:
    return [int(at // 86_400) for at in values.times_s]


def _is_id(values: Values) -> bool:
    formed = values.share(lambda text: UUID.search(text) or ULID.search(text) or _scrambled(text)) >= 0.8
    return formed or _coded(values)


def _coded(values: Values) -> bool:
    """Words of one length, most of them with a figure: a code."""
    words = set(values.texts)
    code = all(CODE.fullmatch(word) for word in words) and len({len(word) for word in words}) == 1
    return code and len(words) > 2 and values.share(lambda text: any(map(str.isdigit, text))) >= 0.6


def _scrambled(text: str) -> bool:
    """Letters and digits mixed, or long digits: nobody's word."""
    return len(text.split()) <= 4 and any(_random(word) for word in RANDOM.findall(text))


def _random(word: str) -> bool:
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(word))
    return changes >= 2 or word.isdigit() or re.fullmatch(r"[0-9a-f]{8,}", word) is not None


def _timestamp(values: Values) -> bool:
    """A time of day that changes while a conversation lasts, or stands beside a date."""
    if _most(UUID)(values):
        return False
    clock = values.begin(CLOCK)
    changes = (clock or _most(EPOCH)(values)) and not values.steady(values.talks)
    return changes or (clock and values.share(FIGURES.search) >= 0.5)


def _date(values: Values) -> bool:
    """The form of a date, in figures, or in words with a year behind them; or one in words that stays for a day."""
    spelt = values.begin(WORDY)
    whole = spelt and sum(YEAR.search(wide) is not None for wide in values.wide) >= 0.8 * len(values.wide)
    stays = (spelt or values.share(NAMED_DAY.fullmatch) >= 0.8) and values.steady(_days(values))
    return values.begin(FIGURES) or whole or stays


def _is_counter(values: Values) -> bool:
    bare = values.share(lambda text: re.fullmatch(r"\W*\d{1,9}\W*", text) is not None) >= 0.9
    return bare and (values.rising(values.talks) or values.rising([0] * len(values.texts)))


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


def _number(values: Values) -> bool:
    found = values.share(lambda text: re.fullmatch(r"\W*\d[\d.,]*\W*", text) is not None) >= 0.9
    return found and values.called(NONCE_LABEL)


def _owner(values: Values) -> bool:
    """An id of the person who asks: it stays for a conversation, and the label says whose it is."""
    return bool(OWNER_LABEL.search(values.label)) and values.share(lambda text: len(text.split()) == 1) >= 0.8


def _name(values: Values) -> bool:
    def person(text: str) -> bool:
        found = re.split(r"[,;(]", text.strip(" \t\r\n.,;:!?\"'()[]<>"))[0].split()
        return 0 < len(found) <= NAME_WORDS and all(NAME.fullmatch(word) for word in found) and found[0][:1].isupper()

    handle = values.share(lambda text: "@" in text) >= 0.8
    labelled = (
        bool(PERSON_LABEL.search(values.label)) and values.share(lambda text: len(text.split()) <= NAME_WORDS) >= 0.8
    )
    return handle or values.share(person) >= 0.8 or labelled


def _version(values: Values) -> bool:
    return values.distinct <= FEW and values.returns


def _document(values: Values) -> bool:
    lengths = sorted(len(text.split()) for text in values.texts)
    return lengths[len(lengths) // 2] >= LONG_WORDS


RULES: tuple[tuple[str, Callable[[Values], bool]], ...] = (
    ("docs_before_instructions", lambda values: _document(values) and not _version(values)),
    ("timestamp", _timestamp),
    ("date", _date),
    ("counter", _is_counter),
    ("user_name", _owner),
    ("session_id", _session),
    ("uuid", _request_id),
    ("nonce", _is_id),
    ("nonce", _number),
    ("user_name", _name),
    ("prompt_version", _version),
)
"""In order: the first that holds names the kind."""
