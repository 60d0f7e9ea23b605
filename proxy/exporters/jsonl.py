"""One JSON line per request, in the form of `contract`, appended to a file.

Lines are written in batches, each batch in one write. A write that the disk cut short leaves a torn line: before the
next batch it is ended with a line feed, so that no good line ever stands behind a torn one.
"""

import os
from pathlib import Path

from proxy.exporters.contract import to_json
from proxy.exporters.trouble import Trouble
from proxy.records import RequestRecord

BATCH_BYTES = 256 * 1024
"""Written at once when so much is buffered; else at the next tick."""
BUFFER_BYTES = 4 * 1024 * 1024
"""Kept while the file cannot be written; the oldest lines beyond it are lost. (A failed write is tried again.)"""


class JsonlExporter:
    """Appends records to one file. A full or read-only disk loses records, counted and said, and nothing else.

    State: the file (None while it cannot be opened), lines not yet written and their size, whether the file ends in
    the middle of a line, and the trouble there is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._lines: list[bytes] = []
        self._bytes = 0
        self._torn = False
        self._trouble = Trouble("records", path)
        self._open()

    @property
    def lost(self) -> int:
        """Records that are in no file, since start."""
        return self._trouble.lost

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
        """Writes what is buffered to the old file, then opens the path anew."""
        self._write()
        self._release()
        self._open()

    def close(self) -> None:
        """Writes what is left; lines that cannot be written are lost."""
        self._write()
        self._trouble.closes(len(self._lines))
        self._lines, self._bytes = [], 0
        self._release()

    def _open(self) -> None:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            size = os.fstat(self._file).st_size
            self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        except OSError as error:
            self._trouble.begins(error.strerror or str(error))

    def _release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self) -> None:
        if not self._lines:
            return
        if self._file is None:
            self._open()
        if self._file is None:
            self._overflow()
            return
        batch = (b"\n" if self._torn else b"") + b"".join(self._lines)
        try:
            written = os.write(self._file, batch)
        except OSError as error:
            self._trouble.begins(error.strerror or str(error))
        else:
            self._settle(batch, written)
            if written < len(batch):
                self._trouble.begins("a write was cut short")
            else:
                self._trouble.ends()
        self._overflow()

    def _settle(self, batch: bytes, written: int) -> None:
        """Forgets the lines that are in the file whole; one that was cut is written again, whole, on its own line."""
        left = written - self._torn
        whole = 0
        for line in self._lines:
            if left < len(line) - 1:  # a line that lacks only its LF is whole: the next batch begins with one
                break
            left -= len(line)
            whole += 1
        self._bytes -= sum(map(len, self._lines[:whole]))
        self._lines = self._lines[whole:]
        self._torn = self._torn if not written else batch[written - 1 : written] != b"\n"

    def _overflow(self) -> None:
        """Drops the oldest lines over the buffer's limit."""
        while self._bytes > BUFFER_BYTES:
            self._bytes -= len(self._lines.pop(0))
            self._trouble.lost += 1
