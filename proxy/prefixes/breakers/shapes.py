"""What values look like: times, days, ids, numbers, names, and the labels that stand before them.

Patterns read text whose figures are 0 to 9 whatever its script; see `writing`.
"""

import re
from itertools import pairwise

_YEAR, _MONTH, _DAY = r"(?:19|20)\d{2}", r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"

CLOCK = re.compile(
    r"(?<!\d)(?:[01]?\d|2[0-4])[:h\uff1a][0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?(?!\d|[:/]\d)|T\d{4,6}(?!\d)"
    r"|\b\d{1,2}\s?[ap]\.?m\b|\b\d{1,2}[.:]?\d{0,2}\s?(?:Uhr|hrs|o'clock)\b"
    rf"|(?<!\d){_YEAR}{_MONTH}{_DAY}[ T_-]?[0-2]\d[0-5]\d(?:[0-5]\d(?:\d{{3}})?)?(?!\d)"
    r"|(?<!\d)\d{1,2}\s?[\u6642\u65f6\u70b9\u9ede](?:\s?\d{1,2}\s?\u5206)?",
    re.I,
)
EPOCH = re.compile(r"(?<!\d)1[4-9]\d{8}(?:\d{3}){0,3}(?!\d)|(?<!\d)1[4-9]\d{8}\.\d+")
"""Seconds since 1970 between 2014 and 2033, or their thousandths, millionths, billionths."""
TIME = re.compile(f"{CLOCK.pattern}|{EPOCH.pattern}", re.I)
"""A time of day in either way."""
FIGURES = re.compile(
    r"(?<!\d)\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)|(?<!\d)\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})(?!\d)"
    rf"|(?<!\d){_YEAR}{_MONTH}{_DAY}(?!\d)|\d{{1,4}}\u5e74\d{{1,2}}\u6708\d{{1,2}}\u65e5"
)
WORDY = re.compile(
    r"\d{1,2}(?:st|nd|rd|th|\.|\u00ba)?,?[\s-]+(?:de\s+|of\s+)?[^\W\d_]{3,10}\b|\b[^\W\d_]{3,10}\.?\s+\d{1,2}(?:st|nd|rd|th)?\b"
    r"|\b(?:19|20)\d\d-W?\d\d\b",
    re.I,
)
"""A day with a month in words, in any language; a week."""
DAY_AND_YEAR = re.compile(r"\d{1,2}(?:st|nd|rd|th)?,?\s+(?:19|20)\d\d(?!\d)", re.I)
"""A day whose month is not here: it stands before, where it does not change meanwhile ..."""
MONTH_BEFORE = re.compile(r"(?<![^\W\d_])[^\W\d_]{3,10}\.?\s*\Z")
"""... as a word, in any language."""
YEAR = re.compile(r"(?<![\d.,])(?:19|20)\d\d(?!\d)")
NAMED_DAY = re.compile(r"\W*[^\W\d_]{1,12}(?:-[^\W\d_]+)?\W*")
"""The bare name of a day: one word."""
UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}(?![0-9a-f])", re.I)
ULID = re.compile(r"(?<![0-9A-Z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Z])")
RANDOM = re.compile(
    r"(?=[A-Za-z0-9_+/=-]*\d)(?=[A-Za-z0-9_+/=-]*[A-Za-z])[A-Za-z0-9_+/=-]{4,}|\b\d{5,}\b|\b[0-9a-f]{6,}\b"
    r"|[A-Za-z]{12,}"
)
CODE = re.compile(r"[^\w-]*[A-Za-z0-9_-]{4,64}[^\w-]*")
NAME = re.compile(r"[^\W\d_]+(?:[-'\u2019.][^\W\d_]+)*\.?")
MEASURE = re.compile(r"[^\w.]*\d{1,4}\.\d{1,9}(?:\W+\d{1,4}(?:\.\d{1,9})?)*\W*[^\W\d_]{0,4}\W*")
"""A decimal number or several of them, a unit behind: a price, a place on the earth. No more than nine places."""

REQUEST_LABEL = re.compile(
    r"(?<![a-z])(?:req|message|call|transaction|invocation|correlation|corr|rid|uuid|guid)(?![a-z])|request|trace|anfrage|vorgang"
    r"|requisi\w|solicit|protocolo|petici|requ\u00eate|\u8bf7\u6c42|\u8acb\u6c42|\u8ffd\u8e2a|\u8ffd\u8e64"
    r"|\u30ea\u30af\u30a8\u30b9\u30c8|\u0637\u0644\u0628|\u0437\u0430\u043f\u0440\u043e\u0441",
    re.I,
)
SESSION_LABEL = re.compile(
    r"session|\bsid\b|conversation|conv\b|thread|chat(?!cmpl)|sess|dialog|sitzung|sess[a\u00e3]o|sesi[o\u00f3]n"
    r"|\u4f1a\u8bdd|\u6703\u8a71|\u30bb\u30c3\u30b7\u30e7\u30f3|\u062c\u0644\u0633\u0629|\u0441\u0435\u0441\u0441\u0438",
    re.I,
)
NONCE_LABEL = re.compile(
    r"nonce|(?<![^\W\d_])(?:salt|seed)(?![^\W\d_])|random|cache.?bust|entropy|padding|\btoken\b|rnd|zufall|f\u00fcll|semente|semilla|graine|aleat"
    r"|al\u00e9at|\u968f\u673a|\u96a8\u6a5f|\u79cd\u5b50|\u7a2e\u5b50|\u30e9\u30f3\u30c0\u30e0|\u30b7\u30fc\u30c9"
    r"|\u0639\u0634\u0648\u0627\u0626|\u0441\u043b\u0443\u0447\u0430\u0439",
    re.I,
)
"""These labels in English, German, Portuguese, Spanish, French; in Chinese, Japanese, Arabic and Russian."""
NOBODYS_WORD = re.compile(r"\W*[a-z]{2,}(?:[-_][a-z]{2,}){2,}\W*|[^\w\s]{3,}")
"""Words in a chain (`amber-otter-mango`), or signs alone."""
OWNER_LABEL = re.compile(
    r"\b(?:user|customer|client|patient|member|account)\W{0,3}(?:id|no|number|name)?\W{0,3}\Z"
    r"|\b(?:talking|speaking|falando|sprechen|parlez|hablando|(?:logged|signed) in)\s[^\W\d_]{2,4}\W{0,3}\Z",
    re.I,
)
PERSON_LABEL = re.compile(
    r"user|name|customer|client|patient|member|talking|speaking|falando|mit |kunde|hablando|parlez"
    r"|\u5ba2|\u7528\u6237|\u7528\u6236|\u987e|\u59d3\u540d|\u540d\u524d|\u6c0f\u540d|\u5bf9\u8bdd"
    r"|\u0639\u0645\u064a\u0644|\u0645\u0633\u062a\u062e\u062f\u0645|\u062a\u062a\u062d\u062f\u062b|\u0627\u0633\u0645"
    r"|\u043a\u043b\u0438\u0435\u043d\u0442|\u043f\u043e\u043b\u044c\u0437\u043e\u0432\u0430\u0442|\u0438\u043c\u044f",
    re.I,
)
"""Customer, user, name, `you are talking to`: in English, Portuguese, German, Spanish, French; in Chinese and Japanese;
in Arabic; in Russian."""
_THINGS = (
    r"(?:(?:place|city|town|region|country|location|site|store|branch|plan|tier|product|page|topic|language|tone|weather"
    r"|cidade|ciudad|ville|pa[\u00eds]s|ort|stadt|land|produkt|sprache|thema|wetter|filiale|produit|langue|sujet|magasin"
    r"|produto|producto|idioma|tema|clima|loja|tienda)\b"
    r"|[\u6240\u573a\u5834\u5730][\u5728\u6240\u5730\u70b9\u9ede\u533a\u5340]|\u57ce\u5e02|\u90fd\u5e02|\u56fd\u5bb6|\u570b\u5bb6|\u5957\u9910"
    r"|\u4ea7\u54c1|\u7522\u54c1|\u5546\u54c1|\u8bed\u8a00|\u8a9e\u8a00|\u8a00\u8a9e|\u4e3b\u9898|\u4e3b\u984c|\u5929\u6c14|\u5929\u6c23)"
)
THING_LABEL = re.compile(_THINGS + r"[^.\n]{0,24}\Z", re.I)
"""What stands behind it has a name, too, but is nobody."""
THING_BEHIND = re.compile(r"\W{0,3}" + _THINGS, re.I)
"""So does what stands before it."""
MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@")


MIXED = 0.4
"""Changes of case per letter from which on letters are mixed by chance: half in base 64, a third in `CamelCase`."""

PARTICLE = re.compile("af|al|bin|da|das|de|del|den|der|di|do|dos|e|el|ibn|la|le|ten|van|von|y|zu")
"""Words inside names that have no capital letter."""

LONGEST_ID = 256
"""Characters of an id, at most."""

LONGEST_MEASURE = 64
"""Characters of a measure, at most."""

SHORT = 8
"""Letters of a name in a script without cases, at most: others are phrases."""


def is_scrambled(text: str) -> bool:
    """Letters and digits mixed, or long digits: nobody's word."""
    return len(text) <= LONGEST_ID and len(text.split()) <= 4 and any(_is_random(word) for word in RANDOM.findall(text))


def is_measure(text: str) -> bool:
    """A decimal number or several, with a unit."""
    return len(text) <= LONGEST_MEASURE and MEASURE.fullmatch(text) is not None


def _is_random(word: str) -> bool:
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(word))
    cases = sum(a.isupper() != b.isupper() for a, b in pairwise(word) if a.isalpha() and b.isalpha())
    return (
        changes >= 2 or cases >= MIXED * len(word) or word.isdigit() or re.fullmatch(r"[0-9a-f]{8,}", word) is not None
    )


def is_person(text: str, most: int) -> bool:
    """One to `most` words that a name may have, the first no lower-case one; of scripts without cases, short ones."""
    found = re.split(r"[,;(]", text.strip(" \t\r\n.,;:!?\"'()[]<>\uff1a\uff0c"))[0].split()
    if not 0 < len(found) <= most or not all(map(NAME.fullmatch, found)):
        return False
    if found[0] == found[0].swapcase():
        return len(found[0]) <= SHORT
    return all(word[0].isupper() or (place and PARTICLE.fullmatch(word)) for place, word in enumerate(found))
