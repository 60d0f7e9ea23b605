"""Trouble with a file of records: what it cost is counted, and the log hears of it twice, not once per record."""

from pathlib import Path

import structlog


class Trouble:
    """One file's trouble: said when it begins, and when it ends with the number of records that it cost.

    State: whether there is trouble now, how many records are lost since start, and how many were before this trouble.
    """

    def __init__(self, file: str, path: Path) -> None:
        self._file = file
        self._path = path
        self._log = structlog.get_logger(f"phasegate.{file}")
        self._now = False
        self._before = 0
        self.lost = 0

    def begins(self, why: str) -> None:
        """The file cannot be written; said once per trouble, for the log may be on the same disk."""
        if not self._now:
            self._now, self._before = True, self.lost
            self._log.error(f"{self._file}_not_written", path=str(self._path), error=why)

    def ends(self) -> None:
        """The file has been written whole."""
        if self._now:
            self._now = False
            self._log.warning(f"{self._file}_written_again", path=str(self._path), lost=self.lost - self._before)

    def closes(self, left: int) -> None:
        """The file is given up with `left` records unwritten: they are lost too."""
        self.lost += left
        if self._now:
            self._now = False
            self._log.error(f"{self._file}_lost", path=str(self._path), lost=self.lost - self._before)
