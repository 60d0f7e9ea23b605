"""Reads that are pieces of an answer's text and say no more, looked at many at a time.

Of ten reads of a stream nine are, an event each. Their JSON is decoded in one call, by a type that fits nothing else,
which costs half of what it costs one by one; where one of them does not fit, all of them are read so.
"""

from collections.abc import Callable, Sequence

from proxy.wire.dialects import Reader
from proxy.wire.framing import Framing, Ndjson, Sse
from proxy.wire.ollama import Ollama
from proxy.wire.openai import OpenAi


def texts_of(framing: Framing, reader: Reader) -> Callable[[Sequence[bytes]], Sequence[str]] | None:
    """Reads to the text of each, empty for reasoning, where each is one event that says no more than a piece of choice
    0's answer; else to nothing, and then nothing has changed. None: this answer's reads must be looked at one by one.
    """
    if not isinstance(framing, Sse | Ndjson) or not isinstance(reader, OpenAi | Ollama):
        return None

    def texts(reads: Sequence[bytes]) -> Sequence[str]:
        lines = framing.lines(reads)
        pieces = [piece for piece in reader.pieces(lines) if piece is not None] if lines else ()
        return pieces if len(pieces) == len(reads) else ()

    return texts
