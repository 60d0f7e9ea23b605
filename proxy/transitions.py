"""What may happen to an exchange, and when: the table that its recorder follows."""


class IllegalInput(RuntimeError):
    """The exchange cannot do this now: a bug of the caller. Nothing was changed."""


class Row(dict[str, "Row"]):
    """What may come next in one state, and the state after it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __missing__(self, word: str) -> "Row":
        raise IllegalInput(f"{word} while {self.name}")


NEXT: dict[str, dict[str, str]] = {
    "arrived": {
        "arrived": "arrived",
        "admitted": "admitted",
        "dispatched": "dispatched",
        "head": "answering",
        "end": "ended",
    },
    "admitted": {"dispatched": "dispatched", "head": "answering", "end": "ended"},
    # A second dispatch is a declared retry: what came before it is our own doing.
    "dispatched": {"dispatched": "dispatched", "head": "answering", "end": "ended"},
    # An engine may answer before it has all of a streamed upload: dispatch after the head changes nothing.
    "answering": {
        "dispatched": "answering",
        "read": "answering",
        "event": "answering",
        "blocked": "answering",
        "body_end": "answered",
        "end": "ended",
    },
    # What is still open when the body ends in due form is an event then.
    "answered": {"dispatched": "answered", "event": "answered", "blocked": "answered", "end": "ended"},
    "ended": {},
}


def _rows() -> dict[str, Row]:
    rows = {name: Row(name) for name in NEXT}
    for name, row in rows.items():
        row.update({word: rows[after] for word, after in NEXT[name].items()})
    return rows


ROWS = _rows()
