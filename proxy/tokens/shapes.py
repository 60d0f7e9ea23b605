"""What is measured of a text: tokens by our vocabulary, and characters by class.

The numbers are those by which vocabularies differ. A smaller vocabulary lacks the rare tokens, which a byte-pair
encoding numbers last: so tokens are counted by rank. Digits stand alone or in threes, hexadecimal is cut everywhere,
other scripts are whole words or single bytes, words after a space are cheaper: so characters are counted by class, on
UTF-8 bytes, at about a nanosecond each.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple, Protocol


class Encoder(Protocol):
    """Anything that splits a text into tokens: tiktoken's encodings, a local tokenizer.json, a test's fake."""

    @property
    def n_vocab(self) -> int:
        """Tokens that it knows."""
        ...

    def encode_ordinary(self, text: str) -> list[int]:
        """Tokens of the text; what spells a special token is plain text."""
        ...


class Shape(NamedTuple):
    """A text, measured. Shapes of parts add up to the shape of the whole."""

    tokens: int = 0
    common: int = 0
    """Tokens among the first 1.5 % of the vocabulary: single letters, syllables, endings."""
    rare_10: int = 0
    """Tokens beyond the first tenth of the vocabulary ..."""
    rare_30: int = 0
    rare_70: int = 0
    rare_90: int = 0
    """... and beyond nine of ten."""
    words: int = 0
    """Runs of ASCII letters."""
    spaced: int = 0
    """Words right after a space."""
    letters: int = 0
    """ASCII letters."""
    capitals: int = 0
    digits: int = 0
    mixed: int = 0
    """Letters right after a digit: hexadecimal, base64, names with numbers."""
    marks: int = 0
    """Runs of ASCII punctuation."""
    quotes: int = 0
    underscores: int = 0
    slashes: int = 0
    spaces: int = 0
    """Spaces and tabs."""
    tabs: int = 0
    lines: int = 0
    """Line feeds and other control characters."""
    indented: int = 0
    """Lines that begin with white space."""
    foreign: int = 0
    """Bytes beyond ASCII."""
    latin: int = 0
    """Characters beyond ASCII, by the byte that they begin with: up to U+027F, accents and the like ..."""
    alphabets: int = 0
    """... up to U+07FF, Greek, Cyrillic, Hebrew, Arabic ..."""
    brahmic: int = 0
    """... up to U+1FFF, Devanagari, Thai, Georgian ..."""
    ideographs: int = 0
    """... from U+3000 on, Chinese, Japanese, Korean ..."""
    pictures: int = 0
    """... and beyond U+FFFF, emoji and rare characters."""


NOTHING = Shape()
"""The shape of no text."""


def _table(classes: dict[bytes, bytes], other: bytes) -> bytes:
    """A table for `bytes.translate`: the members of each class become its letter, the rest `other`."""
    table = bytearray(other * 256)
    for members, letter in classes.items():
        for member in members:
            table[member] = letter[0]
    return bytes(table)


_CAPITALS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTERS = _CAPITALS + _CAPITALS.lower()
_DIGITS = b"0123456789"
_MARKS = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_MARKS_ELSE = _MARKS.translate(None, b"\"'_/")
_CONTROLS = bytes((*range(9), *range(10, 32), 127))

_CLASSES = _table({_LETTERS: b"a", _DIGITS: b"0", _MARKS: b".", b" \t": b" ", _CONTROLS: b"\n"}, other=b"x")
_WORDS = _table({_LETTERS: b"a"}, other=b" ")
_MARK_RUNS = _table({_MARKS: b"."}, other=b" ")
_USUAL = _LETTERS + _DIGITS + b" "
_SIGNS = _table({b"\"'": b'"', b"_": b"_", b"/": b"/", b"\t": b"\t", _CONTROLS: b"\n", _MARKS_ELSE: b"."}, other=b"x")


_SCRIPTS = _table(
    {bytes(range(0xC2, 0xCA)): b"l", bytes(range(0xCA, 0xE0)): b"a", b"\xe0\xe1": b"b", bytes(range(0xE3, 0xEE)): b"i",
     bytes(range(0xF0, 0xF5)): b"p"},
    other=b"-",
)  # fmt: skip
_ASCII = bytes(range(128))


_TENTHS = (0.0, 0.015, 0.1, 0.3, 0.7, 0.9, 1.0)
"""Where the vocabulary is divided, as shares of its tokens: the first part is the commonest, the last the rarest."""


class Ruler:
    """Measures texts by one vocabulary. For each of its tokens a byte says how rare it is, six steps in all."""

    __slots__ = ("_encode", "_rarity")

    def __init__(self, encoder: Encoder) -> None:
        self._encode = encoder.encode_ordinary
        ends = [int(encoder.n_vocab * share) for share in _TENTHS]
        self._rarity = b"".join([bytes([step]) * (end - start) for step, (start, end) in enumerate(pairwise(ends))])

    def measure(self, text: str, data: bytes) -> Shape:
        """The shape of a text; `data` is its UTF-8. At most one piece long (`tokens.pieces`)."""
        ranks = self._encode(text)
        tokens, rarities = len(ranks), self._rarities(ranks).count
        rare_90 = rarities(5)
        rare_70 = rare_90 + rarities(4)
        rare_30 = rare_70 + rarities(3)
        count = data.translate(_CLASSES).count
        others = data.translate(_SIGNS, _USUAL)  # a tenth of most texts: counting in it costs less
        sign = others.count
        digits, blanks, tabs = count(b"0"), data.count(b" "), sign(b"\t")
        foreign = sign(b"x")
        script = data.translate(_SCRIPTS, _ASCII).count if foreign else b"".count
        return Shape(
            tokens,
            rarities(0),
            rare_30 + rarities(2),
            rare_30,
            rare_70,
            rare_90,
            words=(b" " + data.translate(_WORDS)).count(b" a"),
            spaced=count(b" a"),
            letters=len(data) - len(others) - digits - blanks,
            capitals=len(data) - len(data.translate(None, _CAPITALS)),
            digits=digits,
            mixed=count(b"0a"),
            marks=len(data.translate(_MARK_RUNS).split()),
            quotes=sign(b'"'),
            underscores=sign(b"_"),
            slashes=sign(b"/"),
            spaces=blanks + tabs,
            tabs=tabs,
            lines=sign(b"\n"),
            indented=count(b"\n "),
            foreign=foreign,
            latin=script(b"l"),
            alphabets=script(b"a"),
            brahmic=script(b"b"),
            ideographs=script(b"i"),
            pictures=script(b"p"),
        )

    def _rarities(self, ranks: list[int]) -> bytes:
        """How rare each token is; one that was added behind the vocabulary is of the rarest."""
        if len(ranks) > 1:
            try:
                return bytes(itemgetter(*ranks)(self._rarity))  # half of what sorting them costs
            except IndexError:
                pass
        last = len(self._rarity) - 1
        return bytes([self._rarity[min(rank, last)] for rank in ranks])


FEWEST, FEWEST_FOREIGN = 0.6, 0.1
"""The least part of our tokens that any vocabulary in use finds in a text: of tokens of ASCII, where ours is among the
best and those of 200 k and more gain 5 to 15 %; and of tokens beyond it, which newer vocabularies join two to five at
once."""


def fewest(tokens: int, foreign: int) -> float:
    """Tokens that any vocabulary finds at least in a text of so many of ours and so many bytes beyond ASCII: no more of
    ours than those bytes can be foreign, so the others are ASCII."""
    beyond = min(tokens, foreign)
    return FEWEST * (tokens - beyond) + FEWEST_FOREIGN * beyond


def times(shape: Shape, count: int) -> Shape:
    """The shape of a text that is read so often."""
    return Shape._make([number * count for number in shape])


def total(shapes: Sequence[Shape]) -> Shape:
    """The sum of shapes; of none, the empty shape."""
    if len(shapes) < 2:
        return shapes[0] if shapes else NOTHING
    return Shape._make(map(sum, zip(*shapes, strict=True)))
