"""The books of prompt tokens: every record with a settled prefix verdict is entered, for `/api/prefixes`."""

from typing import Any

from proxy.exporters.exporter import InMemory
from proxy.prefixes.ledger import Books
from proxy.records import RequestRecord


class BooksExporter(InMemory):
    """Enters records in the ledgers of their engines."""

    def __init__(self) -> None:
        self._books = Books()

    def export(self, record: RequestRecord) -> None:
        """Enter one record, if the engine says that it has read its prompt."""
        finished, usage = record.finished, record.finished.usage
        if (
            finished.prefix is not None
            and finished.prefix.bins
            and usage is not None
            and usage.prompt_tokens is not None
        ):
            self._books.add(finished.engine, finished.prefix)

    def report(self) -> dict[str, Any]:
        """The sums of each engine, and of all, as JSON can say them."""
        return self._books.report()
