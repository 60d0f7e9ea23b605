"""The door: one for all engines, for a tenant's limits span them. It waits for free slots and hands out permits.

    admit -> permit -> first_token -> ended(how, usage, written)

Everything that a permit holds is taken in one step of the loop and given back in one step, once, whatever happens in
between. Of those who wait and whose slots are free, tenants take turns; a client that leaves takes its place with it.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from proxy.admission.ask import Ask, Behind, ask
from proxy.admission.hold import Hold, Now
from proxy.admission.limits import Limits, Weighed
from proxy.admission.permit import ADMITTED, LEFT_THE_LINE, UNSERVED, Permit, free, spent
from proxy.admission.quota import ratelimit_headers
from proxy.admission.refusals import Denial
from proxy.admission.rules import Rule
from proxy.admission.slots import Slots
from proxy.admission.turns import Turns
from proxy.clock import Clock
from proxy.records import AdmissionVerdict, PrefixVerdict, RequestFacts, TokenCount, Usage

Gate = tuple[Rule, Slots]


class Waiter:
    """One request at the door.

    State: the slots that it has, and since when; what a rule that observes would have said.
    """

    __slots__ = ("gates", "observed", "slots", "taken_ns", "tenant", "turn")

    def __init__(self, gates: list[Gate], tenant: str | None) -> None:
        self.gates = gates
        self.tenant = tenant
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.slots: list[Slots] = []
        self.taken_ns: int | None = None
        self.observed: Denial | None = None

    @property
    def free(self) -> bool:
        """Whether it could take its slots now."""
        return not self.full()

    def full(self) -> list[Gate]:
        """The gates in force that have no slot for it now."""
        return [(rule, slots) for rule, slots in self.gates if rule.mode == "enforce" and not slots.free]

    def take(self, now_ns: int) -> None:
        """Take all slots, save those of a rule that observes and would have none."""
        for rule, slots in self.gates:
            if slots.free:
                slots.take(now_ns)
                self.slots.append(slots)
            else:
                self.observed = Denial(rule, "max_concurrency", slots.limit, 1)
        self.taken_ns = now_ns
        if not self.turn.done():  # its client leaves, or its time is over, in this very turn of the loop: it will see
            self.turn.set_result(None)

    def give(self, now_ns: int, *, served: bool) -> bool:
        """Give them back, `served` or not; whether it had any."""
        since_ns, self.taken_ns = self.taken_ns, None
        if since_ns is None:
            return False
        for slots in self.slots:
            slots.give(since_ns, now_ns, served=served)
        self.slots = []
        return True

    def wait_ns(self, now_ns: int) -> int:
        """How long it would wait if it came now: all that are full must have a slot for it."""
        return max((slots.wait_ns(now_ns) for _, slots in self.full()), default=0)


class Door:
    """Admits requests by the rules.

    State: the limits, and who waits.
    """

    __slots__ = ("_clock", "_line", "limits")

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self.limits = limits
        self._clock = clock
        self._line = Turns[Waiter]()

    def at(self, engine: Behind) -> "EngineDoor":
        """The door as one engine sees it."""
        return EngineDoor(self, engine)

    @property
    def looks_closely(self) -> bool:
        """Whether a rule judges what a body says, so that it must be read for certain."""
        return self.limits.sized

    async def admit(self, asked: Ask) -> Permit:
        """A permit where `open` gave none, perhaps after a wait. Raises Shed, PromptTooLong, OutputTooLong, BadRequest,
        QueueTimeout, with the verdict. Cancelled while it waits, it has taken nothing."""
        start = self._now()
        self.limits.sweep(start)
        weighed = self.limits.weigh(asked, start)
        if weighed.refusal is not None:
            raise self._refusal(weighed.refusal)
        hold = self.limits.take(weighed, asked, start)
        waiter = Waiter(self.limits.gates(weighed, asked), asked.tenant)
        try:
            behind = await self._pass(waiter)
        finally:
            if waiter.taken_ns is None:
                hold.settle(spent(self._now(), 0, "withdrawn", None, 0))
        verdict = self.limits.note(_verdict(weighed, waiter.observed, behind, self._clock.now_ns() - start.ns))
        return Permit(verdict, weighed.cap, lambda how, usage, written: self._end(hold, waiter, how, usage, written))

    def open(self, facts: RequestFacts) -> Permit | None:
        """A permit at once where no rule can say anything, for only inference is limited; None where one may."""
        if facts.route != "inference":
            return free()
        if self.limits.rules:
            return None
        self.limits.note(ADMITTED)
        return free()

    def headers(self, asked: Ask) -> list[tuple[bytes, bytes]]:
        """`x-ratelimit-*` for this client, as things stand now; none where nothing in force limits its rate."""
        return ratelimit_headers(*self.limits.quotas(asked, self._now()))

    def replace(self, rules: Iterable[Rule]) -> None:
        """Other rules from now on. Permits and places in line are kept."""
        self.limits.replace(rules)
        self._serve()

    def snapshot(self) -> dict[str, Any]:
        """Decisions by reason and mode, what is left of limits, who waits; as JSON."""
        return {"waiting": len(self._line)} | self.limits.snapshot(self._now())

    # --- the line ---

    async def _pass(self, waiter: Waiter) -> Denial | None:
        """Wait for the slots. Returns what it waited for; raises Shed where there is no room to wait, QueueTimeout."""
        if waiter.free:  # then nobody ahead wants the same slots: they are served as soon as theirs are free
            waiter.take(self._clock.now_ns())
            return None
        self._join(waiter)
        try:
            if (gate := _crowded(waiter)) is not None:
                self._leave(waiter)
                raise self._refusal(_no_room(*gate, waiter.wait_ns(self._clock.now_ns())))
            return await self._turn(waiter)
        finally:
            self._leave(waiter)

    async def _turn(self, waiter: Waiter) -> Denial:
        start = self._clock.now_ns()
        rule, slots = min(waiter.full(), key=lambda gate: gate[0].queue_timeout_s)
        try:
            async with asyncio.timeout(rule.queue_timeout_s):
                await waiter.turn
        except TimeoutError:
            if waiter.taken_ns is None:
                self._leave(waiter)
                now_ns = self._clock.now_ns()
                denial = Denial(rule, "queue_timeout_s", rule.queue_timeout_s, 1, waiter.wait_ns(now_ns))
                raise self._refusal(denial, now_ns - start) from None
        except asyncio.CancelledError:
            self.limits.note(LEFT_THE_LINE)
            self._give(waiter, served=False)
            raise
        return Denial(rule, "max_concurrency", slots.limit, 1)

    def _join(self, waiter: Waiter) -> None:
        self._line.join(waiter.tenant, waiter)
        for _, slots in waiter.gates:
            slots.waiting += 1

    def _leave(self, waiter: Waiter) -> None:
        """Out of the line, if it is still in it."""
        if self._line.leave(waiter.tenant, waiter):
            _no_longer_waits(waiter)

    def _serve(self) -> None:
        """Everybody whose slots are free gets them, in the order of their turns."""
        while (waiter := self._line.serve(lambda waiter: waiter.free)) is not None:
            _no_longer_waits(waiter)
            waiter.take(self._clock.now_ns())

    def _give(self, waiter: Waiter, *, served: bool) -> None:
        """The waiter's slots, if it has any, are free again, for the next in line."""
        if waiter.give(self._clock.now_ns(), served=served):
            self._serve()

    # --- the end ---

    def _end(self, hold: Hold, waiter: Waiter, how: str, usage: Usage | None, written: int) -> None:
        hold.settle(spent(self._now(), hold.n, how, usage, written))
        self._give(waiter, served=how not in UNSERVED)

    def _refusal(self, denial: Denial, waited_ns: int = 0) -> Exception:
        self.limits.note(denial.verdict(waited_ns))
        return denial.error(waited_ns)

    def _now(self) -> Now:
        return Now(self._clock.now_ns(), self._clock.wall_s())


class EngineDoor:
    """The door in front of one engine.

    State: how many wait here.
    """

    __slots__ = ("_door", "_engine", "waiting")

    def __init__(self, door: Door, engine: Behind) -> None:
        self._door = door
        self._engine = engine
        self.waiting = 0
        """Requests that wait for this engine: who waits for nothing is through before anybody can look."""

    async def admit(
        self, facts: RequestFacts, count: TokenCount | None, prefix: PrefixVerdict | None, tenant: str | None
    ) -> Permit:
        """A permit, perhaps after a wait. Raises Shed, Refused."""
        if (permit := self._door.open(facts)) is not None:
            return permit
        self.waiting += 1
        try:
            return await self._door.admit(ask(facts, count, tenant, self._engine))
        finally:
            self.waiting -= 1

    def headers(self, facts: RequestFacts, tenant: str | None) -> list[tuple[bytes, bytes]]:
        """`x-ratelimit-*` for this client."""
        return self._door.headers(ask(facts, None, tenant, self._engine)) if self._door.limits.rules else []


def _no_longer_waits(waiter: Waiter) -> None:
    for _, slots in waiter.gates:
        slots.waiting -= 1


def _crowded(waiter: Waiter) -> Gate | None:
    """A gate that has neither a slot nor a place in line for it."""
    return next(((rule, slots) for rule, slots in waiter.full() if slots.waiting > rule.queue_length), None)


def _no_room(rule: Rule, slots: Slots, wait_ns: int) -> Denial:
    limit, allowed = ("queue_length", rule.queue_length) if rule.queue_length else ("max_concurrency", slots.limit)
    return Denial(rule, limit, allowed, 1, wait_ns)


def _verdict(weighed: Weighed, full: Denial | None, behind: Denial | None, waited_ns: int) -> AdmissionVerdict:
    """What was decided of a request that passes; what an observing rule would have said stands beside it."""
    if behind is not None:
        return AdmissionVerdict("queued", behind.reason, behind.name, weighed.mode, waited_ns)
    observed = weighed.observed or full
    return observed.verdict() if observed is not None else AdmissionVerdict(mode=weighed.mode)
