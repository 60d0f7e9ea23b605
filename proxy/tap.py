"""The tap: observes copies of an answer's bytes. Copies in, nothing out.

Rules: it never changes, delays or fails a response. What it cannot read costs a number: a frame is counted as
unreadable, and where nothing more can be read it goes blind and says why.
"""

from collections.abc import Callable, Iterator, Sequence

from proxy.events import Event, Frame, Framing, Reader, Said
from proxy.inflating import UNSOUND, inflater
from proxy.timeline import Recorder

FAULTS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a parser can raise over bytes that it did not expect."""

INFLATED_LIMIT = 64 * 1024 * 1024
"""Bytes that one answer may inflate to for observing; the size of the largest request body we hold. deflate reaches
1,032:1, so 64 KiB of zeros may ask for this much: above it, it is a bomb."""

HEARD_LIMIT = 256 * 1024
"""Characters, and token ids, of an answer that are kept until its end: some 64,000 tokens, more than most models write
at once. An engine may write for hours."""

PROMPT_LIMIT = 2 * 1024 * 1024
"""Bytes of a prompt's token ids as JSON: twice what 131,072 of them take."""

HELD_READS = 32
"""Reads that wait to be looked at, once the second token was seen. At a stream's pace the processor has forgotten this
code between two events: those looked at in a row cost a third of those looked at one by one."""

ROW = 16
"""Of those, reads that are looked at as one, where each is a piece of text."""

HELD_BYTES = 64 * 1024
"""Bytes that may wait so: one full read of a socket."""

SLICE = 1536
"""Work of one turn of the loop: a millisecond of the worst there is (frames that cannot be read, blank lines), a tenth
of that of usual events. A frame counts `FRAME`, one that cannot be read `UNREADABLE` more; a byte an eighth or, of a
read that is cut into bites, a quarter, and a bite `FRAME`. What is held of a usual stream is one slice."""
FRAME, UNREADABLE = 4, 16
FEW = 128
"""Frames, or line ends of a read, that are looked at together: of the worst sort they are a millisecond of work."""

SLICES = 16
"""Slices that are looked at in one go where nobody can wait: what is held has 6, and one full read some 30."""

OVERFLOWED = "an event is over the size limit"
LEFT_BEHIND = "more was written at once than can be read"

Texts = Callable[[Sequence[bytes]], Sequence[str]]
"""Reads to the text of each, empty for reasoning, where each is one event that says no more than a piece of choice 0's
answer; else to nothing, and then nothing has changed. `wire.pieces` has it."""


class Tap:
    """Reads an answer beside its relaying: inflate, frame, read, tell the recorder.

    `hear` is given all events with answer text or its token ids; the tap keeps none of them. From the second token on
    as many reads as `hold` says wait until they are looked at together: `catch_up` comes before a look at what the
    recorder knows. What is more than a turn of the loop has time for is left, `behind` says so, and `go_on` goes on.
    """

    # State: why it is blind (None: it is not), whether the body has ended in due form, the reads that wait with their
    # stamps, how many bytes more may, the looking that is not done, and the parts' own states.
    __slots__ = (
        "_closed", "_framing", "_hear", "_held", "_hold", "_inflate", "_reader", "_recorder", "_room", "_texts",
        "_work", "behind", "bite", "blind",
    )  # fmt: skip

    def __init__(
        self,
        recorder: Recorder,
        framing: Framing,
        reader: Reader,
        content_encoding: str = "",
        hear: Callable[[Event], None] | None = None,
        inflated_limit: int = INFLATED_LIMIT,
        hold: int = HELD_READS,
        texts: Texts | None = None,
    ) -> None:
        self._recorder = recorder
        self._framing = framing
        self._reader = reader
        self._hear = hear
        self._closed = False
        self._hold = hold
        self._held: list[tuple[int, bytes | None]] = []
        self._room = HELD_BYTES
        self._work: Iterator[bool] = iter(())
        self.behind = False
        self._inflate, self.blind = inflater(content_encoding.strip().lower(), inflated_limit)
        self._texts = texts if self._inflate is None else None
        self.bite = framing.bite if self._inflate is None else 0  # bytes of a read that are looked at in one go

    def __repr__(self) -> str:
        return f"<Tap {self.blind or 'reading'}{', closed' if self._closed else ''}>"

    @property
    def complete(self) -> bool:
        """The answer is whole: it ended in due form, and its dialect's end was seen (a blind tap doubts nothing)."""
        return self._closed and (self.blind is not None or self._reader.complete())

    def feed(self, t: int, data: bytes) -> None:
        """A copy of one socket read, stamped `t`. Never raises over what is in it."""
        self._held.append((t, data))
        self._room -= len(data)
        if self._recorder.token_events < 2 or self._room < 0 or len(self._held) >= self._hold:
            self.go_on()

    def close(self, t: int) -> None:
        """The body ended in due form."""
        self._closed = True
        self._held.append((t, None))
        self.go_on()

    def go_on(self) -> None:
        """Looks at a slice of what waits."""
        if not self.behind:
            self._work = self._looks()
        self.behind = next(self._work, False)

    def catch_up(self) -> None:
        """Looks at all that waits; goes blind where that would take long."""
        for _ in range(SLICES):
            self.go_on()
            if not self.behind:
                return
        self.leave()

    def leave(self) -> None:
        """Looks at nothing more: what waits would take too long."""
        self._held, self._work, self.behind = [], iter(()), False
        self.blind = self.blind or LEFT_BEHIND

    def _looks(self) -> Iterator[bool]:
        """Looks at what waits; True where a slice is over."""
        spent = 0
        while self._held:  # and what has come meanwhile
            held, self._held, self._room = self._held, [], HELD_BYTES
            for at in range(0, len(held), ROW):
                for work in self._work_of(held[at : at + ROW]):
                    spent += work
                    if spent > SLICE:
                        yield True
                        spent = 0

    def _work_of(self, row: list[tuple[int, bytes | None]]) -> Iterator[int]:
        """Looks at some reads; yields how much work that is as it goes."""
        if self._texts is not None and len(row) > 1 and self.blind is None and self._in_a_row(self._texts, row):
            yield sum([len(data or b"") for _, data in row]) // 8
            return
        for t, data in row:
            if self.blind is not None:
                return
            try:
                if data is not None and len(data) <= self.bite and data.count(b"\n") <= FEW:  # the usual read
                    yield len(data) // 8 + self._read(t, self._framing.feed(data))
                else:
                    for size, frames in self._bites(data):
                        yield FRAME + size // 4 + self._read(t, frames)
            except (*UNSOUND, *FAULTS) as fault:
                self._give_up(t, fault)
            if self._framing.overflowed:
                self.blind = OVERFLOWED

    def _in_a_row(self, texts_of: Texts, row: list[tuple[int, bytes | None]]) -> bool:
        """Whether each of these reads is a piece of the answer and nothing else; then they are told together."""
        texts = texts_of([data or b"" for _, data in row])
        text = "".join(texts)
        if not texts or not self._recorder.pieces([t for t, _ in row], text):
            return False
        if self._hear is not None and text:
            self._hear(Event((0,), text=text))
        return True

    def _bites(self, data: bytes | None) -> Iterator[tuple[int, list[Frame]]]:
        """The frames of one read, or of the end, a few at a time, with the bytes that were taken for them."""
        for size, frames in self._bitten(data):
            yield size, frames[:FEW]
            for at in range(FEW, len(frames), FEW):
                yield 0, frames[at : at + FEW]

    def _bitten(self, data: bytes | None) -> Iterator[tuple[int, list[Frame]]]:
        bite = self._framing.bite
        if data is None:
            yield from ((bite, frames) for frames in self._framing.close())
            return
        for piece in (data,) if self._inflate is None else self._inflate.feed(data):
            for at in range(0, len(piece) or 1, bite):  # nothing inflated is a piece of work too
                taken = piece[at : at + bite]
                yield len(taken), self._framing.feed(taken)

    def _read(self, t: int, frames: list[Frame]) -> int:
        """Reads these frames; how much work they are."""
        odd = 0
        for frame in frames:
            try:
                event = self._reader.read(frame)
            except FAULTS:
                self._recorder.unreadable(t)
                odd += 1
            else:
                self._recorder.event(t, event)
                if self._hear is not None and (event.text or event.ids):
                    self._hear(event)
        return FRAME * len(frames) + UNREADABLE * odd

    def _give_up(self, t: int, fault: Exception) -> None:
        # Bytes that cannot be framed: there is no next frame to look for.
        self._recorder.unreadable(t)
        self.blind = f"cannot be framed: {type(fault).__name__}"


class Hearing:
    """The beginning of an answer, as far as it is kept: what follows in the engine's cache is simply not known."""

    # State: what was heard, and the room that is left; the prompt's ids as last said, and those not taken yet.
    __slots__ = ("_ids", "_news", "_prompt", "_room", "_texts")

    def __init__(self, limit: int = HEARD_LIMIT) -> None:
        self._texts: list[str] = []
        self._ids: list[int] = []
        self._prompt = self._news = b""
        self._room = limit

    def hear(self, event: Event) -> None:
        """Takes an event's text and token ids, while there is room for both."""
        text, ids, room = event.text, event.ids, self._room
        size = max(len(text), len(ids)) if ids else len(text)
        if size > room:
            text, ids, size = text[:room], ids[:room], room
        if text:
            self._texts.append(text)
        if ids:
            self._ids += ids
        self._room = room - size

    def spell(self, ids: bytes) -> None:
        """Takes the prompt's token ids as the engine says them, in JSON, unless there are more than any prompt has."""
        if ids != self._prompt and len(ids) <= PROMPT_LIMIT:
            self._prompt = self._news = ids

    def news(self) -> bytes:
        """What `spell` took since the last time, if it was another one."""
        news, self._news = self._news, b""
        return news

    def said(self) -> Said:
        """The answer, as far as it was heard."""
        return Said("".join(self._texts), tuple(self._ids), self.news())
