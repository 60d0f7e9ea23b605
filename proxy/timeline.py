"""The recorder: what our clock and the reader saw of one exchange, folded into a `Timeline`.

Rules: time is an argument, monotonic nanoseconds. What may happen when is the table of `transitions`; an input that is
not in its state's row raises `IllegalInput` and changes nothing. Memory is bounded whatever the stream's length.
"""

from array import array
from collections.abc import Sequence
from operator import sub

from proxy.events import MOST_CHOICES, Event
from proxy.gaps import EXACT_GAPS, Series, pack_stamps
from proxy.records import EngineReport, Timeline, Usage
from proxy.transitions import ROWS

STAMPS = 4096
"""Token events whose time is kept; replay of longer streams has seen enough by then."""

CHOICES = 64
"""Choices whose gaps are kept, the first to speak. Few ask for more than 8, and engines may write any number."""

_BATCH = 256
"""Token events between two foldings: folding each by itself would double the cost of an event."""


class Recorder:
    """Takes what happens to one exchange, in order, and gives its `Timeline` at the end.

    What the reader said is readable at any time: `usage`, `report`, `error`, `finish`, `finished`, `done`, `choices`.
    """

    # State: where the exchange is (`_row`), the marks, the counts, what the reader said last, one `Series` a choice,
    # and the stamps of token events (`_waiting`, then packed in `_packed`).
    __slots__ = (
        "_admission",
        "_arrived",
        "_at_s",
        "_blocked",
        "_dispatched",
        "_events",
        "_finish_at",
        "_first_answer",
        "_first_byte",
        "_first_event_tokens",
        "_head",
        "_last_byte",
        "_last_token",
        "_packed",
        "_packed_to",
        "_role",
        "_row",
        "_series",
        "_streamed",
        "_unreadable",
        "_waiting",
        "bytes_in",
        "bytes_out",
        "done",
        "error",
        "finish",
        "finished",
        "first_token_ns",
        "report",
        "status",
        "token_events",
        "usage",
    )

    def __init__(self, at_s: float, arrived_ns: int) -> None:
        self._row = ROWS["arrived"]
        self._at_s = at_s
        self._arrived = arrived_ns
        self._admission = self._blocked = self._events = self._unreadable = 0
        self._dispatched: int | None = None
        self._head: int | None = None
        self._first_byte: int | None = None
        self._role: int | None = None
        self._first_answer: int | None = None
        self._last_token: int | None = None
        self._last_byte: int | None = None
        self._finish_at: int | None = None
        self._streamed = False
        self._first_event_tokens = 1
        self._series: dict[int, Series] = {}
        self._waiting = array("q")
        self._packed = bytearray()
        self._packed_to = 0
        self.first_token_ns: int | None = None
        self.token_events = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.status: int | None = None
        self.usage: Usage | None = None
        self.report: EngineReport | None = None
        self.error: str | None = None
        self.finish: str | None = None
        self.finished: set[int] = set()
        self.done = False

    def __repr__(self) -> str:
        return f"<Recorder {self._row.name}, {self._events} events, {self.token_events} with tokens>"

    @property
    def answered(self) -> bool:
        """The body has ended in due form."""
        return self._row is ROWS["answered"]

    def so_far(self, t: int) -> list[tuple[str, int | None]]:
        """What our clock knows at `t`, in nanoseconds since arrival or, of `admission` and `proxy`, spent there."""
        first = ("head", self._head) if self._first_byte is None else ("ttfb", self._first_byte)
        ours = None if self._dispatched is None else self._dispatched - self._admission
        waits = [("admission", self._admission), ("proxy", ours)]
        return [*waits, first, ("ttft", self.first_token_ns), ("total", t - self._arrived)]

    @property
    def choices(self) -> int:
        """Choices that had a token event, up to `CHOICES`."""
        return len(self._series)

    def arrived(self, at_s: float, t: int, bytes_in: int) -> None:
        """The body is here: times count from now, and not from the head."""
        self._row = self._row["arrived"]
        self._at_s, self._arrived, self.bytes_in = at_s, t, bytes_in

    def admitted(self, t: int, waited_ns: int) -> None:
        """The door let it in at `t`, after `waited_ns` in our own queue."""
        self._row = self._row["admitted"]
        self._admission = waited_ns

    def dispatched(self, t: int) -> None:
        """The request has been written to a connection of the engine; again after a retry."""
        self._row = self._row["dispatched"]
        if self._head is None:
            self._dispatched = t - self._arrived

    def head(self, t: int, status: int, streamed: bool) -> None:
        """Status and headers of the answer are here; `streamed`: its body is a stream of events."""
        self._row = self._row["head"]
        self._head = t - self._arrived
        if self._dispatched is None:
            self._dispatched = self._head
        self.status = status
        self._streamed = streamed

    def read(self, t: int, nbytes: int) -> None:
        """One socket read of the answer's body."""
        self._row = self._row["read"]
        self.bytes_out += nbytes
        if self._first_byte is None and nbytes:
            self._first_byte = t - self._arrived

    def event(self, t: int, event: Event) -> None:
        """What one frame said; `t` is the stamp of the read that completed it."""
        self._row = self._row["event"]
        self._events += 1
        tokens, reasoning, _, finish, usage, report, error, done, role, counted, _ = event
        if tokens:
            at = t - self._arrived
            events = self.token_events = self.token_events + 1
            self._last_token = at
            if self._first_answer is None:
                self._first(at, reasoning, counted)
            if events == 2 and counted is None:
                self._first_event_tokens = 1  # what the first one said was no count of its tokens
            for choice in tokens:
                series = self._series.get(choice)
                if series is not None:
                    series.recent.append(at - series.last)
                    series.last = at
                elif len(self._series) < CHOICES:
                    self._series[choice] = Series(at)
            waiting = self._waiting
            waiting.append(at)
            if len(waiting) >= _BATCH:
                self._fold()
        elif role and self._role is None:
            self._role = t - self._arrived
        if usage is not None:
            self.usage = usage if self.usage is None else usage.over(self.usage)
        if report is not None:
            self.report = report
        if error is not None:
            self.error = error
        if done:
            self.done = True
        for choice, reason in finish:
            if len(self.finished) < MOST_CHOICES:
                self.finished.add(choice)
            if choice == 0:
                self.finish = reason
                self._finish_at = t - self._arrived

    def pieces(self, stamps: Sequence[int], text: str) -> bool:
        """One event with a piece of choice 0 at each of these moments; `text` is what they answer, together: where it
        is empty all of them reason. False, and nothing has changed, where they must be told one by one: the first
        events of an answer are more than that."""
        series = self._series.get(0)
        if series is None or (text and self._first_answer is None) or self.token_events < 2:
            return False
        self._row = self._row["event"]
        ats = [t - self._arrived for t in stamps]
        self._events += len(ats)
        self.token_events += len(ats)
        series.recent.extend(map(sub, ats, [series.last, *ats]))
        self._last_token = series.last = ats[-1]
        self._waiting.extend(ats)
        if len(self._waiting) >= _BATCH:
            self._fold()
        return True

    def unreadable(self, t: int) -> None:
        """A frame that the reader could not read: a number may be missing, the response is whole."""
        self._row = self._row["event"]
        self._events += 1
        self._unreadable += 1

    def blocked(self, ns: int) -> None:
        """Time inside `send`, because the client reads slowly."""
        self._row = self._row["blocked"]
        self._blocked += ns

    def body_end(self, t: int) -> None:
        """The engine's answer is here whole."""
        self._row = self._row["body_end"]
        self._last_byte = t - self._arrived

    def end(self, t: int) -> Timeline:
        """The exchange is over, whatever its outcome; nothing can follow."""
        self._row = self._row["end"]
        self._fold()
        return Timeline(
            at_s=self._at_s,
            total_ns=t - self._arrived,
            admission_ns=self._admission,
            dispatched_ns=self._dispatched,
            head_ns=self._head,
            first_byte_ns=self._first_byte,
            role_ns=self._role,
            first_token_ns=self.first_token_ns,
            first_answer_ns=self._first_answer,
            last_token_ns=self._last_token,
            last_byte_ns=self._last_byte,
            blocked_ns=self._blocked,
            streamed=self._streamed,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            events=self._events if self._streamed else 0,
            token_events=self.token_events,
            unreadable_events=self._unreadable,
            first_event_tokens=self._first_event_tokens,
            choices=self.choices,
            gaps=tuple(series.gaps(choice) for choice, series in sorted(self._series.items())),
            stamps=bytes(self._packed),
            finish=self.finish,
            done=self.done,
            finish_ns=self._finish_at,
        )

    def _first(self, at: int, reasoning: bool, counted: int | None) -> None:
        if self.first_token_ns is None:
            self.first_token_ns = at
            self._first_event_tokens = counted or 1
        if not reasoning:
            self._first_answer = at

    def _fold(self) -> None:
        room = STAMPS - (self.token_events - len(self._waiting))
        stamps = self._waiting[: max(room, 0)]
        self._packed += pack_stamps(stamps, self._packed_to)
        self._packed_to = stamps[-1] // 1000 if stamps else self._packed_to
        self._waiting = array("q")
        for series in self._series.values():
            if len(series.recent) >= EXACT_GAPS:
                series.fold()
