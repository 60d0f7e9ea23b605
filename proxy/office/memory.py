"""What one office knows that the next one must, if it is killed: a file without a name, held by the data process.

Two slots are written in turn, each with a number and a checksum: an office that is killed in the middle of a write
leaves the other one whole.
"""

import os
import struct
import zlib

SLOT_BYTES = 1024 * 1024
"""Far more than 1,500 series take."""
HEAD = struct.Struct("!QII")
"""Number, length, checksum."""


class Memory:
    """One file of two slots. State: the number of the last write."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._number = 0

    def load(self) -> bytes | None:
        """What was saved last and is whole; None: nothing."""
        number, data = max((self._read(slot) for slot in (0, 1)), key=lambda saved: saved[0])
        self._number = number
        return data

    def save(self, data: bytes) -> None:
        """Saves over what was saved before the last time. Without room nothing is saved."""
        if len(data) > SLOT_BYTES - HEAD.size:
            return
        number = self._number + 1
        head = HEAD.pack(number, len(data), zlib.crc32(data))
        try:
            os.pwrite(self._fd, head + data, number % 2 * SLOT_BYTES)
        except OSError:
            return  # a full disk: the next office counts from what was saved before
        self._number = number

    def _read(self, slot: int) -> tuple[int, bytes | None]:
        head = os.pread(self._fd, HEAD.size, slot * SLOT_BYTES)
        if len(head) < HEAD.size:
            return 0, None
        number, length, checksum = HEAD.unpack(head)
        data = os.pread(self._fd, min(length, SLOT_BYTES), slot * SLOT_BYTES + HEAD.size)
        return (number, data) if number and zlib.crc32(data) == checksum else (0, None)
