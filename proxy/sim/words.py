"""The tokenizer of the embedded engine: simple, deterministic, and exact in both directions.

A token is a special mark (`<|im_start|>`), up to four characters of a word with the space before them, or any other
single character. That is about one token for four characters of English prose. A token's id is the CRC of its text, in
24 bits. Answers are made of short words, so that an answer sent back as history gives the same tokens again.
"""

import random
import re
import zlib
from collections.abc import Iterable

PIECE = re.compile(r"<\|\w+\|>| ?\w{1,4}|\W")

WORDS = (
    "the a of and to in is it for on with as at by this that from or one can all new more time work data line step "
    "each same long text read word kept part then when most over only some very here back next both make well"
)
"""What answers are made of; none is longer than a token."""


def encode(text: str) -> tuple[int, ...]:
    """Token ids of `text`."""
    return tuple(map(number, PIECE.findall(text)))


def number(piece: str) -> int:
    """The id of one token."""
    return zlib.crc32(piece.encode("utf-8", "surrogatepass")) & 0xFFFFFF


def render(messages: Iterable[tuple[str, str]]) -> str:
    """ChatML: role and content of each message, and the head of the answer."""
    said = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in messages)
    return f"{said}<|im_start|>assistant\n"


def answer(prompt: tuple[int, ...], count: int, choice: int = 0) -> tuple[str, ...]:
    """`count` pieces of text that answer `prompt`; the same prompt gets the same answer."""
    source = random.Random(hash((prompt[-64:], len(prompt), choice)))
    words = WORDS.split()
    pieces = [f" {source.choice(words)}" for _ in range(count)]
    return (pieces[0].strip().title(), *pieces[1:])
