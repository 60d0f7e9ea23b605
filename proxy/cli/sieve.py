"""Lines of a file into rows: what is no row costs itself alone, and is told of at the end."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from proxy.cli.saying import tell
from proxy.exporters.reader import Unreadable

T = TypeVar("T")


class Sieve:
    """The rows of one file. `what` is what a row is called, in the plural.

    State: lines read, lines that are rows, and the first line that is none with the reason.
    """

    def __init__(self, path: Path, what: str, progress: int) -> None:
        self._path = path
        self._what = what
        self._progress = progress
        self.read = 0
        self.good = 0
        self._bad = 0
        self._first = ""

    def rows(self, lines: Iterable[bytes], decode: Callable[[bytes], T]) -> Iterator[tuple[bytes, T]]:
        """Each row as it stands, and decoded. Tells on stderr of progress, and of lines that are left out.

        Raises Unreadable for a file of other things. One that is empty yet is no such file.
        """
        for line in lines:
            self.read += 1
            if self.read % self._progress == 0:
                tell(f"{self.read:,} {self._what} read")
            try:
                row = decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                self._none(line, error)
                continue
            self.good += 1
            yield line, row
        if self._bad and not self.good:
            raise Unreadable(f"{self._path}: holds no {self._what} ({self._first})")
        if self._bad:
            tell(f"{self._bad:,} lines are no {self._what}; left out ({self._first})")

    def _none(self, line: bytes, error: Exception) -> None:
        if line.strip():
            self._bad += 1
            self._first = self._first or f"line {self.read:,}: {error if _is_text(line) else 'it is no text'}"


def _is_text(line: bytes) -> bool:
    return b"\0" not in line and "\ufffd" not in line.decode("utf-8", "replace")
