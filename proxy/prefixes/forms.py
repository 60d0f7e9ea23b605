"""The same text in two forms: line ends, blanks, a byte order mark, Unicode composition, how a number is written.

A form is a function that gives both the same text. Where two prompts part and a form makes them agree for a good while
longer, that form is what parts them.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from unicodedata import normalize

from proxy.prefixes.documents import Document, agreement

FURTHER = 48
"""Characters on which two texts must go on to agree once they have one form: more than a chance agreement."""

STANDARD = ("bom", "unicode_norm", "trailing_space", "whitespace")
"""Kinds whose form is a fit text itself, for texts that differ in more than their form."""

_BOM = re.compile("[\ufeff\u200b\u2060]")
_TRAILING = re.compile(r"[^\S\r\n]+(?=\r?\n|\Z)")
_BLANKS = (
    (re.compile(r"\r\n?"), "\n"),
    (re.compile(r"[^\S\n]+"), " "),
    (re.compile(r" ?\n[ \n]*"), "\n"),
)
_GROUPED = re.compile(r"\d[\d.,'\u2019\u00a0\u202f ]*\d")
_SEPARATORS = re.compile(r"[.,'\u2019\u00a0\u202f ]")
_QUOTES = {ord(a): b for a, b in zip("\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00a0", "''\"\"--. ", strict=True)}


def _number(match: "re.Match[str]") -> str:
    text = match.group()
    cents = re.search(r"[.,](\d{1,2})$", text)
    whole = _SEPARATORS.sub("", text[: cents.start()] if cents else text)
    return f"{whole}.{cents.group(1)}" if cents else whole


def _blanks(text: str) -> str:
    for pattern, one in _BLANKS:
        text = pattern.sub(one, text)
    return text


FORMS: dict[str, Callable[[str], str]] = {
    "bom": lambda text: _BOM.sub("", text),
    "unicode_norm": lambda text: normalize("NFC", text),
    "trailing_space": lambda text: _TRAILING.sub("", text),
    "whitespace": _blanks,
    "locale_number": lambda text: _GROUPED.sub(_number, text),
    "other": lambda text: normalize("NFKC", text.translate(_QUOTES)).casefold(),
}
"""By kind, the smallest change first. `other`: typographic signs and letter case."""


def form_of(one: str, other: str) -> str | None:
    """The form in which two different texts are the same; None: they say different things."""
    return next((kind for kind, form in FORMS.items() if form(one) == form(other)), None)


def form_between(one: str, other: str, char: int) -> str | None:
    """The form that lets two texts, which part at `char`, agree for a good while longer, or to their end."""
    at = max(0, char - FURTHER)
    mine, theirs = (text[at : at + 8 * FURTHER] for text in (one, other))
    for kind, form in FORMS.items():
        a, b = form(mine), form(theirs)
        if a == b or agreement(a, b) >= char - at + FURTHER:
            return kind
    return None


@dataclass(slots=True)
class Unifier:
    """Gives texts that differ in their form alone the form that most of them have."""

    # State: texts, whole and by line, as most members have them, by their form.

    kind: str
    role: str
    _usual: dict[str, str] = field(default_factory=dict)

    def learn(self, documents: Sequence[Document]) -> None:
        """See how often each form stands in the family."""
        form, counts = FORMS[self.kind], Counter[str]()
        for document in documents:
            for _, segment in document.content():
                if segment.role == self.role:
                    counts.update((segment.text, *segment.text.splitlines(keepends=True)))
        for text, _ in counts.most_common():
            self._usual.setdefault(form(text), text)

    def unify(self, document: Document) -> Document:
        """The prompt in one form."""
        for index, segment in list(document.content())[::-1]:
            if segment.role == self.role:
                document = document.edited(index, self._text(segment.text))
        return document

    def _text(self, text: str) -> str:
        form = FORMS[self.kind]
        if (usual := self._usual.get(form(text))) is not None:
            return usual
        if self.kind in STANDARD:
            return form(text)
        return "".join(self._usual.get(form(line), line) for line in text.splitlines(keepends=True))
