"""The same text in two forms: line ends, blanks, a byte order mark, Unicode composition, how a number is written.

A form is a function that gives both the same text. Where two prompts part and a form makes them agree for a good while
longer, that form is what parts them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import normalize

from proxy.prefixes.breakers.documents import Document, Parting, Repair, agreement

FURTHER = 48
"""Characters on which two texts must go on to agree once they have one form: more than a chance agreement."""

WINDOW = 8 * FURTHER
"""Characters that are compared: one form can change several of them in a row."""

_BOM = re.compile("[\ufeff\u200b\u2060]")
_TRAILING = re.compile(r"(?<![^\S\r\n])[^\S\r\n]+(?=\r?\n|\Z)")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_LINE_END = re.compile(r"\r\n?")
_BLANKS = (
    (_LINE_END, "\n"),
    (re.compile(r"[^\S\n]+"), " "),
    (re.compile(r" ?\n[ \n]*"), "\n"),
)
_GROUPED = re.compile(r"\d[\d.,'\u2019\u00a0\u202f ]*\d")
_SEPARATORS = re.compile(r"[.,'\u2019\u00a0\u202f ]")
_CENTS = re.compile(r"[.,](\d{1,2})\Z")
_SIGNS = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u00a0", "''\"\"-- ")


def _number(match: "re.Match[str]") -> str:
    """A number without the signs that group its digits, a point before its cents."""
    text = match.group()
    cents = _CENTS.search(text)
    if cents is None:
        return _SEPARATORS.sub("", text)
    return f"{_SEPARATORS.sub('', text[: cents.start()])}.{cents.group(1)}"


def _unescaped(text: str) -> str:
    """A text with the letters that JSON has as escapes."""
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)


def _blanks(text: str) -> str:
    for pattern, one in _BLANKS:
        text = pattern.sub(one, text)
    return text.strip()


class Form(NamedTuple):
    """One way in which two texts may differ and be the same."""

    kind: str
    change: Callable[[str], str]
    """Gives both the same text."""
    fit: bool = True
    """What it gives may be sent; else a text takes the form of another one, or stays as it is."""


FORMS: tuple[Form, ...] = (
    Form("bom", lambda text: _BOM.sub("", text)),
    Form("unicode_norm", lambda text: normalize("NFC", text)),
    Form("unicode_norm", _unescaped, fit=False),
    Form("trailing_space", lambda text: _TRAILING.sub("", text)),
    Form("trailing_space", lambda text: _TRAILING.sub("", text).rstrip()),
    Form("whitespace", lambda text: _LINE_END.sub("\n", text)),
    Form("whitespace", _blanks),
    Form("locale_number", lambda text: _GROUPED.sub(_number, text), fit=False),
    Form("whitespace", lambda text: "".join(text.split()), fit=False),
    Form("other", lambda text: normalize("NFKC", text.translate(_SIGNS)).casefold(), fit=False),
)
"""The smallest change first: a repair leaves alone what has the usual form. JSON has letters as escapes, or not, and
blanks behind its signs, or none; `other`: letter case and typographic signs."""


def form_of(one: str, other: str) -> str | None:
    """The kind of form in which two different texts are the same; None: they say different things."""
    return next((form.kind for form in FORMS if form.change(one) == form.change(other)), None)


def form_between(one: str, other: str, char: int) -> Form | None:
    """The form that lets two texts, which part at `char`, agree for a good while longer, or to their end."""
    at = max(0, char - FURTHER)
    mine, theirs = one[at : at + WINDOW], other[at : at + WINDOW]
    for form in FORMS:
        a, b = form.change(mine), form.change(theirs)
        if a == b or agreement(a, b) >= char - at + FURTHER:
            return form
    return None


def form_at_ends(one: str, other: str) -> Form | None:
    """The form in which two texts end alike for a good while, and do not as they are; a mark that only one begins with
    is a form by itself."""
    if (_BOM.match(one) is None) != (_BOM.match(other) is None):
        return FORMS[0]
    mine, theirs = one[-WINDOW:], other[-WINDOW:]
    if agreement(mine[::-1], theirs[::-1]) >= WINDOW // 2:
        return None
    turned = ((form, form.change(mine)[::-1], form.change(theirs)[::-1]) for form in FORMS)
    return next((form for form, a, b in turned if agreement(a, b) >= WINDOW // 2), None)


def another_form(parting: Parting) -> tuple[str, Repair] | None:
    """The same text in another form, where they part or at their ends: a value may stand before what has two forms."""
    mine, other = parting.mine.text, parting.other.text
    form = form_between(mine, other, parting.char) or form_at_ends(mine, other)
    return None if form is None else (form.kind, OneForm(form, parting.mine.role))


@dataclass(frozen=True, slots=True)
class OneForm:
    """Gives texts that differ in their form alone the one that costs least: the shortest, of equals the most common."""

    form: Form
    role: str
    fix = "normalise"

    def carries(self, document: Document) -> bool:
        """Whatever has text of the role."""
        return document.has(self.role)

    def mend(self, documents: Sequence[Document]) -> list[Document]:
        """All prompts in one form."""
        usual = self._usual(documents)
        return [self._unified(document, usual) for document in documents]

    def _usual(self, documents: Sequence[Document]) -> dict[str, str]:
        """Of texts, whole and by line, that stand in several forms, the one to take, by their form."""
        counts: Counter[str] = Counter()
        for document in documents:
            for _, segment in document.content(self.role):
                counts.update({segment.text, *segment.text.splitlines(keepends=True)})
        variants: dict[str, list[str]] = defaultdict(list)
        for text, _ in counts.most_common():
            variants[self.form.change(text)].append(text)
        return {form: min(found, key=len) for form, found in variants.items() if len(found) > 1}

    def _unified(self, document: Document, usual: dict[str, str]) -> Document:
        for index, segment in document.content(self.role):
            document = document.edited(index, self._text(segment.text, usual))
        return document

    def _text(self, text: str, usual: dict[str, str]) -> str:
        if (found := usual.get(self.form.change(text))) is not None:
            return found
        if self.form.fit:
            return self.form.change(text)
        return "".join(usual.get(self.form.change(line), line) for line in text.splitlines(keepends=True))
