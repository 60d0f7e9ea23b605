"""A text cut into pieces, so that the work on each is bounded.

Rules: the pieces joined are the text. Cuts depend on the text before them alone, so a text that grows keeps its early
pieces. A cut between a non-space and a space changes no token (no pattern crosses it); only where there is no such
place within a piece (base64, Chinese) a cut may cost a token.

tiktoken's regex gives up with a panic, which is a BaseException, on runs of white space near its step limit of a
million (seen at 1,000,000 spaces; 100,000 are counted), and its merging slows down on long runs of one letter.
Pieces stay two orders of magnitude below that.
"""

from collections.abc import Iterable, Iterator

PIECE = 8_192
"""Characters of a piece at most: 0.5 ms of encoding, 5 ms at worst (a repeated syllable takes 0.6 us a letter)."""

RUN = 512
"""A block of one repeated character of this length is a piece of its own. All such blocks are equal, so a run of a
million characters is encoded once and then looked up."""


LOOK = 64
"""Characters that a piece counts for in a span beside its own: looking it up takes about 2 us however short it is."""


def spans(texts: Iterable[str]) -> Iterator[list[str]]:
    """The pieces of all texts, in lists of about one piece's work."""
    span: list[str] = []
    work = 0
    for piece in (piece for text in texts for piece in pieces(text)):
        if span and work + len(piece) > PIECE:
            yield span
            span, work = [], 0
        span.append(piece)
        work += len(piece) + LOOK
    if span:
        yield span


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most `PIECE` characters."""
    if 0 < len(text) <= RUN:
        yield text
        return
    start = 0
    while start < len(text):
        end = _cut(text, start)
        yield text[start:end]
        start = end


def _cut(text: str, start: int) -> int:
    """Where the piece that begins at `start` ends: at a run, at a space, or when it is full."""
    if _uniform(text, start):
        return start + RUN
    full = min(start + PIECE, len(text))
    for block in range(start + RUN, full, RUN):
        if _uniform(text, block):
            return block
    return full if full == len(text) else _last_space(text, start, full)


def _uniform(text: str, start: int) -> bool:
    block = text[start : start + RUN]
    return len(block) == RUN and block.count(block[0]) == RUN


def _last_space(text: str, start: int, full: int) -> int:
    """The last space between two words in the second half of the piece, else its end."""
    space = full
    while (space := text.rfind(" ", start + PIECE // 2, space)) > 0:
        if not text[space - 1].isspace() and not text[space + 1].isspace():
            return space
    return full
