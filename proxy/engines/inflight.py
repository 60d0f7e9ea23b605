"""What an engine has in flight, and what each exchange can learn from it: who was ahead, and for how long.

Sans-IO: time is an argument, in nanoseconds. Call `ended` when the engine's answer has ended, not when a slow client
has read it.
"""

from collections import deque
from dataclasses import dataclass, field

from proxy.engines.runners import Rivals, Runner, Runners
from proxy.records import Evidence, RequestFacts

LIMIT = 16_384
"""Exchanges that are held; more can only be a missing `ended`, and the oldest is dropped."""

TOGETHER_NS = 50_000_000
"""Two streams decode at once when both have for this long: ends that arrive a little late must teach nothing."""

SPANS = 16
"""Exchanges that are over, of which it is remembered from when to when they held a slot."""

LATE_NS = 10_000_000
"""Our marks can be late by the loop's lag, and by the way to the engine."""


@dataclass(slots=True)
class _Flight:
    runner: Runner
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
    overtakers: int = 0
    overtaken: tuple[int, int] | None = None
    """When the first and the last of these ended: they came later, and were served while this one may have waited."""
    others: dict[Runner, int] = field(default_factory=dict)
    """When other runners last ended an exchange that it may have waited for."""
    running: int | None = None
    """Since when it is known to hold a slot."""


class InFlight:
    """The exchanges of one engine that are in flight.

    State: the flights by key, the order of the next dispatch, what is known of runners (`runners`), and since when
    until when the last that are over held a slot, less `TOGETHER_NS`, by their weights.
    """

    def __init__(self, runners: Runners) -> None:
        self.runners = runners
        self._flights: dict[str, _Flight] = {}
        self._next = 0
        self._spans: deque[tuple[str, int, int]] = deque(maxlen=SPANS)

    def __len__(self) -> int:
        return len(self._flights)

    def __repr__(self) -> str:
        return f"<InFlight {len(self)}>"

    def began(self, key: str, t: int, facts: RequestFacts) -> None:
        """An exchange for this engine has arrived."""
        if len(self._flights) >= LIMIT:
            del self._flights[next(iter(self._flights))]
        self._flights[key] = _Flight(self.runners.of(facts), facts.route == "inference")

    def dispatched(self, key: str, t: int) -> None:
        """Its request is on the way; again after a retry."""
        flight = self._flights.get(key)
        if flight is None or not flight.takes_slot or not self.runners.slotted:
            return
        self._give_way(flight, t)
        flight.place = -1
        busy = [other for other in self._flights.values() if other.place >= 0]
        ahead = sum(other.runner.weights == flight.runner.weights for other in busy)
        flight.place, flight.dispatched = self._next, t
        flight.ahead = flight.ahead_left = ahead
        flight.freed, flight.cleared = None, None
        flight.overtakers, flight.overtaken = 0, None
        flight.others.clear()
        self._next += 1

    def first_token(self, key: str, t: int) -> None:
        """Its first token is here: it holds a slot, and weights that others run on still had not to go for it."""
        flight = self._flights.get(key)
        if flight is None:
            return
        flight.running = t
        for other in self._flights.values() if flight.others else ():
            if other.running is not None and other.runner.weights != flight.runner.weights:
                flight.others.pop(other.runner, None)

    def ended(self, key: str, t: int, wait_ns: int | None = None, *, served: bool = True) -> Evidence:
        """Its answer has ended, and is whole if it was `served`; `wait_ns`: from dispatch to the start of its prompt,
        where the engine says so."""
        flight = self._flights.pop(key, None)
        if flight is None or flight.place < 0:
            return self.runners.evidence(None if flight is None else flight.runner)
        self._learn(flight, t, wait_ns)
        self._give_way(flight, t, served=served or flight.running is not None)
        slots = self.runners.slots(flight.runner) or 1
        _judge(flight, flight.running if wait_ns is None else flight.dispatched + wait_ns, slots)
        others = flight.others
        return self.runners.evidence(flight.runner)._replace(
            ahead=flight.ahead,
            contended_ns=_lasted(flight, flight.freed, t) if flight.ahead >= slots else 0,
            busy_ns=_lasted(flight, flight.cleared, t) if flight.ahead else 0,
            others_done_ns=max(others.values()) - flight.dispatched if others else None,
            swapped=True if {one.weights for one in others} == {flight.runner.weights} else None,
        )

    def _give_way(self, flight: _Flight, t: int, *, served: bool = False) -> None:
        """It has ended, or goes to the end of the line: those behind it have one less ahead. If it was served, those
        before it that are not, and those who want another runner, may have waited for it."""
        if flight.place < 0:
            return
        slots = self.runners.slots(flight.runner) or 1
        overtakes = served and not self.runners.orderly
        for other in self._flights.values():
            waits = other.place >= 0 and other.running is None
            if other.runner.weights == flight.runner.weights:
                if other.place > flight.place:
                    _saw_end(other, t, slots)
                elif waits and overtakes:
                    _overtaken(other, t)
            if waits and served and other.runner != flight.runner:
                other.others[flight.runner] = t

    def rivals(self, key: str) -> Rivals:
        """The other runners that ended an exchange while this one may have waited for it; ask before `ended`.

        After a long load, `runners.waited_for(rivals, facts, fingerprint.resident(ps))` says for which it has.
        """
        flight = self._flights.get(key)
        return {} if flight is None else {one: t - flight.dispatched for one, t in flight.others.items()}

    def _learn(self, flight: _Flight, t: int, wait_ns: int | None) -> None:
        """Slots are at least as many as were seen to be held at once, for long enough."""
        if wait_ns is not None and flight.running is None:
            flight.running = flight.dispatched + wait_ns
        if flight.running is None or not self.runners.learns:
            return
        since, weights = t - TOGETHER_NS, flight.runner.weights
        held = 1
        if flight.running <= since:
            peers = [one for one in self._flights.values() if one.runner.weights == weights]
            held += sum(one.running is not None and one.running <= since for one in peers)
            self._spans.append((weights, flight.running, since))
            spans = [(start, end) for whose, start, end in self._spans if whose == weights]
            held = max(held, *(sum(start <= at <= end for start, end in spans) for at, _ in spans))
        self.runners.learn(flight.runner, held)


def _saw_end(flight: _Flight, t: int, slots: int) -> None:
    flight.ahead_left -= 1
    if flight.freed is None and flight.ahead_left < slots:
        flight.freed = t
    if not flight.ahead_left:
        flight.cleared = t


def _overtaken(flight: _Flight, t: int) -> None:
    flight.overtakers += 1
    flight.overtaken = (t if flight.overtaken is None else flight.overtaken[0]), t


def _judge(flight: _Flight, start: int | None, slots: int) -> None:
    """Its prompt was begun at `start`, None where nobody knows: who ended later was not waited for."""
    if start is not None:
        start += LATE_NS
        flight.others = {one: t for one, t in flight.others.items() if t <= start}
    if flight.overtaken is not None and (start is None or flight.overtaken[0] <= start):
        flight.ahead += flight.overtakers
        if flight.ahead_left < slots:
            flight.freed = max(flight.freed or 0, flight.overtaken[1])
        if not flight.ahead_left:
            flight.cleared = max(flight.cleared or 0, flight.overtaken[1])


def _lasted(flight: _Flight, until: int | None, t: int) -> int:
    """From dispatch until that moment, or the end `t` where it never came."""
    return (t if until is None else until) - flight.dispatched
