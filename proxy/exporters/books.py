"""The books of prompt tokens: every record with a settled prefix verdict is entered, for `/api/prefixes`."""

from typing import Any

from proxy.prefixes.ledger import Books
from proxy.records import RequestRecord


class BooksExporter:
    """Enters records in the ledgers of their engines."""

    lost = 0
    unwritten = 0

    def __init__(self) -> None:
        self._books = Books()

    def export(self, record: RequestRecord) -> None:
        """Enter one record, if the engine read its prompt."""
        finished = record.finished
        if finished.prefix is not None and finished.prefix.bins and finished.usage is not None:
            self._books.add(finished.engine, finished.prefix)

    def tick(self, now_ns: int) -> None:
        """Nothing is buffered."""

    def reopen(self) -> None:
        """There is no file."""

    def close(self) -> None:
        """There is no file."""

    def report(self) -> dict[str, Any]:
        """The sums of each engine, and of all, as JSON can say them."""
        return self._books.report()
