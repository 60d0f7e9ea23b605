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

HELD_LIMIT = 1024 * 1024
"""Bytes held back at most. Usage events are under 2 KB; the longest events are tool calls and log-probabilities."""


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

    For an event stream that is not compressed. Holds back at most one incomplete event, and no more than `limit` bytes
    of it: a longer one is passed on, and nothing is taken out any more. Comments inside the event taken out stay.
    """

    # State: the open block, whether the last block was taken out and ended in CR, so that its LF may follow, whether
    # neither is so (`_plain`), and whether the limit was hit.
    __slots__ = ("_blocks", "_limit", "_orphan", "_plain", "_stopped")

    def __init__(self, limit: int = HELD_LIMIT) -> None:
        self._blocks = Blocks()
        self._limit = limit
        self._orphan = False
        self._plain = True
        self._stopped = False

    def feed(self, data: bytes) -> bytes:
        """What may be sent on by now."""
        if self._stopped or (self._plain and _harmless(data)):
            return data
        passed = b"".join(self._kept(block) for block in self._blocks.feed(data))
        if len(self._blocks) > self._limit:
            self._stopped = True
            passed += self.close()
        self._plain = not len(self._blocks) and not self._orphan
        return passed

    def close(self) -> bytes:
        """What was held back, at the end of the body in whatever form."""
        return self._kept(self._blocks.close())

    def _kept(self, block: bytes) -> bytes:
        if self._orphan:
            block = block.removeprefix(b"\n")
        self._orphan = False
        if b'"usage"' not in block or not _is_usage(parse_block(block)):
            return block
        self._orphan = block.endswith(b"\r")
        # A line end in front belongs to the event before: its CRLF was cut between two reads.
        before = b"\n" if block.startswith(b"\n") else b""
        return before + b"".join(line for line in block.splitlines(keepends=True) if line.startswith(b":"))


def _harmless(data: bytes) -> bool:
    """The usual read: whole events, none of which can be the one."""
    return data.endswith(b"\n\n") and b'"usage"' not in data and b"\r" not in data


def _is_usage(frame: Frame | None) -> bool:
    if frame is None:
        return False
    try:
        chunk = loads(frame.data)
    except Unreadable:
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
