"""What of an answer is edited: what the engine was asked for beside the client is cut out, what clients may be told of
time is put in. An answer that neither concerns, that is compressed or an error, passes as it came."""

from collections.abc import Callable, Sequence

from proxy.config import Settings
from proxy.events import Reader
from proxy.headers import SERVER_TIMING, Pair
from proxy.records import EngineReport, RequestFacts
from proxy.rooms import Filter
from proxy.servertiming import comment, told
from proxy.tap import FAULTS
from proxy.timeline import Recorder
from proxy.wire.asking import ASKINGS
from proxy.wire.blocks import parse_block
from proxy.wire.dialects import dialect_of, reader_for
from proxy.wire.edits import Events, Whole
from proxy.wire.framing import media_type

EVENTS, JSON = "text/event-stream", "application/json"
PLAIN = ("", "identity")
"""Content encodings of answers that are not compressed."""

LAST = 4
"""Events at the end of a stream in which the engine's report is looked for, where one read brings them all."""


def askings(settings: Settings) -> tuple[str, ...]:
    """What engines are asked for beside the client, under these settings."""
    on = {"usage": settings.ask_usage, "token_ids": settings.prefixes.asks_ids, "meta_info": settings.ask_meta_info}
    return tuple([name for name in ASKINGS if on[name]])


class Editing:
    """Makes the filters of answers."""

    def __init__(self, now_ns: Callable[[], int], *, timing: bool) -> None:
        self._now_ns = now_ns
        self.timing = timing

    def filter(
        self,
        asked: Sequence[str],
        status: int,
        content_type: str,
        encoding: str,
        facts: RequestFacts,
        recorder: Recorder,
    ) -> Filter | None:
        """The filter of an answer with this head to a request that asked so; None where nothing is edited."""
        if not (asked or self.timing) or encoding.strip().lower() not in PLAIN:
            return None
        media = media_type(content_type)
        edits = [ASKINGS[name] for name in asked if status < 400 and (ASKINGS[name].whole or media == EVENTS)]
        if media == EVENTS and (edits or self.timing):
            ending = End(recorder, facts, self._now_ns) if self.timing else None
            return Events([asking.edit() for asking in edits], ending)
        return Whole([asking.edit() for asking in edits]) if edits and media == JSON else None

    def header(self, recorder: Recorder) -> Pair:
        """What is said beside the head of an answer that is no stream."""
        return (SERVER_TIMING, told(recorder, self._now_ns()))


class End:
    """Says the times before the end of a stream."""

    # State: a reader for terminal events alone.
    __slots__ = ("_facts", "_now_ns", "_reader", "_recorder", "marks")

    def __init__(self, recorder: Recorder, facts: RequestFacts, now_ns: Callable[[], int]) -> None:
        self.marks = dialect_of(facts.dialect).ends
        self._recorder = recorder
        self._facts = facts
        self._now_ns = now_ns
        self._reader = self._fresh()

    def ends(self, block: bytes) -> bool:
        """The dialect's terminal event; of several choices that each have one, the last."""
        if not any(mark in block for mark in self.marks):
            return False
        frame = parse_block(block)
        try:
            return frame is not None and self._reader.read(frame).done and self._reader.complete()
        except FAULTS:
            return False

    def over(self) -> bool:
        """The body ended in due form."""
        return self._recorder.answered

    def words(self, blocks: Sequence[bytes]) -> bytes:
        """The comment."""
        report = self._recorder.report or self._reported(blocks[-LAST:])
        return comment(self._recorder, self._now_ns(), report)

    def _reported(self, blocks: Sequence[bytes]) -> EngineReport | None:
        """The report in events that the tap has not seen yet."""
        for frame in filter(None, map(parse_block, reversed(blocks))):
            try:
                report = self._fresh().read(frame).report
            except FAULTS:
                continue
            if report is not None:
                return report
        return None

    def _fresh(self) -> Reader:
        return reader_for(self._facts, EVENTS, 200)
