"""What one admitted request has taken of rates and budgets, until it is settled with what it used."""

from collections.abc import Callable
from typing import NamedTuple

from proxy.admission.budget import Budget
from proxy.admission.gcra import Gcra


class Now(NamedTuple):
    """The time by both clocks."""

    ns: int
    """Monotonic, for rates."""
    wall_s: float
    """Since the epoch, for budgets."""


class Spent(NamedTuple):
    """What a request has used, when it ended."""

    now: Now
    requests: int
    prompt: int
    total: int


class Hold:
    """What one admitted request has taken.

    State: what is still to be settled.
    """

    __slots__ = ("_settlements", "n")

    def __init__(self, n: int) -> None:
        self.n = n
        """Prompt tokens charged until the engine has spoken."""
        self._settlements: list[Callable[[Spent], None]] = []

    def request(self, rate: Gcra, now: Now) -> None:
        """Takes one request of a rate."""
        charge = rate.charge(now.ns, 1)
        self._settlements.append(lambda spent: rate.settle(spent.now.ns, charge, 1, spent.requests))

    def prompt(self, rate: Gcra, now: Now) -> None:
        """Takes the prompt's tokens of a rate."""
        charge = rate.charge(now.ns, self.n)
        self._settlements.append(lambda spent: rate.settle(spent.now.ns, charge, self.n, spent.prompt))

    def tokens(self, budget: Budget, now: Now) -> None:
        """Takes the prompt's tokens of a budget; those of the output follow at the end."""
        opened = budget.charge(now.wall_s, self.n)
        self._settlements.append(lambda spent: budget.settle(opened, self.n, spent.total))

    def settle(self, spent: Spent) -> None:
        """The request has ended; only the first call counts."""
        settlements, self._settlements = self._settlements, []
        for settlement in settlements:
            settlement(spent)
