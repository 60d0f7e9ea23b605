"""Asking for usage where it comes only on demand, and taking out the one event that the client did not ask for.

The asking is a splice of `stream_options.include_usage`; what the client itself said about it stands. Not asked:
Ollama's `/v1/completions`, which then changes every event, and llama.cpp, which says all in `timings`.
"""

from proxy.events import Frame
from proxy.records import RequestFacts
from proxy.wire.decoding import Unreadable, loads
from proxy.wire.framing import Blocks, parse_block
from proxy.wire.splicing import find, splice

_OPTION = ("stream_options", "include_usage")
_LF = b"\n"
_CR = b"\r"


def asks(kind: str, facts: RequestFacts) -> bool:
    """Usage of this request comes on demand, and asking an engine of this kind changes nothing else."""
    if facts.route != "inference" or facts.dialect != "openai" or facts.stream is not True:
        return False
    if kind == "llamacpp" or facts.kind not in ("chat", "completion"):
        return False
    return not (kind == "ollama" and facts.kind == "completion")


def ask_usage(facts: RequestFacts, body: bytes) -> bytes | None:
    """The body that asks for usage; None where there is nothing to ask, or the client has spoken itself."""
    if facts.asks_usage or not asks("openai", facts) or find(body, _OPTION) is not None:
        return None
    return splice(body, _OPTION, b"true")


class UsageFilter:
    """Takes out exactly the event that holds usage and no choice; every other byte passes as it came.

    Holds back at most one incomplete event. Comments inside the event that is taken out stay.
    """

    # State: the open block, and whether the last block was taken out and ended in CR, so that its LF may follow.
    __slots__ = ("_blocks", "_orphan")

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._orphan = False

    def feed(self, data: bytes) -> bytes:
        """What may be sent on by now."""
        return b"".join(self._kept(block) for block in self._blocks.feed(data))

    def close(self) -> bytes:
        """What was held back, at the end of the body in whatever form."""
        return self._kept(self._blocks.close())

    def _kept(self, block: bytes) -> bytes:
        if self._orphan:
            block = block.removeprefix(_LF)
        self._orphan = False
        if b'"usage"' not in block or not _is_usage(parse_block(block)):
            return block
        self._orphan = block.endswith(_CR)
        lines = block.splitlines(keepends=True)
        return b"".join(
            line for place, line in enumerate(lines) if line.startswith(b":") or place == 0 == len(line.strip())
        )


def _is_usage(frame: Frame | None) -> bool:
    if frame is None:
        return False
    try:
        chunk = loads(frame.data)
    except Unreadable:
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
