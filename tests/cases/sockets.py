"""Steps over real sockets in real time."""

from tests.cases.case import Case
from tests.cases.stage import Played


def impossible(case: Case) -> str | None:
    """Why this machine cannot play the case."""
    return "sockets: not built"


def play(case: Case) -> Played:
    """The case from a fresh product."""
    raise NotImplementedError
