"""The books of prompt tokens: every record with a settled prefix verdict is entered, for `/api/prefixes`."""

from typing import Any

from proxy.exporters.exporter import InMemory
from proxy.prefixes.alike import Alike
from proxy.prefixes.ledger import Books
from proxy.records import RequestRecord


class BooksExporter(InMemory):
    """Enters records in the ledgers of their engines, and under the families of their prompts."""

    # State: the books of engines, and the families.

    def __init__(self) -> None:
        self._books, self._families = Books(), Alike()

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
            self._families.add(finished.engine, finished.facts.model, finished.prefix)

    def report(self) -> dict[str, Any]:
        """The sums of each engine, of all, and of families, as JSON can say them."""
        return {**self._books.report(), "families": self._families.rows()}
