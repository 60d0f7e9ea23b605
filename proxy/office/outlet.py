"""Lines for a terminal or a pipe, written by a thread of their own: whoever reads late, or never, holds nobody up.

A write waits for as long as a pipe is full, or a terminal stopped (Ctrl-S, a pager). On a loop everything would wait
with it. A descriptor cannot be made non-blocking here, for it is shared with whoever started us. (Buffered files are
of no use either: a thread that waits inside one holds its lock, and the interpreter cannot end.)
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import TextIO

LIMIT_BYTES = 1024 * 1024
"""Lines that wait, at most: some ten thousand; far more than anybody reads who comes back to a stopped terminal."""
WRITE_BYTES = select.PIPE_BUF
"""Bytes of one write, unless one line is longer: so many stay together, whoever else writes to the same pipe."""


class Outlet:
    """Where one process' lines go. `put` never waits: without room a line is dropped and counted, and the next one
    that finds room stands behind a word about it.

    State, under one lock: lines that wait, what is being written, the size of both, how many are missing since the last
    word about it, whether nothing more is taken; the thread (None before the first line).
    """

    def __init__(
        self,
        to: int | TextIO | None,
        missing: Callable[[int], str],
        *,
        encoding: str = "utf-8",
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self._to = to
        self._missing = missing
        self._encoding = encoding
        self._limit = limit_bytes
        self._changed = threading.Condition()  # its lock may be taken twice: a collector's callback may log
        self._waiting: deque[bytes] = deque()
        self._batch = b""
        self._bytes = 0
        self._gap = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self.lost = 0
        """Lines that were not written, since start."""

    @classmethod
    def of(cls, stream: TextIO | None, missing: Callable[[int], str]) -> "Outlet":
        """To the descriptor that this stream writes to. A stream without one is in memory, and none is nowhere."""
        if stream is None:
            return cls(None, missing)
        try:
            return cls(stream.fileno(), missing, encoding=stream.encoding or "utf-8")
        except OSError:
            return cls(stream, missing)

    def put(self, line: str) -> None:
        """Takes one line, without its end: some microseconds, whatever becomes of it."""
        if not isinstance(self._to, int):
            if self._to is not None and not self._closed:
                self._to.write(f"{line}\n")
            return
        with self._changed:
            data = self._encoded([*self._word(), line])
            if self._closed or self._bytes + len(data) > self._limit:
                self.lost += 1
                self._gap += 1
                return
            self._gap = 0
            self._queue(data)

    def close(self, limit_s: float) -> None:
        """Takes no more, and waits until all is written, for so many seconds; what is left then is lost."""
        with self._changed:
            if self._gap and not self._closed:
                self._queue(self._encoded(self._word()))
            self._closed = True
            self._changed.notify_all()
        if self._thread is None:
            return
        self._thread.join(limit_s)
        with self._changed:
            self.lost += sum(data.count(b"\n") for data in (self._batch, *self._waiting))
            self._waiting.clear()

    def _word(self) -> list[str]:
        return [self._missing(self._gap)] if self._gap else []

    def _encoded(self, lines: list[str]) -> bytes:
        return "".join(f"{line}\n" for line in lines).encode(self._encoding, "backslashreplace")

    def _queue(self, data: bytes) -> None:
        self._waiting.append(data)
        self._bytes += len(data)
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, args=(self._to,), name="outlet", daemon=True)
            self._thread.start()

    def _work(self, fd: int) -> None:
        while batch := self._next():
            written = write(fd, batch)
            with self._changed:
                self.lost += batch.count(b"\n", written)

    def _next(self) -> bytes:
        """The next lines, when there are some; nothing when there will be none."""
        with self._changed:
            self._bytes -= len(self._batch)
            self._batch = b""
            self._changed.wait_for(lambda: self._waiting or self._closed)
            while self._waiting and len(self._batch) + len(self._waiting[0]) <= WRITE_BYTES:
                self._batch += self._waiting.popleft()
            if self._waiting and not self._batch:
                self._batch = self._waiting.popleft()
            return self._batch


def write(fd: int, data: bytes) -> int:
    """Writes, however long it takes. How many bytes; less than all: there is nobody any more to read them."""
    at = 0
    while at < len(data):
        try:
            at += os.write(fd, data[at:])
        except BlockingIOError:  # whoever shares the descriptor made it non-blocking
            ready = select.poll()
            ready.register(fd, select.POLLOUT)
            ready.poll()
        except OSError:
            break
    return at
