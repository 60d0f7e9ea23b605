"""One JSON line per request, in the form of `contract`, appended to a file.

Lines are written in batches, each batch in one write. A write that the disk cut short leaves a torn line: before the
next batch it is ended with a line feed, so that no good line ever stands behind a torn one.

The file may be a pipe or a terminal. It is never waited for: what it does not take now it gets later, from where it was
cut, or loses, counted.
"""

import os
import select
import stat
from collections import deque
from pathlib import Path

from proxy.exporters.contract import to_json
from proxy.exporters.trouble import Trouble
from proxy.records import RequestRecord

BATCH_BYTES = 256 * 1024
"""Written at once when so much is buffered, else at the next tick; and at most in one write."""
BUFFER_BYTES = 4 * 1024 * 1024
"""Kept while the file cannot be written; the oldest lines beyond it are lost. (A failed write is tried again.)"""
FLUSHES = 500
"""Looks for room in a pipe at the end, a millisecond each: a reader that lives takes all that it is given in them."""

FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Read and write, so that a pipe opens before it has a reader, and outlives one."""


class JsonlExporter:
    """Appends records to one file. A full or read-only disk loses records, counted and said, and nothing else.

    State: the file (None while it cannot be opened), whether it is a stream (a pipe, a terminal), lines not yet written
    and their size, how much of the first one a stream has already, whether the file ends in the middle of a line that
    will not be gone on with, and the trouble there is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._stream = False
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._begun = 0
        self._torn = False
        self._trouble = Trouble("records", path)
        self._open()

    @property
    def lost(self) -> int:
        """Records that are in no file, since start."""
        return self._trouble.lost

    @property
    def unwritten(self) -> int:
        """Lines that wait for the next write."""
        return len(self._lines)

    def export(self, record: RequestRecord) -> None:
        """Buffers one line; writes when a batch is full."""
        line = to_json(record) + b"\n"
        self._lines.append(line)
        self._bytes += len(line)
        if self._bytes >= BATCH_BYTES:
            self._write()

    def tick(self, now_ns: int) -> None:
        """Writes what is buffered."""
        self._write()

    def reopen(self) -> None:
        """Writes what is buffered to the old file, then opens the path anew; a stream that is still there goes on where
        it was cut."""
        self._write()
        if not self._stays():
            self._release()
            self._open()

    def close(self) -> None:
        """Writes what is left; lines that cannot be written are lost. A stream has half a second to take them."""
        self._write()
        if self._stream:
            self._flush()
            if self._lines:
                self._trouble.begins("nobody reads it")
        self._trouble.closes(len(self._lines))
        self._lines.clear()
        self._bytes = 0
        self._release()

    def _open(self) -> None:
        try:
            self._file = os.open(self._path, FLAGS, 0o640)
            status = os.fstat(self._file)
            self._stream = not stat.S_ISREG(status.st_mode)
            size = 0 if self._stream else status.st_size
            self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        except OSError as error:
            self._trouble.begins(error.strerror or str(error))

    def _stays(self) -> bool:
        """The path names the same stream as ever: to close it would lose what is in a pipe that nobody reads yet."""
        if self._file is None or not self._stream:
            return False
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except OSError:
            return False

    def _release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._begun = 0

    def _write(self) -> None:
        """Batch by batch, until all is written or a write falls short."""
        if self._lines and self._file is None:
            self._open()
        if self._lines and self._file is not None:
            while self._lines and self._attempt(self._file):
                pass
            if not self._lines:
                self._trouble.ends()
        self._overflow()

    def _attempt(self, file: int) -> bool:
        """Writes one batch; whether it is out whole."""
        lines = self._batch()
        data = b"\n" * self._torn + b"".join(lines)[self._begun :]
        try:
            written = os.write(file, data)
        except BlockingIOError:
            return False
        except OSError as error:
            self._trouble.begins(error.strerror or str(error))
            return False
        self._settle(lines, data, written)
        if written < len(data) and not self._stream:
            self._trouble.begins("a write was cut short")
        return written == len(data)

    def _batch(self) -> list[bytes]:
        lines, size = [], 0
        for line in self._lines:
            lines.append(line)
            size += len(line)
            if size >= BATCH_BYTES:
                break
        return lines

    def _settle(self, lines: list[bytes], data: bytes, written: int) -> None:
        """Forgets the lines that are out whole. One that was cut goes on in a stream, and is written again, whole, on a
        line of its own, in a file."""
        left = self._begun + max(0, written - self._torn)
        for line in lines:
            if left < len(line) - (not self._stream):  # in a file the next batch begins with the LF that is lacking
                break
            left -= len(line)
            self._bytes -= len(self._lines.popleft())
        self._begun = left if self._stream else 0
        self._torn = self._torn if not written else not self._stream and data[written - 1 : written] != b"\n"

    def _flush(self) -> None:
        room = select.poll()
        if self._file is not None:
            room.register(self._file, select.POLLOUT)
        for _ in range(FLUSHES):
            if not self._lines:
                return
            if room.poll(1):
                self._write()

    def _overflow(self) -> None:
        """Drops the oldest lines over the buffer's limit."""
        while self._bytes > BUFFER_BYTES:
            self._trouble.begins("nobody reads it")
            self._bytes -= len(self._lines.popleft())
            self._trouble.lost += 1
            self._torn, self._begun = self._torn or self._begun > 0, 0
