"""Asking for usage where it comes only on demand, and taking out the one event that the client did not ask for.

Not asked: Ollama's `/v1/completions`, which then changes every event, and llama.cpp, which says all in `timings`.
"""

from proxy.events import Frame
from proxy.records import RequestFacts
from proxy.wire.blocks import parse_block
from proxy.wire.decoding import Unreadable, loads_short


def asks(kind: str, facts: RequestFacts) -> bool:
    """Usage of this request comes on demand, and asking an engine of this kind changes nothing else."""
    if facts.route != "inference" or facts.dialect != "openai" or facts.stream is not True or facts.asks_usage:
        return False
    if kind == "llamacpp" or facts.kind not in ("chat", "completion"):
        return False
    return not (kind == "ollama" and facts.kind == "completion")


class UsageEdit:
    """Takes out exactly the event that holds usage and no choice."""

    __slots__ = ()
    marks = (b'"usage"',)

    def event(self, block: bytes) -> bytes | None:
        """The event, unless it is the one."""
        return None if _is_usage(parse_block(block)) else block

    def body(self, text: bytes) -> bytes:
        """What is no stream has usage unasked."""
        return text


def _is_usage(frame: Frame | None) -> bool:
    if frame is None:
        return False
    try:
        chunk = loads_short(frame.data)
    except Unreadable:
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
