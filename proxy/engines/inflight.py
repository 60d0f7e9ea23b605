"""What an engine has in flight, and what each exchange can learn from it: who was ahead, and for how long.

Sans-IO: time is an argument, in nanoseconds. Call `ended` when the engine's answer has ended, not when a slow client
has read it.
"""

from dataclasses import dataclass

from proxy.engines.runners import Runner, Runners
from proxy.records import Evidence, RequestFacts

LIMIT = 16_384
"""Exchanges that are held; more can only be a missing `ended`, and the oldest is dropped."""

TOGETHER_NS = 50_000_000
"""Two streams decode at once when both have for this long: ends that arrive a little late must teach nothing."""

NO_WAIT_NS = 50_000_000
"""An exchange that began sooner than this waited for nobody: a front end needs 2 to 40 ms."""


@dataclass(slots=True)
class _Flight:
    runner: Runner
    model: str | None
    takes_slot: bool
    place: int = -1
    """Order of dispatch; -1: not dispatched."""
    dispatched: int = 0
    ahead: int = 0
    ahead_left: int = 0
    freed: int | None = None
    """When fewer of those ahead were left than there are slots."""
    cleared: int | None = None
    """When none of those ahead was left."""
    others_left: int = 0
    others_done: int | None = None
    rivals: frozenset[str] = frozenset()
    swapped: bool | None = None
    running: int | None = None
    """Since when it is known to hold a slot."""


class InFlight:
    """The exchanges of one engine that are in flight.

    State: the flights by key, the order of the next dispatch, and what is known of runners (`runners`).
    """

    def __init__(self, runners: Runners) -> None:
        self.runners = runners
        self._flights: dict[str, _Flight] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._flights)

    def __repr__(self) -> str:
        return f"<InFlight {len(self)}>"

    def began(self, key: str, t: int, facts: RequestFacts) -> None:
        """An exchange for this engine has arrived."""
        if len(self._flights) >= LIMIT:
            del self._flights[next(iter(self._flights))]
        self._flights[key] = _Flight(self.runners.of(facts), facts.model, facts.route == "inference")

    def dispatched(self, key: str, t: int) -> None:
        """Its request is on the way; again after a retry."""
        flight = self._flights.get(key)
        if flight is None or not flight.takes_slot or not self.runners.slotted:
            return
        self._give_way(flight, t)
        flight.place = -1
        busy = [other for other in self._flights.values() if other.place >= 0]
        ahead = sum(other.runner.weights == flight.runner.weights for other in busy)
        others = [other for other in busy if other.runner != flight.runner]
        flight.place, flight.dispatched = self._next, t
        flight.ahead = flight.ahead_left = ahead
        flight.freed, flight.cleared, flight.others_done = None, None, None
        flight.others_left = len(others)
        flight.rivals = frozenset(other.model or "" for other in others)
        same_weights = all(other.runner.weights == flight.runner.weights for other in others)
        flight.swapped = True if others and same_weights else None
        self._next += 1

    def first_token(self, key: str, t: int) -> None:
        """Its first token is here: it holds a slot, and whoever still runs elsewhere had not to go for it."""
        flight = self._flights.get(key)
        if flight is None:
            return
        flight.running = t
        if flight.others_left:
            flight.swapped = False

    def ended(self, key: str, t: int, wait_ns: int | None = None) -> Evidence:
        """Its answer has ended; `wait_ns`: from dispatch to the start of its prompt, where the engine says so."""
        flight = self._flights.pop(key, None)
        if flight is None or flight.place < 0:
            return self.runners.evidence(None if flight is None else flight.runner)
        self._learn(flight, t, wait_ns)
        self._give_way(flight, t)
        slots = self.runners.slots(flight.runner) or 1
        return self.runners.evidence(flight.runner)._replace(
            ahead=flight.ahead,
            contended_ns=_lasted(flight, flight.freed, t) if flight.ahead >= slots else 0,
            busy_ns=_lasted(flight, flight.cleared, t) if flight.ahead else 0,
            others_done_ns=_since(flight, flight.others_done),
            swapped=flight.swapped,
        )

    def _give_way(self, flight: _Flight, t: int) -> None:
        """It has ended, or goes to the end of the line: those behind it have one less ahead; and those before it, that
        are not served yet, had one more."""
        if flight.place < 0:
            return
        slots = self.runners.slots(flight.runner) or 1
        for other in self._flights.values():
            if other.place > flight.place:
                _saw_end(other, flight, t, slots)
            elif not self.runners.orderly and other.place >= 0 and other.running is None and flight.running is not None:
                _overtaken(other, flight, t)

    def rivals(self, key: str) -> frozenset[str]:
        """Models of other runners that were in flight when this one was dispatched; ask before `ended`.

        After a long load, `runners.had_to_go(rivals, fingerprint.resident(ps))` says what `Evidence.swapped` is.
        """
        flight = self._flights.get(key)
        return frozenset() if flight is None else flight.rivals

    def _learn(self, flight: _Flight, t: int, wait_ns: int | None) -> None:
        """Slots are at least as many as were seen to be held at once, for long enough."""
        if wait_ns is not None and flight.running is None:
            flight.running = flight.dispatched + wait_ns
        since = t - TOGETHER_NS
        if flight.running is None:
            return
        peers = [other for other in self._flights.values() if other.runner.weights == flight.runner.weights]
        held = 1 + sum(other.running is not None and other.running <= since for other in peers)
        if flight.running > since:
            held = 1
        elif wait_ns is not None and wait_ns < NO_WAIT_NS:
            # Served at once, and those ahead, who are served first, are still here.
            held = max(held, 1 + flight.ahead_left)
        self.runners.learn(flight.runner, held)


def _saw_end(flight: _Flight, ended: _Flight, t: int, slots: int) -> None:
    if ended.runner.weights == flight.runner.weights:
        flight.ahead_left -= 1
        if flight.freed is None and flight.ahead_left < slots:
            flight.freed = t
        if not flight.ahead_left:
            flight.cleared = t
    if ended.runner != flight.runner:
        flight.others_left -= 1
        if not flight.others_left:
            flight.others_done = t


def _overtaken(flight: _Flight, ended: _Flight, t: int) -> None:
    """One that came later was served, and this one waits on."""
    if ended.runner.weights == flight.runner.weights:
        flight.ahead += 1
        if not flight.ahead_left:
            flight.freed = flight.cleared = t
    if ended.runner != flight.runner and flight.rivals and not flight.others_left:
        flight.others_done = t


def _lasted(flight: _Flight, until: int | None, t: int) -> int:
    """From dispatch until that moment, or the end `t` where it never came."""
    return (t if until is None else until) - flight.dispatched


def _since(flight: _Flight, mark: int | None) -> int | None:
    return None if mark is None else mark - flight.dispatched
